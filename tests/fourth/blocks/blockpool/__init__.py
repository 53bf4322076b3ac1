"""Block pool with a hash chain, as in vLLM v1: full attention, recurrent states, or both, in blocks of a common pool.

An external engine: it uses only cachesim's public contract, and nothing of the built-in engines.
"""

from __future__ import annotations

from typing import Mapping

from blockpool.flags import options, spec_of
from blockpool.manual import MANUAL
from blockpool.profiles import LINE, PROFILES, Rules
from blockpool.sentences import SENTENCES
from blockpool.server import Server
from cachesim.base.errors import BadInput, quoted
from cachesim.engines.capabilities import Option
from cachesim.engines.contract import Engine, RecordingFormat, RuleSet
from cachesim.events import Log
from cachesim.model import make_model


def serve(rules: RuleSet, model: str, flags: Mapping[str, Option], mode: str, log: Log) -> Server:
    """Start a server of this version and model. ``mode``: "none", "provenance" or "exact". Raise BadInput."""
    if not isinstance(rules, Rules):
        raise BadInput(f"not a rule set of this engine: {quoted(rules.name)}")
    spec = spec_of(model)
    tiny = None if mode == "none" else make_model(spec, exact=mode == "exact")
    return Server(rules, spec, options(flags), tiny, log)


ENGINE = Engine("blockpool", PROFILES, MANUAL, serve, SENTENCES.say, RecordingFormat("blockpool"), LINE, keeps="state")
