"""Simulator of llama.cpp's llama-server: memory, rules by version, server loop."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Mapping

from cachesim.base.errors import BadInput, quoted
from cachesim.engines.capabilities import Option
from cachesim.engines.contract import Engine, RecordingFormat
from cachesim.engines.llama_cpp.flags import Options, read_flags, recorded_options, write_flags
from cachesim.engines.llama_cpp.manual import MANUAL
from cachesim.engines.llama_cpp.memory.model_layout import model_kind
from cachesim.engines.llama_cpp.memory.saved_state import StateForm
from cachesim.engines.llama_cpp.profiles import BESIDE, COMMITS, LINE, NEWEST, PROFILES, TIMELINE, Rules
from cachesim.engines.llama_cpp.server import Server
from cachesim.engines.shared.flags import options_of
from cachesim.engines.shared.late_imports import memory_of
from cachesim.engines.shared.log_grammar import LogGrammar
from cachesim.engines.shared.rule_set import RuleSet
from cachesim.events import Log
from cachesim.model import make_model


def serve(rules: RuleSet, model: str, flags: Mapping[str, Option], mode: str, log: Log) -> Server:
    """Return a server of this version and model. ``mode``: "none", "provenance" or "exact". Raises BadInput."""
    if not isinstance(rules, Rules):
        raise BadInput(f"{quoted(rules.name)} is not a rule set of this engine")
    kind = replace(model_kind(model), form=StateForm(rules.ext_bytes, rules.data_header))
    tiny = None if mode == "none" else make_model(kind.spec, exact=mode == "exact")
    return Server(rules, kind, options_of(Options, {**rules.defaults, **flags}), tiny, log)


def say(rule: str, value: object, because: Mapping[str, Any]) -> str | None:
    """Return a decision as a sentence, None if its rule has none. Imports the sentences on first use: only reports need
    them."""
    from cachesim.engines.llama_cpp.sentences import SENTENCES

    return SENTENCES.say(rule, value, because)


def log() -> LogGrammar:
    """Return the grammar of the server's log lines. Imports it on first use: only log readers need it."""
    from cachesim.engines.llama_cpp.log_lines import GRAMMAR

    return GRAMMAR


ENGINE = Engine(
    "llama_cpp", PROFILES, MANUAL, serve, say,
    RecordingFormat("llama.cpp", COMMITS, (), read_flags, write_flags, options=recorded_options),
    LINE, BESIDE, NEWEST, when=TIMELINE, log=log, memory=memory_of(__name__),
)

start = ENGINE.start

__all__ = ["ENGINE", "PROFILES", "Rules", "Server", "start"]
