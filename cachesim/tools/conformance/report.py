"""Report of a conformance run: the result of each property, by sections, as data, text and JUnit XML."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import Any, Iterable, Iterator, Mapping, NamedTuple, Self, Sequence

from cachesim.base.errors import BadInput, counted, nearest, quoted
from cachesim.base.escaping import printable_line
from cachesim.base.tokens import Tokens
from cachesim.tools.conformance.corpus import DrawBounds
from cachesim.tools.conformance.history_player import HistoryRun
from cachesim.tools.conformance.properties import PropertyCheck
from cachesim.tools.conformance.timeouts import NOT_RUN

# Sections of the suite. An adapter and a running server have equal sections in equal order.

SECTIONS = {
    "noise": "distance between cold runs of one request",
    "same": "a request is answered as on a cold run",
    "known": "histories of known faults",
    "drawn": "drawn histories",
    "reuse": "evaluated tokens are not evaluated from the start again",
    "isolation": "other conversations do not change an answer",
    "books": "reported counts add up",
    "faults": "errors and disconnecting clients leave the cache sound",
    "parallel": "requests that arrive together, interleaved conversations, drafts",
}
"""Description of every section; its number is its place, from 1."""

MEMBERS: Mapping[str, Sequence[str]] = {
    "noise": ("steady",),
    "same": ("append", "branch", "prefix", "repeat", "uncached"),
    "known": (),
    "drawn": (),
    "reuse": ("extension", "return", "regenerate"),
    "isolation": ("new", "key", "adapter", "base", "image"),
    "books": ("accounting", "unseen", "work", "stored", "limits"),
    "faults": ("answers", "cancel"),
    "parallel": ("burst", "identical", "drafts"),
}
"""Properties of each section. "known" and "drawn" have none of their own: only their histories are counted there."""

BASIC: Mapping[str, Sequence[str]] = {
    "same": ("A{n}>a4/A.a.B8", "A{n}>a4/A[:{h}].B8", "A{n}>a4/A[:{h}]", "A{n}>a4/A", "A{n}>a4/A.a.B8!"),
    "isolation": ("A{n}>a4/B{n}", "A{n}>a4/B{n}/A.a.C8"),
    "faults": ("A{n}{{cancel_after=0}}/A.B8", "A{n}>4{{cancel_after=1}}/A.B8"),
    "parallel": ("A{n}/B{h}{{together}}", "A{n}>4/A>4{{together}}/A>4{{together}}/A>4{{together}}"),
}
"""Histories that a section always runs: ``n`` tokens, ``h`` half of them."""

MOVED = ("A{n}.B{n}/B.A.C8", "A{n}.B8/A.A.C8")
"""Histories whose second prompt has text of the first at another place, for each size ``n`` of the implementation: a
block must not be found by its own tokens alone. Drawn prompts share only beginnings."""

FLOORS: Mapping[str, str] = {"extension": "A{n}>a4/A.a.B8", "return": "A{n}>a4/B{n}/A.a.C8", "regenerate": "A{n}>a4/A"}
"""Histories in which the last request must reuse something."""

SHORT, ROOM = 24, 12         # least tokens of the first prompt; most additional tokens of the others
NEEDS = {"!": "cache", "together": "burst", "cancel_after=0": "cancel_prompt", "cancel_after=1": "cancel_answer"}


def chosen(only: Sequence[str], known: bool) -> frozenset[str]:
    """Return the selected sections, by default all; "known" only if ``known`` is true. Raise BadInput."""
    for name in only:
        if name not in SECTIONS:
            raise BadInput(f"only: unknown section {quoted(name)}", hint=nearest(name, SECTIONS) or ", ".join(SECTIONS))
    return frozenset(only or (name for name in SECTIONS if known or name != "known"))


def basic_lines(sections: frozenset[str], space: DrawBounds) -> Iterator[str]:
    """Yield the histories that these sections always run, if they fit and the implementation has the abilities."""
    names = sections | ({"same"} if sections & {"noise", "books"} else set())
    for name in SECTIONS:
        for pattern in BASIC.get(name, ()) if name in names else ():
            if line := _sized(pattern, space):
                yield line
        if name == "isolation" and name in names:
            yield from _moved_lines(space)


def _moved_lines(space: DrawBounds) -> Iterator[str]:
    """Yield the histories with moved text that fit."""
    for size in sorted({*space.near}):
        if size >= 2 and 2 * size + ROOM <= space.most_prompt and space.most_requests > 1:
            yield from (pattern.format(n=size) for pattern in MOVED)


def floor_lines(space: DrawBounds) -> dict[str, str]:
    """Return the history of each property of "reuse" that fits."""
    lines = {name: _sized(pattern, space) for name, pattern in FLOORS.items()}
    return {name: line for name, line in lines.items() if line}


def _sized(pattern: str, space: DrawBounds) -> str:
    """Return the line, "" if it does not fit. If possible, prompts exceed twice the largest size of the implementation,
    because only whole blocks and chunks are reused."""
    n = min(max(SHORT, 2 * max(space.near, default=0) + 2), space.most_prompt - ROOM)
    line = pattern.format(n=n, h=n // 2)
    able = all(ability in space.abilities for sign, ability in NEEDS.items() if sign in line)
    return line if n >= 2 and able and line.count("/") < space.most_requests else ""


STATES = ("failed", "undecided", "missed", "accepted", "ok", "unsupported", "skipped")
"""Possible states, the worst first. "accepted" = failed, but listed as accepted with a reason; "missed" = a floor of
reuse that was not reached, a failure only with ``strict``; "skipped" = not selected."""


@dataclass(frozen=True, slots=True)
class Finding:
    """The smallest history that shows a failure."""

    line: str                            # in the project's notation
    request: int                         # the wrong request, from 0
    expected: str
    got: str
    prompts: tuple[Tokens, ...] = ()     # tokens that were sent, per request
    notes: tuple[str, ...] = ()          # distance of the fingerprints; diagnosis of the wrong answer

    @property
    def again(self) -> str:
        """The argument of ``conform`` that runs this history first, ready to paste."""
        return f'histories=["{self.line}"]'


@dataclass(frozen=True, slots=True)
class Result:
    """Result of a property."""

    name: str
    section: str
    sentence: str
    state: str
    checked: int = 0                     # number of checks
    decisive: int = 0                    # number of checks that could have failed
    reused: int = 0                      # number of checks in which tokens were reused
    why: str = ""                        # reason for the state, "" = none
    finding: Finding | None = None
    fault: str = ""                      # the failure in words, "" = the property does not hold
    common: str = ""                     # what all failing cases have in common, "" = nothing that is computed
    like: str = ""                       # property whose finding shows the same fault


def make_finding(line: str, check: PropertyCheck, played: HistoryRun, notes: Iterable[str] = ()) -> Finding:
    """Return the finding of a failed check. The distance of the fingerprints comes before ``notes``."""
    prompts = tuple(ask.prompt for ask in played.asks)
    apart = (check.apart.text,) if check.apart is not None else ()
    return Finding(line, check.request, check.expected, check.got, prompts, (*apart, *notes))


LEFT = " before all histories were run"
"""End of the reason why a section is unfinished, after what ended the run."""


class SectionCount(NamedTuple):
    """Number of histories that a section ran, how many of them failed, the properties that failed there, and the number
    of compared answers of which a wrong one would have shown."""

    histories: int = 0
    failed: int = 0
    names: tuple[str, ...] = ()
    decisive: int = 0


@dataclass(frozen=True, slots=True)
class Report:
    """All results. ``counts`` by section; ``skipped``: section -> reason for skipping it; ``notes``: about the run;
    ``strict``: a missed floor is a failure; ``unfinished``: section -> reason why not all of its histories were run."""

    results: tuple[Result, ...]
    counts: Mapping[str, SectionCount] = field(default_factory=dict)
    skipped: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    strict: bool = False
    unfinished: Mapping[str, str] = field(default_factory=dict)

    @property
    def histories(self) -> int:
        """Number of histories that were run, without those of shrinking."""
        return sum(one.histories for one in self.counts.values())

    def state(self, name: str) -> str:
        """Return the state of a property. Raise KeyError for an unknown name."""
        return self[name].state

    def __getitem__(self, name: str) -> Result:
        return {one.name: one for one in self.results}[name]

    def section(self, name: str) -> str:
        """Return the state of a section: the worst of its properties, or of those that fail in its histories."""
        if name in self.skipped:
            return "skipped"
        mine = [one.state for one in self.results if one.section == name]
        count = self.counts.get(name, SectionCount())
        mine += [self.state(one) for one in count.names]
        mine += ["undecided"] if name in self.unfinished else []
        if not mine:
            return "ok" if count.decisive else "undecided"
        return min(mine, key=STATES.index)

    @property
    def failing(self) -> tuple[Result, ...]:
        """Results that prevent conformance: failed, undecided and, with ``strict``, missed."""
        bad = ("failed", "undecided", "missed") if self.strict else ("failed", "undecided")
        return tuple(one for one in self.results if one.state in bad)

    @property
    def conforms(self) -> bool:
        """True if nothing failed, nothing is undecided and all histories were run."""
        return not self.failing and not self.unfinished

    @property
    def unreached(self) -> tuple[Result, ...]:
        """Results that are undecided because the run ended before a history that would show them."""
        ends = {why.removesuffix(LEFT) for why in self.unfinished.values()}
        return tuple(one for one in self.results if one.state == "undecided" and not one.checked
                     and (one.why.startswith(NOT_RUN) or one.why in ends))  # fmt: skip

    def is_unreached(self, section: str) -> bool:
        """True if the run ended before any history of a section."""
        mine = [one for one in self.results if one.section == section]
        unread = section in self.unfinished or bool(mine)
        return unread and section not in {*self.skipped, *self.counts} and {*mine} <= {*self.unreached}

    def data(self) -> dict[str, Any]:
        """Return the report as plain data."""
        sections = [{"number": number, "name": name, "state": self.section(name),
                     "why": self.skipped.get(name) or self.unfinished.get(name, ""),
                     **self.counts.get(name, SectionCount())._asdict()}
                    for number, name in enumerate(SECTIONS, 1)]  # fmt: skip
        return {"conforms": self.conforms, "histories": self.histories, "notes": list(self.notes),
                "sections": sections, "properties": [_data(one) for one in self.results]}  # fmt: skip

    def __str__(self) -> str:
        # Control characters from a tested process must reach neither the terminal nor an encoder.
        return "\n".join(map(printable_line, "\n".join(_lines(self)).split("\n")))


class Nonconforming(AssertionError):
    """Raised by ``conform`` if an implementation fails the suite. The first line of its text has the case and the
    fault, the others are the report, which ``report`` has as an object."""

    __module__ = "cachesim"      # the name under which users import it: pytest and tracebacks print it

    def __init__(self, report: Report) -> None:
        self.report = report
        super().__init__("\n".join([*_headline(report), f"{report}"]))

    def __reduce__(self) -> tuple[type[Self], tuple[Report]]:
        return type(self), (self.report,)


def _headline(report: Report) -> Iterator[str]:
    """Yield the first failure in a line: the case, the numbers and the fault. pytest's summary shows only this line."""
    for one in sorted(report.failing, key=lambda one: STATES.index(one.state))[:1]:
        found, fault = one.finding, one.why or one.fault or f"expected: {one.sentence}"
        case = "" if found is None else f"{found.line}: expected {found.expected}, got {found.got}: "
        yield printable_line(f"{case or f'{one.name}: '}{fault}")


