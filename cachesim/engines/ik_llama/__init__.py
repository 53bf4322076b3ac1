"""Engine ik_llama: ik_llama.cpp's server with its memory, its rules by version, and its main loop."""

from __future__ import annotations

from typing import Any, Mapping

from cachesim.base.errors import BadInput, quoted
from cachesim.engines.capabilities import Option
from cachesim.engines.contract import Engine, RecordingFormat
from cachesim.engines.ik_llama.events import LOGGED
from cachesim.engines.ik_llama.flags import CONSTANT, UNCACHED, Options, read_flags, write_flags
from cachesim.engines.ik_llama.manual import MANUAL
from cachesim.engines.ik_llama.memory.model_layout import model_kind
from cachesim.engines.ik_llama.profiles import BESIDE, COMMITS, LINE, PROFILES, TIMELINE, Rules
from cachesim.engines.ik_llama.server import Server
from cachesim.engines.shared.flags import options_of
from cachesim.engines.shared.late_imports import memory_of
from cachesim.engines.shared.log_grammar import LogGrammar
from cachesim.engines.shared.rule_set import RuleSet
from cachesim.events import Log
from cachesim.model import make_model


def serve(rules: RuleSet, model: str, flags: Mapping[str, Option], mode: str, log: Log) -> Server:
    """Start a server of this version and model. ``mode``: "none", "provenance" or "exact". Raises BadInput."""
    if not isinstance(rules, Rules):
        raise BadInput(f"not a rule set of this engine: {quoted(rules.name)}")
    kind = model_kind(model)
    tiny = None if mode == "none" else make_model(kind.spec, exact=mode == "exact")
    return Server(rules, kind, options_of(Options, {**rules.defaults, **flags}), tiny, log)


def say(rule: str, value: object, because: Mapping[str, Any]) -> str | None:
    """Return the sentence of a decision, None if it has none. The sentences are imported on demand, because only
    reports use them."""
    from cachesim.engines.ik_llama.sentences import SENTENCES

    return SENTENCES.say(rule, value, because)


def log() -> LogGrammar:
    """Return the grammar of the server's log. It is imported on demand, because only log readers use it."""
    from cachesim.engines.ik_llama.log_lines import GRAMMAR

    return GRAMMAR


ENGINE = Engine(
    "ik_llama", PROFILES, MANUAL, serve, say,
    RecordingFormat("ik_llama.cpp", COMMITS, LOGGED, read_flags, write_flags, True, CONSTANT, UNCACHED),
    LINE, BESIDE, when=TIMELINE, log=log, memory=memory_of(__name__))

start = ENGINE.start

__all__ = ["ENGINE", "PROFILES", "Rules", "Server", "start"]
