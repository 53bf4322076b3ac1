"""Verdicts of a judge (``verdict_words``) and the levels at which an answer can differ.

The worst verdict wins when several are combined; a check that raises an exception is undecided. The levels, the weakest
promise last: same provenance > same bits > same argmax.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Iterable, Mapping

from cachesim.base.brief_repr import brief_repr
from cachesim.judging.fault_kinds import FaultKind, fault_sentence
from cachesim.judging.verdict_words import WORDS, VerdictWord

WORST_FIRST = tuple(VerdictWord)
RUNGS = ("provenance", "bits", "argmax", "error", "unanswered", "aborted")
"""Levels of a difference, from the least to the most visible. "error" = an error where a cold run answers, "unanswered"
= no answer ever, although the server goes on, "aborted" = the server process ended."""


@dataclass(frozen=True, slots=True, repr=False)
class Verdict:
    """``word``: the verdict; ``rung``: the worst level of a difference; ``kind``: the fault, or the reason of an
    undecided verdict, with its ``numbers`` (and texts of the server); ``where``: the first position at which the cached
    and the cold run differ, -1 = unknown."""

    word: VerdictWord
    rung: str = ""
    kind: FaultKind | None = None
    numbers: Mapping[str, Any] = field(default_factory=dict)
    where: int = -1

    @property
    def why(self) -> str:
        """Return the fault or reason in a sentence."""
        return fault_sentence(self.kind, self.numbers)

    @property
    def equal_cold(self) -> bool | None:
        """True if the judged content equals a cold run's, False if it differs, None if this is undecided."""
        return WORDS[self.word].equal_cold

    def __repr__(self) -> str:
        return brief_repr(self)


CORRECT = Verdict(VerdictWord.CORRECT)


def undecided(kind: FaultKind, **numbers: Any) -> Verdict:
    """Return an undecided verdict for this reason."""
    return Verdict(VerdictWord.UNDECIDED, "", kind, numbers)


def wrong(rung: str, kind: FaultKind, where: int = -1, **numbers: Any) -> Verdict:
    """Return a wrong verdict at this level."""
    return Verdict(VerdictWord.WRONG, rung, kind, numbers, where)


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """Return the worst verdict by its word; among wrong verdicts the worst level."""
    return max((CORRECT, *verdicts), key=_badness)               # the first of equal verdicts


def _badness(verdict: Verdict) -> tuple[int, int]:
    return -WORST_FIRST.index(verdict.word), RUNGS.index(verdict.rung) if verdict.rung else -1


def outcome(run: Mapping[str, Any], as_expected: bool) -> bool | None:
    """Return True for a good run, False for a run that is wrong or differs from its file's expectations, None if
    undecided. Exit codes and tests use it. With ``as_expected`` a wrong run, or a run with undecided requests, is good
    if its file expects exactly that; a refused request is good if its file expects the status."""
    known = as_expected and run["as_expected"] is True
    if run["as_expected"] is False or (run["holds"] is False and not known):
        return False
    doubts = [one["i"] for one in run["requests"] if one["equal_cold"] is None and one["i"] not in run["told"]]
    if run["holds"] is None and not (known and doubts == run["unsettled"]):
        return None
    return True
