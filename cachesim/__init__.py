"""cachesim: the reference simulator of KV-cache and recurrent-state cache semantics in LLM servers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cachesim.conformance import conform as conform

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """``cachesim.conform``, imported when it is asked for: the package itself stays light."""
    if name == "conform":
        from cachesim.conformance import conform

        return conform
    raise AttributeError(f"module 'cachesim' has no attribute {name!r}")
