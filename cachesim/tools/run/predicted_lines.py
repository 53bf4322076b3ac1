"""Lines about verdicts and charges that depend on an outcome which no real server was seen to have."""

from __future__ import annotations

from typing import Any, Iterator, Mapping, Sequence

from rich.console import RenderableType

from cachesim.base.counted import counted
from cachesim.base.layout import indented
from cachesim.judging.evidence import PREDICTED

Data = Mapping[str, Any]
WHAT = {"verdict": "the wrong answer", "charge": "the re-evaluated tokens"}


def predicted_lines(found: Sequence[Data]) -> Iterator[RenderableType]:
    """One line for each outcome. ``found``: the dependences of ``run_data``."""
    groups: dict[tuple[str, str, str], list[int]] = {}
    for one in found:
        groups.setdefault((one["what"], one["rule"], one["case"]), []).append(one["request"])
    for (what, rule, case), numbers in groups.items():
        requests = counted(len(numbers), "request").partition(" ")[2]
        where = ", ".join(map(str, numbers))
        yield indented(f"{requests} {where}, {WHAT[what]}: {PREDICTED} ({rule}, case {case!r})", "yellow")