def _data(result: Result) -> dict[str, Any]:
    data, found = asdict(result), result.finding
    if found is not None:
        data["finding"] = {"line": found.line, "request": found.request, "expected": found.expected, "got": found.got,
                           "notes": list(found.notes), "prompts": [list(one) for one in found.prompts]}  # fmt: skip
    return data


def _lines(report: Report) -> Iterator[str]:
    unreached = report.unreached
    for number, name in enumerate(SECTIONS, 1):
        if report.is_unreached(name):
            continue
        yield f"{number} {name:<12}{report.section(name).upper():<13}{_counted(report, name)}".rstrip()
        for one in report.results:
            if one.section == name and one.state != "skipped" and one not in unreached:
                yield f"  {one.name:<12}{one.state.upper():<13}{_about(one)}".rstrip()
                yield from _finding(one.finding, one.common) if one.finding is not None and not one.like else ()
    if unreached:
        yield f"{'not reached':<14}{'UNDECIDED':<13}{unreached_text(report)}"
    yield from report.notes
    counts = Counter(one.state for one in report.results)
    states = ", ".join(f"{counts[word]} {word}" for word in STATES if counts[word])
    failed = any(one.state != "undecided" for one in report.failing)
    verdict = "OK" if report.conforms else "FAILED" if failed else "UNDECIDED"
    yield f"{verdict}: {states}" + (f"; {report.histories} histories" if report.histories else "")


