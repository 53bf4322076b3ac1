"""Names of an engine's package that are imported on first use."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Callable, Collection


def names_on_demand(module: str, names: Collection[str]) -> Callable[[str], Any]:
    """Return a ``__getattr__`` for a package: it returns these names of ``module``, which is imported on first use. It
    raises AttributeError for other names, so that submodules are imported as usual."""

    def found(name: str) -> Any:
        """Return a public name of the package."""
        if name not in names:
            raise AttributeError(f"module {module.rpartition('.')[0]!r} has no attribute {name!r}")
        return getattr(import_module(module), name)

    return found
