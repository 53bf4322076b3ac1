"""The ``Engine`` of this package: its rule sets, its options, and how its server starts."""

from __future__ import annotations

from functools import partial

from cachesim.engines.contract import Engine, RecordingFormat
from cachesim.engines.mlx_lm.flags import Options
from cachesim.engines.mlx_lm.manual import MANUAL
from cachesim.engines.mlx_lm.model_layout import model_kind
from cachesim.engines.mlx_lm.profiles import BESIDE, LINE, PROFILES, TIMELINE, Rules
from cachesim.engines.shared.engine_face import Layout, command_of, log_of, memory_of, say_of, serve_of
from cachesim.engines.shared.flags import options_of


def layout(model: str, rules: Rules) -> Layout:
    """Return a model as this engine lays it out. Raise BadInput."""
    kind = model_kind(model)
    return Layout(kind, kind.spec)


PACKAGE = __name__.rpartition(".")[0]
ENGINE = Engine(
    "mlx_lm", PROFILES, MANUAL, serve_of(PACKAGE, Rules, partial(options_of, Options), layout), say_of(PACKAGE),
    RecordingFormat("mlx-lm"), LINE, BESIDE, when=TIMELINE,
    log=log_of(PACKAGE), memory=memory_of(PACKAGE),
    command=command_of(PACKAGE),
)  # fmt: skip

start = ENGINE.start

__all__ = ["ENGINE", "PROFILES", "Rules", "start"]
