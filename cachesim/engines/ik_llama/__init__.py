"""ik_llama.cpp's server: its one memory, its rules by version, its loop."""

from __future__ import annotations

from typing import Any, Mapping

from cachesim.engines.ik_llama.inspect import agrees, checkpoints, held, kept, live, over, points
from cachesim.engines.ik_llama.manual import MANUAL
from cachesim.engines.ik_llama.memory.kinds import model_kind
from cachesim.engines.ik_llama.options import options
from cachesim.engines.ik_llama.profiles import BESIDE, COMMITS, LINE, PROFILES, Rules, changes, mixed, table_fields
from cachesim.engines.ik_llama.sentences import SENTENCES
from cachesim.engines.ik_llama.server import Server
from cachesim.events import Log
from cachesim.model import make_model

__all__ = [
    "BESIDE", "COMMITS", "LINE", "MANUAL", "PROFILES", "SENTENCES", "agrees", "changes", "checkpoints", "held",
    "kept", "live", "mixed", "over", "points", "start", "table_fields",
]


def start(profile: str | Rules, model: str, flags: Mapping[str, Any], mode: str, log: Log) -> Server:
    """A server of the given version (its name, or a table of one's own) and model. ``mode``: "none", "provenance" or
    "exact". Raises BadInput."""
    rules = PROFILES[profile] if isinstance(profile, str) else profile
    kind = model_kind(model)
    tiny = None if mode == "none" else make_model(kind.spec, exact=mode == "exact")
    return Server(rules, kind, options({**rules.defaults, **flags}), tiny, log)
