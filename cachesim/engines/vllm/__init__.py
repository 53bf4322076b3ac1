"""vLLM's v1 engine: scheduler, block pool with hashed blocks, groups of layers; rules by version."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Mapping

from cachesim.base.errors import BadInput, quoted
from cachesim.engines.capabilities import Option
from cachesim.engines.contract import Engine, RecordingFormat
from cachesim.engines.shared.log_grammar import LogGrammar
from cachesim.engines.shared.rule_set import RuleSet
from cachesim.engines.shared.size_formulas import split_sizes
from cachesim.engines.vllm.flags import options
from cachesim.engines.vllm.manual import MANUAL
from cachesim.engines.vllm.profiles import BESIDE, LINE, PROFILES, RENAMED, Rules
from cachesim.engines.vllm.recordings import CLASSES
from cachesim.engines.vllm.server import Server
from cachesim.events import Log
from cachesim.model import make_model, parse

if TYPE_CHECKING:
    from cachesim.engines.shared.memory_use import MemoryForms


def serve(rules: RuleSet, model: str, flags: Mapping[str, Option], mode: str, log: Log) -> Server:
    """Start a server of this version and model. ``mode``: "none", "provenance" or "exact". Raises BadInput."""
    if not isinstance(rules, Rules):
        raise BadInput(f"{quoted(rules.name)} is not a rule set of this engine")
    spec = parse(split_sizes(model)[0])
    tiny = None if mode == "none" else make_model(spec, exact=mode == "exact")
    return Server(rules, spec, options({**rules.defaults, **flags}), tiny, log)


def say(rule: str, value: object, because: Mapping[str, Any]) -> str | None:
    """Return a decision in words, or None without a sentence for it. Imports the sentences on first use, because
    only reports need them."""
    from cachesim.engines.vllm.sentences import SENTENCES

    return SENTENCES.say(rule, value, because)


def log() -> LogGrammar:
    """Return the grammar of the server's log. Imports it on first use, because only log readers need it."""
    from cachesim.engines.vllm.log_lines import GRAMMAR

    return GRAMMAR


def memory() -> MemoryForms:
    """Return the sizes of the server's caches. Imports them on first use."""
    from cachesim.engines.vllm.memory_use import FORMS

    return FORMS


ENGINE = Engine(
    "vllm", PROFILES, MANUAL, serve, say, RecordingFormat("vllm", classes=CLASSES), LINE, beside=BESIDE,
    newest="vllm@0.33.0", renamed=RENAMED,
    keeps="state", log=log, memory=memory,
)  # fmt: skip
