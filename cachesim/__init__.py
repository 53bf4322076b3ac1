"""cachesim: the reference simulator of KV-cache and recurrent-state cache semantics in LLM servers.

The public names are imported on first use, so that the package itself stays light:

    profiles   names of all rule sets
    rules      table of rules of a rule set
    load       a case: a scenario file, an id, or a line of requests
    run        run a case under a rule set
    judge      run a case and compare every answer with a cold run
    svg        picture of judged runs
    conform    conformance test of your own cache
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cachesim.api import judge as judge
    from cachesim.api import load as load
    from cachesim.api import profiles as profiles
    from cachesim.api import rules as rules
    from cachesim.api import run as run
    from cachesim.api import svg as svg
    from cachesim.tools.conformance import conform as conform

__all__ = ["conform", "judge", "load", "profiles", "rules", "run", "svg"]
__version__ = "0.2.0"


def __getattr__(name: str) -> Any:
    """Return a public name, imported on first use."""
    if name not in __all__:
        raise AttributeError(f"module 'cachesim' has no attribute {name!r}")
    if name == "conform":
        from cachesim.tools.conformance import conform as found
    else:
        from cachesim import api

        found = getattr(api, name)
    globals()[name] = found          # `cachesim.judge` is the function; the package of that name is still importable
    return found


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
