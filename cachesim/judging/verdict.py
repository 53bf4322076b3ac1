"""The three verdicts of a judge, and the comparison levels that say how bad a difference is.

holds / broken / undecided; worst wins when answers are put together, and a checker that raises is undecided.
The levels, the weakest promise last: same provenance > same bits > same argmax.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Iterable, Mapping

from cachesim.judging.fault_kinds import Kind, said

RUNGS = ("provenance", "bits", "argmax", "error", "aborted")
"""What differs, from the least to the most visible; "error" = an error where a cold run answers, "aborted" = the server
process ended."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """``holds`` True, False, or None = undecided; ``rung`` the worst level at which it differs; ``kind`` what is wrong
    or why nothing is known, with its ``numbers`` (and texts of the server); ``where`` the first position at
    which cached and cold differ (-1 = not known)."""

    holds: bool | None
    rung: str = ""
    kind: Kind | None = None
    numbers: Mapping[str, Any] = field(default_factory=dict)
    where: int = -1

    @property
    def why(self) -> str:
        """One plain sentence."""
        return said(self.kind, self.numbers)

    @property
    def word(self) -> str:
        """The verdict in one word."""
        return {True: "holds", False: "broken", None: "undecided"}[self.holds]


HOLDS = Verdict(True)


def undecided(kind: Kind, **numbers: Any) -> Verdict:
    """Nothing is known, because of this."""
    return Verdict(None, "", kind, numbers)


def broken(rung: str, kind: Kind, where: int = -1, **numbers: Any) -> Verdict:
    """This is wrong, at this level."""
    return Verdict(False, rung, kind, numbers, where)


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """The worst of several: broken before undecided before holds; of broken ones the worst level."""
    return max((HOLDS, *verdicts), key=_badness)               # of equals the first


def _badness(verdict: Verdict) -> int:
    if verdict.holds is None:
        return 1
    return 0 if verdict.holds else 2 + RUNGS.index(verdict.rung)


# Is a judged run good? The answer that exit codes and tests agree on, from the plain data of a run.

def outcome(run: Mapping[str, Any], as_expected: bool) -> bool | None:
    """True good, False broken or not as its file says, None undecided. With ``as_expected`` a broken run, and one with
    requests that cannot be settled, is good where its file says exactly that; a refused request is good where its file
    expects the status."""
    known = as_expected and run["as_expected"] is True
    if run["as_expected"] is False or (run["holds"] is False and not known):
        return False
    doubts = [one["i"] for one in run["requests"] if one["equal_cold"] is None and one["i"] not in run["told"]]
    if run["holds"] is None and not (known and doubts == run["unsettled"]):
        return None
    return True
