"""cachesim: the reference simulator of KV-cache and recurrent-state cache semantics in LLM servers.

The public names, imported when they are first used so that the package itself stays light:

    profiles   names of all rule sets
    rules      the table of rules of one
    load       a case: a scenario file, an id, requests in one line
    run        play a case under a rule set
    judge      play it and compare every answer with a cold run
    svg        what was judged as a picture
    conform    the same duty asked of a cache of your own
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
    """A public name, imported when it is asked for."""
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
