"""llama.cpp's llama-server: its memory, its rules by version, its loop."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Mapping

from cachesim.engines.llama_cpp.inspect import agrees, checkpoints, held, kept, live, over
from cachesim.engines.llama_cpp.manual import MANUAL
from cachesim.engines.llama_cpp.memory.kinds import model_kind
from cachesim.engines.llama_cpp.memory.state import StateForm
from cachesim.engines.llama_cpp.options import options
from cachesim.engines.llama_cpp.points import points
from cachesim.engines.llama_cpp.profiles import (
    BESIDE,
    COMMITS,
    LINE,
    NEWEST,
    NOTES,
    PROFILES,
    RENAMED,
    Rules,
    changes,
    mixed,
    table_fields,
)
from cachesim.engines.llama_cpp.sentences import SENTENCES
from cachesim.engines.llama_cpp.server import Server
from cachesim.events import Log
from cachesim.model import make_model

__all__ = [
    "BESIDE", "COMMITS", "LINE", "MANUAL", "NEWEST", "NOTES", "PROFILES", "RENAMED", "SENTENCES", "agrees", "changes",
    "checkpoints", "held", "kept", "live", "mixed", "over", "points", "start", "table_fields",
]


def start(profile: str | Rules, model: str, flags: Mapping[str, Any], mode: str, log: Log) -> Server:
    """A server of the given version (its name, or a table of one's own) and model. ``mode``: "none", "provenance" or
    "exact". Raises BadInput."""
    rules = PROFILES[profile] if isinstance(profile, str) else profile
    kind = replace(model_kind(model), form=StateForm(rules.ext_bytes, rules.data_header))
    tiny = None if mode == "none" else make_model(kind.spec, exact=mode == "exact")
    return Server(rules, kind, options({**rules.defaults, **flags}), tiny, log)
