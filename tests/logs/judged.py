"""Results of an excerpt, and what a statement cites: lines of the full logs, and the truths about its task."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Mapping, NamedTuple

from tests.logs.cuts import Excerpt, Origin
from tests.logs.full_logs import FullLog, TaskTruth

Said = Mapping[str, Any]
"""A statement as in ``import --json``."""


class False_(NamedTuple):
    """A false statement, and why it is false."""

    why: str
    said: Said


class Due(NamedTuple):
    """A request whose deciding line is in the excerpt: key of the decision, whether a true cause was named, task, and
    whether the request's own decision is there (else only earlier decisions are)."""

    key: str
    named: bool
    task: int
    own: bool = True


@dataclass(slots=True)
class Result:
    """Result of an excerpt. ``due``: requests with a deciding line in the excerpt; ``earlier``: keys of the earlier
    decisions among them, whether a log may show that the decision concerned this request, and whether that key was
    named; ``apart``: keys of decisions about other texts, and whether that key was named."""

    false: list[False_] = field(default_factory=list)
    cache_lines: int = 0
    covered: int = 0
    silent: list[str] = field(default_factory=list)  # cache lines without a statement
    due: list[Due] = field(default_factory=list)
    earlier: list[tuple[str, bool, bool]] = field(default_factory=list)
    apart: list[tuple[str, bool]] = field(default_factory=list)
    said: Counter[str] = field(default_factory=Counter)
    unjudged: int = 0


UNJUDGED = "unjudged"
"""Verdict about a statement whose truth the generator does not know."""


def origins(excerpt: Excerpt, said: Said) -> list[Origin]:
    """Return the lines of the full logs that a statement cites."""
    return [
        one for number in said["lines"] if 0 < number <= len(excerpt.origins) for one in excerpt.origins[number - 1]
    ]


def tasks(excerpt: Excerpt, said: Said) -> list[tuple[FullLog, TaskTruth]]:
    """Return the truths about the task of a statement: by its id, else by the lines that it cites."""
    cited = origins(excerpt, said)
    logs = {one.log for one in cited} or {0}
    if said["task"] is not None:
        return [(excerpt.logs[at], excerpt.logs[at].tasks[said["task"]]) for at in sorted(logs)
                if said["task"] in excerpt.logs[at].tasks]  # fmt: skip
    found: dict[int, tuple[FullLog, TaskTruth]] = {}
    for one in cited:
        log, line = excerpt.logs[one.log], excerpt.source(one)
        for task, truth in log.tasks.items():
            if truth.step in line.steps if line.task is None else task == line.task:
                found[id(truth)] = log, truth
    return list(found.values())


def without_truth(excerpt: Excerpt, said: Said) -> str:
    """Return the verdict about a statement on a task without a truth: a request that got no answer is not judged."""
    cited = origins(excerpt, said)
    of_task = [line for one in cited for line in excerpt.logs[one.log].lines if line.ev and line.task == said["task"]]
    known = of_task if said["task"] is not None else any(excerpt.source(one).ev for one in cited)
    return UNJUDGED if known else "no such task"


def contains(claimed: Any, value: int) -> bool:
    """True if a number, or a range with open ends None, contains a value."""
    if isinstance(claimed, list | tuple):
        low, high = claimed
        return (low is None or low <= value) and (high is None or value <= high)
    return not isinstance(claimed, bool) and claimed == value
