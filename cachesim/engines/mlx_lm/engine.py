"""The ``Engine`` of this package: its rule sets, its options, and how its server starts."""

from __future__ import annotations

from functools import partial

from cachesim.engines.contract import Engine, RecordingFormat
from cachesim.engines.mlx_lm.flags import Options
from cachesim.engines.mlx_lm.history import BESIDE, LINE, TIMELINE
from cachesim.engines.mlx_lm.manual import MANUAL
from cachesim.engines.shared.engine_face import (
    RuleSetsOnDemand,
    bodies_of,
    capacity_of,
    command_of,
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
    name="mlx_lm",
    profiles=PROFILES,
    manual=MANUAL,
    serve=serve_of(PACKAGE, partial(options_of, Options), layout_of("cachesim.engines.mlx_lm.model_layout")),
    say=say_of(PACKAGE),
    recorded=RecordingFormat("mlx-lm"),
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
