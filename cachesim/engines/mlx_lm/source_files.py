"""Short names of the mlx-lm files that rules were read from."""

from __future__ import annotations

from functools import partial

from cachesim.engines.rule import Source

mlx_lm = partial(Source, "ml-explore/mlx-lm")
"""Source in mlx-lm: file, function, commit or release."""

CACHE = "mlx_lm/models/cache.py"
SERVER = "mlx_lm/server.py"
GENERATE = "mlx_lm/generate.py"
