"""Simulator of llama.cpp's llama-server: memory, rules by version, server loop.

The engine is imported on first use, so that a module of this package, such as the log lines, stays light.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cachesim.engines.shared.package_names import names_on_demand

if TYPE_CHECKING:
    from cachesim.engines.llama_cpp.engine import ENGINE as ENGINE
    from cachesim.engines.llama_cpp.engine import MANUAL as MANUAL
    from cachesim.engines.llama_cpp.engine import PROFILES as PROFILES
    from cachesim.engines.llama_cpp.engine import start as start

__all__ = ["ENGINE", "MANUAL", "PROFILES", "start"]
__getattr__ = names_on_demand(f"{__name__}.engine", __all__)
