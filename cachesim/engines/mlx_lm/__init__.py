"""mlx-lm's server: cache classes, prompt cache, two generators, rules by version.

The engine is imported on first use, so that a module of this package, such as the log lines, stays light.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cachesim.engines.shared.package_names import names_on_demand

if TYPE_CHECKING:
    from cachesim.engines.mlx_lm.engine import ENGINE as ENGINE
    from cachesim.engines.mlx_lm.engine import PROFILES as PROFILES
    from cachesim.engines.mlx_lm.engine import start as start

__all__ = ["ENGINE", "PROFILES", "start"]
__getattr__ = names_on_demand(f"{__name__}.engine", __all__)
