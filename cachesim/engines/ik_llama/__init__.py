"""Engine ik_llama: ik_llama.cpp's server with its memory, its rules by version, and its main loop."""

from __future__ import annotations

from functools import partial

from cachesim.engines.contract import Engine, RecordingFormat
from cachesim.engines.ik_llama.flags import CONSTANT, UNCACHED, Options, read_flags, write_flags
from cachesim.engines.ik_llama.manual import MANUAL
from cachesim.engines.ik_llama.memory.model_layout import model_kind
from cachesim.engines.ik_llama.profiles import BESIDE, COMMITS, LINE, PROFILES, TIMELINE, Rules
from cachesim.engines.shared.engine_face import Layout, command_of, events_of, log_of, memory_of, say_of, serve_of
from cachesim.engines.shared.flags import options_of


def layout(model: str, rules: Rules) -> Layout:
    """Return a model as this engine lays it out. Raise BadInput."""
    kind = model_kind(model)
    return Layout(kind, kind.spec)


ENGINE = Engine(
    "ik_llama", PROFILES, MANUAL, serve_of(__name__, Rules, partial(options_of, Options), layout), say_of(__name__),
    RecordingFormat("ik_llama.cpp", COMMITS, events_of(__name__), read_flags, write_flags, True, CONSTANT, UNCACHED),
    LINE, BESIDE, when=TIMELINE, log=log_of(__name__), memory=memory_of(__name__),
    command=command_of(__name__))

start = ENGINE.start

__all__ = ["ENGINE", "PROFILES", "Rules", "start"]
