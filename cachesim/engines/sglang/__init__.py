"""SGLang's server: a radix tree over full attention, windows and recurrent states.

The engine is imported on first use, so that a module of this package, such as the log lines, stays light.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cachesim.engines.shared.package_names import names_on_demand

if TYPE_CHECKING:
    from cachesim.engines.sglang.engine import ENGINE as ENGINE
    from cachesim.engines.sglang.engine import PROFILES as PROFILES

__all__ = ["ENGINE", "PROFILES"]
__getattr__ = names_on_demand(f"{__name__}.engine", __all__)
