"""SGLang's server: a radix tree over full attention, windows and recurrent states."""

from __future__ import annotations

from typing import Any, Mapping

from cachesim.base.errors import BadInput, quoted
from cachesim.engines.capabilities import Option
from cachesim.engines.contract import RuleSet
from cachesim.engines.sglang.flags import options
from cachesim.engines.sglang.profiles import LINE, PROFILES, Rules
from cachesim.engines.sglang.server import Server
from cachesim.events import Log
from cachesim.model import make_model, parse


def serve(rules: RuleSet, model: str, flags: Mapping[str, Option], mode: str, log: Log) -> Server:
    """Start a server of this version and model. ``mode``: "none", "provenance" or "exact". Raises BadInput."""
    if not isinstance(rules, Rules):
        raise BadInput(f"{quoted(rules.name)} is not a rule set of this engine")
    spec = parse(model)
    tiny = None if mode == "none" else make_model(spec, exact=mode == "exact")
    return Server(rules, spec, options({**rules.defaults, **flags}), tiny, log)
