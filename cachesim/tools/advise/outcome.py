"""What came of a case in a whole run: tokens evaluated, answers right or wrong, the memory that it took."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Sequence

from cachesim.base.errors import BadInput
from cachesim.engines.rule_files import typed
from cachesim.judging.judged_run import Run, run_judged
from cachesim.judging.lower_bound import Bound, lower_bound, sent
from cachesim.judging.try_command import case_words, line_words, set_words
from cachesim.scenarios.schema import Scenario
from cachesim.tools.advise.changes import Setup, SetupChange

# Which command line shows a case with its changes?

def command_words(one: Trial, base: Setup, asked: Sequence[str] = ()) -> list[str]:
    """What is typed behind ``cachesim try`` to see this: the line that the client sends then, or the case as it was
    named. Raises BadInput where no line can say it."""
    if any(change.client for change in one.changes):
        return line_words(one.case.scenario, one.case.profile)
    words = list(asked) or case_words(base.scenario, base.profile)
    if "-p" in words:
        del words[(at := words.index("-p")) : at + 2]
    changed = [word for change in one.changes for word in set_words(change.options)]
    return [words[0], "-p", typed(one.case.profile), *words[1:], *changed]


def sayable(one: Trial) -> bool:
    """Can a command line say what the client sends then?"""
    try:
        return not any(change.client for change in one.changes) or bool(line_words(one.case.scenario, one.case.profile))
    except BadInput:
        return False


MODE = "provenance"


class TrialOutcome(NamedTuple):
    """``evaluated`` prompt tokens, of ``each`` request; the numbers of requests that are ``wrong``, ``undecided`` or
    ``failed`` (no answer, an error, a server that ended); requests after which something stored is ``corrupt``."""

    evaluated: int
    each: tuple[int, ...]
    wrong: tuple[int, ...]
    undecided: tuple[int, ...]
    failed: tuple[int, ...]
    corrupt: tuple[int, ...]


@dataclass(frozen=True)
class Trial:
    """A case with these changes (none = as it is), what its requests must evaluate at least, and what came of it. The
    run is not kept: a search makes many."""

    changes: tuple[SetupChange, ...]
    case: Setup
    bound: Bound
    outcome: TrialOutcome

    @property
    def dearness(self) -> tuple[int, int, int]:
        """How dear the changes are: the dearest of them, how many there are, how many options."""
        kinds = [one.kind for one in self.changes]
        return max(kinds, default=0), len(kinds), sum(len(one.options) for one in self.changes)


def tried(case: Setup, changes: tuple[SetupChange, ...] = (), bound: Bound | None = None) -> Trial:
    """Play and judge a case, by provenance. ``bound``: that of its requests, None = not known yet. Raises BadInput for
    a case that this version cannot play."""
    run = run_judged(case.scenario, case.profile, MODE, bills=False)
    return Trial(changes, case, bound or bound_of(run), outcome_of(run))


def outcome_of(run: Run) -> TrialOutcome:
    """The outcome of a run."""
    each = tuple(one.answer.prompt_n for one in run.requests)
    told = list(enumerate(run.requests))
    return TrialOutcome(
        evaluated=sum(each),
        each=each,
        wrong=tuple(run.broken),
        undecided=tuple(i for i, one in told if one.judged.equal_cold is None),
        failed=tuple(i for i, one in told
                     if one.answer.died or one.answer.status != 200 or not one.answer.done),
        corrupt=tuple(i for i, one in told if one.judged.armed),
    )  # fmt: skip


def bound_of(run: Run) -> Bound:
    """What its requests must evaluate at least, on any server."""
    pairs = zip(run.requests, run.scenario.steps, strict=True)
    return lower_bound(sent(one.request, one.answer, step.together) for one, step in pairs)


def loses(scenario: Scenario, profile: str) -> bool:
    """Is more evaluated under this rule set than must be, or is an answer wrong?"""
    one = tried(Setup(scenario, profile))
    return bool(one.outcome.wrong) or one.outcome.evaluated > one.bound.total