def unreached_text(report: Report) -> str:
    """Return how many properties a run ended too early for, and why it ended."""
    sections = counted(len({one.section for one in report.unreached}), "section")
    reasons = ", ".join(dict.fromkeys(one.why.removeprefix(NOT_RUN) for one in report.unreached))
    return f"{counted(len(report.unreached), 'property', 'properties')} of {sections}: {reasons}"


def _counted(report: Report, name: str) -> str:
    count = report.counts.get(name, SectionCount())
    failed = f", {count.failed} failed: {', '.join(count.names)}" if count.failed else ""
    histories = f"{count.histories} histories{failed}" if count.histories else ""
    return report.skipped.get(name) or "; ".join(filter(None, [histories, report.unfinished.get(name, "")]))


def _about(result: Result) -> str:
    if result.like and result.finding:
        return f"same fault as {result.like}: {result.finding.line}"
    if result.fault:
        return result.fault
    if result.state in ("failed", "missed"):
        return f"expected: {result.sentence}" + (f" ({result.why})" if result.why else "")
    if not result.checked or result.state != "ok":
        return result.why
    reused = f", {result.reused} with reuse" if result.reused else ""
    could = f", {result.decisive} of them could fail" if result.decisive < result.checked else ""
    checks = f"{result.checked} check{'s' * (result.checked > 1)}{could}{reused}"
    return f"{checks}; {result.why}" if result.why else checks


def _finding(found: Finding, common: str) -> Iterator[str]:
    yield f"      {found.line}"
    yield f"      request {found.request}: expected {found.expected}"
    yield f"      {'':<{len(str(found.request)) + 8}}  got      {found.got}"
    yield from (f"      {'':<{len(str(found.request)) + 8}}  {note}" for note in found.notes)
    yield from [f"      {common}"] if common else ()
    yield f"      again: {found.again}"
