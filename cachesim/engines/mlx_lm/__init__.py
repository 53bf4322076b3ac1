"""mlx-lm's server: cache classes, prompt cache, two generators, rules by version."""

from __future__ import annotations

from typing import Any, Mapping

from cachesim.base.errors import BadInput, quoted
from cachesim.engines.capabilities import Option
from cachesim.engines.contract import Engine, RecordingFormat
from cachesim.engines.mlx_lm.flags import Options
from cachesim.engines.mlx_lm.manual import MANUAL
from cachesim.engines.mlx_lm.model_layout import model_kind
from cachesim.engines.mlx_lm.profiles import BESIDE, LINE, PROFILES, TIMELINE, Rules
from cachesim.engines.mlx_lm.server import Server
from cachesim.engines.shared.flags import options_of
from cachesim.engines.shared.late_imports import memory_of
from cachesim.engines.shared.log_grammar import LogGrammar
from cachesim.engines.shared.rule_set import RuleSet
from cachesim.events import Log
from cachesim.model import make_model


def serve(rules: RuleSet, model: str, flags: Mapping[str, Option], mode: str, log: Log) -> Server:
    """Create a server of this version and model. ``mode``: "none", "provenance" or "exact". Raises BadInput."""
    if not isinstance(rules, Rules):
        raise BadInput(f"{quoted(rules.name)} is not a rule set of this engine")
    kind = model_kind(model)
    tiny = None if mode == "none" else make_model(kind.spec, exact=mode == "exact")
    return Server(rules, kind, options_of(Options, {**rules.defaults, **flags}), tiny, log)


def say(rule: str, value: object, because: Mapping[str, Any]) -> str | None:
    """Return a decision in words, or None without a sentence for it. Imports the sentences on first use, because
    only reports need them."""
    from cachesim.engines.mlx_lm.sentences import SENTENCES

    return SENTENCES.say(rule, value, because)


def log() -> LogGrammar:
    """Return the grammar of the server's log. Imports it on first use, because only log readers need it."""
    from cachesim.engines.mlx_lm.log_lines import GRAMMAR

    return GRAMMAR


ENGINE = Engine(
    "mlx_lm", PROFILES, MANUAL, serve, say, RecordingFormat("mlx-lm"), LINE, BESIDE,
    when=TIMELINE, log=log, memory=memory_of(__name__),
)  # fmt: skip

start = ENGINE.start

__all__ = ["ENGINE", "PROFILES", "Rules", "Server", "start"]
