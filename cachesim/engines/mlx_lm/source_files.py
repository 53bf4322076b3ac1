"""Files of mlx-lm that rules were read from, by short names."""

from __future__ import annotations

from functools import partial

from cachesim.engines.rule import Source

mlx_lm = partial(Source, "ml-explore/mlx-lm")
"""A source in mlx-lm: file, function, commit or release."""

CACHE = "mlx_lm/models/cache.py"
SERVER = "mlx_lm/server.py"
GENERATE = "mlx_lm/generate.py"
