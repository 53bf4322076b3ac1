"""The ``Engine`` of this package: its rule sets, its options, and how its server starts."""

from __future__ import annotations

from functools import partial

from cachesim.engines.contract import Engine, RecordingFormat
from cachesim.engines.ik_llama.flags import CONSTANT, UNCACHED, Options, read_flags, write_flags
from cachesim.engines.ik_llama.history import BESIDE, HASHES, LINE, TIMELINE
from cachesim.engines.ik_llama.manual import MANUAL
from cachesim.engines.shared.engine_face import (
    RuleSetsOnDemand,
    bodies_of,
    capacity_of,
    command_of,
    events_of,
    layout_of,
    log_of,
    memory_of,
    say_of,
    serve_of,
)
from cachesim.engines.shared.flags import options_of

PACKAGE = __name__.rpartition(".")[0]
PROFILES = RuleSetsOnDemand(PACKAGE, LINE, BESIDE)
ENGINE = Engine(
    name="ik_llama",
    profiles=PROFILES,
    manual=MANUAL,
    serve=serve_of(PACKAGE, partial(options_of, Options), layout_of("cachesim.engines.ik_llama.memory.model_layout")),
    say=say_of(PACKAGE),
    recorded=RecordingFormat(
        name="ik_llama.cpp",
        commits=HASHES,
        events=events_of(PACKAGE),
        read=read_flags,
        write=write_flags,
        base=True,
        constant=CONSTANT,
        uncached=UNCACHED,
    ),
    line=LINE,
    beside=BESIDE,
    when=TIMELINE,
    log=log_of(PACKAGE),
    memory=memory_of(PACKAGE),
    capacity=capacity_of(PACKAGE),
    command=command_of(PACKAGE),
    chat_bodies=bodies_of(PACKAGE),
)

start = ENGINE.start

__all__ = ["ENGINE", "PROFILES", "start"]
