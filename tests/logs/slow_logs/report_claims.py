"""Claims of a report: everything that `import` states about a log, as numbers that can be compared.

This is the only module of the comparison that knows the form of the report.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any, Iterator, Mapping, Sequence

from rich.console import Console

from cachesim.tools.server_logs.import_log import import_log
from cachesim.tools.server_logs.report.import_report import import_report

WIDTH = 250
NAMES = {
    "n_tokens": "prompt", "cache_n": "reused", "prompt_n": "evaluated", "predicted_n": "generated", "lcp": "common",
    "held": "held", "end": "end", "lost": "lost",
}  # fmt: skip
"""Names of the numbers of a request, by their names in the report."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A statement of a report. ``part``: part of the report; ``task``: None = not about a request; ``name``: number or
    key of a cause; ``low``, ``high``: its range, None = open; ``text``: its words."""

    part: str
    name: str
    low: int | None = None
    high: int | None = None
    task: int | None = None
    value: Any = None
    text: str = ""

    @property
    def is_exact(self) -> bool:
        """True if one number is claimed."""
        return self.low is not None and self.low == self.high

    def contains(self, value: int) -> bool:
        """True if the range contains a value."""
        return (self.low is None or self.low <= value) and (self.high is None or value <= self.high)


@dataclass(frozen=True, slots=True)
class Report:
    """A report on a log: its claims, its result, and its first sentences. ``outcome``: "accepted", "rejected", "stopped
    early" or "not simulated"."""

    claims: Sequence[Claim]
    outcome: str
    headline: str
    missing: Sequence[str]


def report_on(file: Path) -> Report:
    """Return the report on a file. Raise BadInput if the importer refuses it."""
    data, _ = import_log(file)
    return report_of(data)


def report_of(data: Mapping[str, Any]) -> Report:
    """Return the report in the data of ``import --json``."""
    text = StringIO()
    Console(file=text, width=WIDTH, color_system=None).print(import_report(dict(data), "", False))
    claims = [*_statements(data["statements"]), *_simulated(data), *_client_changes(data), *_sums(data)]
    return Report(claims, _outcome(data), text.getvalue().splitlines()[1].strip(), data["missing"])


def _statements(statements: Sequence[Mapping[str, Any]]) -> Iterator[Claim]:
    for said in statements:
        if said["kind"] == "read":
            yield Claim("read", said["what"], task=said["task"], text=said["says"],
                        value=(tuple(said["lines"]), _printed(said["numbers"])))  # fmt: skip
            continue
        if said["what"] == "request":
            yield from _numbers("table", said["task"], said["numbers"], said["says"])
        elif said["what"] == "cause":
            low, high = _span(said["numbers"].get("lost"))
            yield Claim("cause", said["numbers"]["cause"], low, high, said["task"], said["lines"], said["says"])
        elif said["what"] == "contradiction":
            yield Claim("contradiction", ", ".join(said["numbers"]), task=said["task"], text=said["says"])
        else:
            for name, value in said["numbers"].items():
                yield Claim(said["what"], name, task=said["task"], value=value, text=said["says"])


def _printed(numbers: Mapping[str, Any]) -> tuple[float, ...]:
    """Return the numbers that a read statement takes from its line."""
    return tuple(float(value) for value in numbers.values()
                 if isinstance(value, int | float) and not isinstance(value, bool))  # fmt: skip


def _numbers(part: str, task: int | None, numbers: Mapping[str, Any], text: str = "") -> Iterator[Claim]:
    for name, value in numbers.items():
        if name in NAMES and value is not None:
            low, high = _span(value)
            yield Claim(part, NAMES[name], low, high, task, text=text)


def _span(value: Any) -> tuple[int | None, int | None]:
    return (value[0], value[1]) if isinstance(value, list | tuple) else (value, value)


