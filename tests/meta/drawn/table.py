"""Table of drawn faults by folder: how many were found, and by which tests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from tests.meta.drawn.drawing import DrawnFault
from tests.meta.drawn.results import Result
from tests.meta.drawn.search import FOLDER, LAWS, OWN, STEPS, SUITE

MIRROR = (OWN, FOLDER)
FOUND_BY = {SUITE: "found by other tests of `make test`", LAWS: "found by properties, conformance"}
SURVIVED, OPEN = "survived", "open"
COLUMNS = {"mirror": MIRROR, "others": (SUITE,), "laws": (LAWS,),
           **{what: (what,) for what in (SURVIVED, OPEN)}}  # fmt: skip
"""Head of a column of the table -> the outcomes that it counts."""


class Outcome(NamedTuple):
    """``what``: step that found a fault, or why none did. ``test``: test that found it."""

    what: str
    test: str = ""


def outcome(results: Sequence[Result | None]) -> Outcome:
    """Return the outcome for a fault, given the results of all steps in order; None = the step has not run. The first
    step is part of the second one."""
    for step, result in zip(STEPS, results, strict=False):
        if result is None and step != OWN:
            return Outcome(OPEN)
        if result is not None and result.test:
            return Outcome(step, result.test)
    return Outcome(SURVIVED)


def lines(outcomes: Mapping[DrawnFault, Outcome]) -> Iterator[str]:
    """Yield the table, the shares, and the faults that no mirroring unit test found."""
    width = max(map(len, (*(fault.folder for fault in outcomes), "all")))
    heads = ("drawn", *COLUMNS)
    yield f"{'folder':<{width}}" + "".join(f"{head:>{len(head) + 2}}" for head in heads)
    for folder in [*dict.fromkeys(fault.folder for fault in outcomes), "all"]:
        mine = [one.what for fault, one in outcomes.items() if folder in (fault.folder, "all")]
        numbers = (len(mine), *(sum(map(mine.count, what)) for what in COLUMNS.values()))
        yield f"{folder:<{width}}" + "".join(f"{n:>{len(head) + 2}}" for head, n in zip(heads, numbers, strict=True))
    yield from _shares([one.what for one in outcomes.values()])
    for what, title in {**FOUND_BY, SURVIVED: "survived", OPEN: "not yet run"}.items():
        named = {fault: one.test for fault, one in outcomes.items() if one.what == what}
        if named:
            yield f"\n{title}:"
        for fault, test in named.items():
            yield f"  {fault.name}" + (f"\n      {test}" if test else "")


def _shares(found: Sequence[str]) -> Iterator[str]:
    """Yield the shares of the faults that the steps have run for."""
    ran = len(found) - found.count(OPEN)
    by_all = sum(found.count(step) for step in STEPS)
    by_mirror = sum(found.count(step) for step in MIRROR)
    for what, n in (("found", by_all), ("found by the mirroring unit tests", by_mirror)):
        yield f"{what}: {n} of {ran}" + (f" ({100 * n / ran:.1f} %)" if ran else "")
