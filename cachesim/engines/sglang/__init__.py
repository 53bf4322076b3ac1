"""SGLang's server: a radix tree over full attention, windows and recurrent states."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Mapping

from cachesim.base.errors import BadInput, quoted
from cachesim.engines.capabilities import Option
from cachesim.engines.contract import Engine, RecordingFormat
from cachesim.engines.sglang.flags import options
from cachesim.engines.sglang.manual import MANUAL
from cachesim.engines.sglang.profiles import BESIDE, LINE, PROFILES
from cachesim.engines.sglang.profiles.rule_table import Rules
from cachesim.engines.sglang.recordings import CLASSES
from cachesim.engines.sglang.server import Server
from cachesim.engines.shared.log_grammar import LogGrammar
from cachesim.engines.shared.rule_set import RuleSet
from cachesim.events import Log
from cachesim.model import make_model, parse

if TYPE_CHECKING:
    from cachesim.engines.shared.memory_use import MemoryForms

RECORDED = RecordingFormat("sglang", {"0.5.23": "sglang@0.5.23-recorded"}, classes=CLASSES)


def serve(rules: RuleSet, model: str, flags: Mapping[str, Option], mode: str, log: Log) -> Server:
    """Start a server of this version and model. ``mode``: "none", "provenance" or "exact". Raises BadInput."""
    if not isinstance(rules, Rules):
        raise BadInput(f"{quoted(rules.name)} is not a rule set of this engine")
    spec = parse(model)
    if not any(layer.part == "base" for layer in spec.layers) and any(layer.window for layer in spec.layers):
        raise BadInput(f"model {quoted(model)} has windows only, which are not modelled for this engine")
    tiny = None if mode == "none" else make_model(spec, exact=mode == "exact")
    return Server(rules, spec, options({**rules.defaults, **flags}), tiny, log)


def say(rule: str, value: object, because: Mapping[str, Any]) -> str | None:
    """Return a decision in words, or None without a sentence for it. Imports the sentences on first use."""
    from cachesim.engines.sglang.sentences import SENTENCES

    return SENTENCES.say(rule, value, because)


def log() -> LogGrammar:
    """Return the grammar of the server's log. Imports it on first use, because only log readers need it."""
    from cachesim.engines.sglang.log_lines import GRAMMAR

    return GRAMMAR


def memory() -> MemoryForms:
    """Return the sizes of the server's caches. Imports them on first use."""
    from cachesim.engines.sglang.memory_use import FORMS

    return FORMS


ENGINE = Engine(
    "sglang", PROFILES, MANUAL, serve, say, RECORDED, LINE, BESIDE, newest="sglang@0.5.23",
    keeps="state", log=log, memory=memory,
)  # fmt: skip
