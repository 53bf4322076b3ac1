"""vLLM's v1 engine: scheduler, block pool with hashed blocks, groups of layers; rules by version.

The engine is imported on first use, so that a module of this package, such as the log lines, stays light.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cachesim.engines.shared.package_names import names_on_demand

if TYPE_CHECKING:
    from cachesim.engines.vllm.engine import ENGINE as ENGINE
    from cachesim.engines.vllm.engine import PROFILES as PROFILES

__all__ = ["ENGINE", "PROFILES"]
__getattr__ = names_on_demand(f"{__name__}.engine", __all__)
