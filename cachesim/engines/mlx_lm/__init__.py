"""mlx-lm's server: cache classes, prompt cache, two generators, rules by version."""

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


ENGINE = Engine(
    "mlx_lm", PROFILES, MANUAL, serve_of(__name__, Rules, partial(options_of, Options), layout), say_of(__name__),
    RecordingFormat("mlx-lm"), LINE, BESIDE, when=TIMELINE,
    log=log_of(__name__), memory=memory_of(__name__),
    command=command_of(__name__),
)  # fmt: skip

start = ENGINE.start

__all__ = ["ENGINE", "PROFILES", "Rules", "start"]
