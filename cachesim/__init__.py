"""cachesim: the reference simulator of KV-cache and recurrent-state cache semantics in LLM servers.

The public names are imported on first use, so that the package itself stays light:

    profiles         names of all rule sets
    rules            table of rules of a rule set
    load             a case: a scenario file, an id, or a line of requests
    run              run a case under rule sets
    judge            run a case and compare every answer with a cold run
    svg              picture of judged runs
    conform          conformance test of your own cache

    RunTranscript    result of run
    JudgedRun        result of judge
    Runs             results under several rule sets

    BadInput         an argument or a file that cannot be used
    NotCorrect       raised by judge(check=True)
    Nonconforming    raised by conform
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
    from cachesim.base.errors import BadInput as BadInput
    from cachesim.records import JudgedRun as JudgedRun
    from cachesim.records import NotCorrect as NotCorrect
    from cachesim.records import Runs as Runs
    from cachesim.records import RunTranscript as RunTranscript
    from cachesim.tools.conformance import Nonconforming as Nonconforming
    from cachesim.tools.conformance import conform as conform

_HOMES = {
    **dict.fromkeys(("judge", "load", "profiles", "rules", "run", "svg"), "cachesim.api"),
    **dict.fromkeys(("JudgedRun", "NotCorrect", "RunTranscript", "Runs"), "cachesim.records"),
    **dict.fromkeys(("Nonconforming", "conform"), "cachesim.tools.conformance"),
    "BadInput": "cachesim.base.errors",
}
"""Module of each public name."""
__all__ = [
    "BadInput", "JudgedRun", "Nonconforming", "NotCorrect", "RunTranscript", "Runs", "conform", "judge", "load",
    "profiles", "rules", "run", "svg",
]  # fmt: skip
__version__ = "0.2.0"


def __getattr__(name: str) -> Any:
    """Return a public name, imported on first use."""
    if name not in _HOMES:
        raise AttributeError(f"module 'cachesim' has no attribute {name!r}")
    from importlib import import_module

    found = getattr(import_module(_HOMES[name]), name)
    globals()[name] = found          # `cachesim.judge` is the function; the package of that name is still importable
    return found


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