def _simulated(data: Mapping[str, Any]) -> Iterator[Claim]:
    """Yield the numbers of the simulated requests, without those that the report calls assumed."""
    for row in data["requests"]:
        names = ("n_tokens", "cache_n", "prompt_n", "predicted_n")
        if row["task"] is None or row["left_out"] or "prompt length" in row["assumed"]:
            continue
        yield from _numbers("simulated", row["task"], {name: row[name] for name in names}, row["text"])
        if not row["assumed"] and row["lcp"] and not data["rejected"]:      # the report shows 0 as unknown
            yield from _numbers("simulated", row["task"], {"lcp": row["lcp"]}, row["text"])


def _client_changes(data: Mapping[str, Any]) -> Iterator[Claim]:
    tasks = {row["step"]: row for row in data["requests"]}
    for turn in data["turns"]:
        row = tasks.get(turn["number"])
        if turn["how"] and row is not None and row["task"] is not None:
            yield Claim("client change", turn["how"], task=row["task"], text=f"client: {turn['how']}")


def _sums(data: Mapping[str, Any]) -> Iterator[Claim]:
    """Yield the sums over the simulated requests with known lengths and counts; the value names their tasks, and
    whether one of them rests on an assumption."""
    summary = data["summary"]
    if summary["requests"]:
        rows = [row for row in data["requests"] if row["step"] >= 0 and row["n_tokens"] is not None
                and (row["prompt_n"] is not None or row["cache_n"] is not None)]  # fmt: skip
        is_assumed = any(row["assumed"] or row["task"] is None for row in rows)
        tasks = [row["task"] for row in rows]
        by_step = {row["step"]: row["task"] for row in rows}
        for kind in ("again", "from_nothing", "forced"):
            for step in summary[kind]:
                yield Claim("loss", kind, task=by_step.get(step), value=is_assumed, text=f"{kind}: request {step}")
        for name in ("tokens", "evaluated", "lost"):
            yield Claim("sum", name, summary[name], summary[name], value=(tasks, is_assumed), text=f"sum of {name}")


def _outcome(data: Mapping[str, Any]) -> str:
    if not data["line"]:
        return "not simulated"
    if data["rejected"]:
        return "rejected" if data["complete"] else "stopped early"
    return "stopped early" if data["undecided"] else "accepted"


@dataclass(frozen=True, slots=True)
class Headline:
    """Numbers of a headline. ``again``: tokens evaluated again, None = the log does not show it; ``is_least``: at least
    so many; ``requests``: that evaluated them; ``tokens``, ``counted``: prompt tokens and their requests. ``most``: at
    most so many tokens evaluated again, None = not stated."""

    again: int | None
    is_least: bool = False
    requests: int = 0
    share: int | None = None
    tokens: int | None = None
    counted: int | None = None
    most: int | None = None


_AGAIN = re.compile(r"^([\d,]+) requests? evaluated (at least )?([\d,]+) tokens? of a common prefix again")
_SHARE = re.compile(r"\((\d+) % of ([\d,]+) prompt tokens evaluated in ([\d,]+) requests? with known lengths\)")
_MOST = re.compile(r"^At most ([\d,]+) tokens? of a common prefix (?:was|were) evaluated again")
_NOTHING = "No tokens of a common prefix were evaluated again"
_UNKNOWN = ("The log does not show whether tokens of a common prefix", "The log shows no lengths of a request")
_TOTALS = re.compile(r"^[A-Z].*[\d,]+.*\.$")


def read_headline(text: str) -> Headline | None:
    """Return the numbers of a headline, None if its form is unknown."""
    again, share = _AGAIN.match(text), _SHARE.search(text)
    numbers = [_integer(word) for word in share.groups()] if share else [None] * 3
    if again:
        return Headline(_integer(again[3]), bool(again[2]), _integer(again[1]), *numbers)
    if most := _MOST.match(text):
        return Headline(None, False, 0, *numbers, most=_integer(most[1]))
    if text.startswith(_NOTHING):
        return Headline(0, False, 0, *numbers)
    if text.startswith(_UNKNOWN):
        return Headline(None, False, 0, *numbers)
    return Headline(None) if _TOTALS.match(text) else None


def _integer(text: str) -> int:
    return int(text.replace(",", ""))
