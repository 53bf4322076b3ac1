"""Engine ik_llama: ik_llama.cpp's server with its memory, its rules by version, and its main loop.

The engine is imported on first use, so that a module of this package, such as the log lines, stays light.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cachesim.engines.shared.package_names import names_on_demand

if TYPE_CHECKING:
    from cachesim.engines.ik_llama.engine import ENGINE as ENGINE
    from cachesim.engines.ik_llama.engine import PROFILES as PROFILES
    from cachesim.engines.ik_llama.engine import start as start

__all__ = ["ENGINE", "PROFILES", "start"]
__getattr__ = names_on_demand(f"{__name__}.engine", __all__)
