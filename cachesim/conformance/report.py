"""What is known about an implementation in the end: one result per property, as data and as text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Iterator, Mapping, Sequence

from cachesim.tokens import Tokens

WORDS = ("holds", "broken", "undecided", "unsupported", "accepted")
"""Possible states of a property; "accepted" = broken, and listed as such with a reason."""


@dataclass(frozen=True, slots=True)
class Finding:
    """The smallest history that shows it: ``line`` in the project's notation, ``request`` (from 0) that is wrong.
    ``prompts`` are the tokens that were really sent, request by request."""

    line: str
    request: int
    expected: str
    came: str
    prompts: tuple[Tokens, ...]


@dataclass(frozen=True, slots=True)
class Result:
    """One property: its ``state``, how often it was looked at, in how many of these something was reused, ``why`` where
    the state needs a reason."""

    name: str
    sentence: str
    state: str
    seen: int = 0
    reused: int = 0
    why: str = ""
    finding: Finding | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """All results, and how many histories were played."""

    results: tuple[Result, ...]
    histories: int

    def state(self, name: str) -> str:
        """The state of a property. Raises KeyError for a name that is none."""
        return self[name].state

    def __getitem__(self, name: str) -> Result:
        return {one.name: one for one in self.results}[name]

    @property
    def failing(self) -> tuple[Result, ...]:
        """What keeps the implementation from conforming: everything broken, and everything undecided."""
        return tuple(one for one in self.results if one.state in ("broken", "undecided"))

    @property
    def conforms(self) -> bool:
        """Is nothing broken and nothing undecided?"""
        return not self.failing

    def data(self) -> dict[str, Any]:
        """The report in plain data."""
        return {"conforms": self.conforms, "histories": self.histories, "properties": [_data(r) for r in self.results]}

    def __str__(self) -> str:
        return "\n".join(_lines(self))


class Nonconforming(AssertionError):
    """An implementation does not keep what a cache owes; ``report`` says what."""

    def __init__(self, report: Report) -> None:
        self.report = report
        super().__init__(f"{report}")


def _data(result: Result) -> dict[str, Any]:
    found = result.finding
    shown: Mapping[str, Any] = {} if found is None else {
        "line": found.line, "request": found.request, "expected": found.expected, "came": found.came,
        "prompts": [list(one) for one in found.prompts],
    }  # fmt: skip
    return {"name": result.name, "sentence": result.sentence, "state": result.state, "seen": result.seen,
            "reused": result.reused, "why": result.why, "finding": dict(shown) or None}  # fmt: skip


def _lines(report: Report) -> Iterator[str]:
    yield f"{_counted(report.results)}; {report.histories} histories"
    for one in report.results:
        state = one.state.upper() if one.state == "broken" else one.state
        yield f"  {one.name:<11}{state:<12}{_about(one)}"
        if one.finding is not None:
            yield from _finding(one.finding)


def _counted(results: Sequence[Result]) -> str:
    counts = {word: sum(one.state == word for one in results) for word in WORDS}
    return ", ".join(f"{count} {word}" for word, count in counts.items() if count)


def _about(result: Result) -> str:
    if result.why:
        return result.why
    if result.state == "broken":
        return result.sentence
    return f"{result.seen} times" + (f", {result.reused} with reuse" if result.reused else "")


def _finding(found: Finding) -> Iterator[str]:
    yield f"      {found.line}"
    yield f"      request {found.request}: expected {found.expected}"
    yield f"      {'':<{len(str(found.request)) + 8}}  came     {found.came}"
