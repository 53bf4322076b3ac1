"""What is known about an implementation in the end: one result per property, by sections, as data and as text."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import Any, Iterable, Iterator, Mapping, NamedTuple, Sequence
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from cachesim.base.errors import BadInput, nearest, quoted
from cachesim.base.tokens import Tokens
from cachesim.tools.conformance.corpus import Space
from cachesim.tools.conformance.history_player import PlayedHistory
from cachesim.tools.conformance.properties import FORMER, Check

# Which sections has the suite? The same ones, in the same order, for an adapter and for a running server.

SECTIONS = {
    "noise": "how far apart are cold runs of the same request",
    "same": "a request is answered as on a cold run",
    "known": "histories of known faults",
    "drawn": "drawn histories",
    "reuse": "what was evaluated before is not evaluated from the start again",
    "isolation": "other conversations do not change an answer",
    "books": "reported counts add up",
    "faults": "errors and disconnecting clients leave the cache sound",
}
"""Every section with what it is about; its number is its place, from 1."""

MEMBERS: Mapping[str, Sequence[str]] = {
    "noise": ("steady",),
    "same": ("append", "branch", "prefix", "repeat", "uncached"),
    "known": (),
    "drawn": (),
    "reuse": ("extension", "return", "regenerate"),
    "isolation": ("new", "burst"),
    "books": ("accounting", "unseen", "work", "stored", "limits"),
    "faults": ("answers", "cancel"),
}
"""Properties of each section. Those of "known" and "drawn" are the others': their histories are counted there."""

BASIC: Mapping[str, Sequence[str]] = {
    "same": ("A{n}>a4/A.a.B8", "A{n}>a4/A[:{h}].B8", "A{n}>a4/A[:{h}]", "A{n}>a4/A", "A{n}>a4/A.a.B8!"),
    "isolation": ("A{n}>a4/B{n}", "A{n}>a4/B{n}/A.a.C8", "A{n}/B{h}{{together}}"),
    "faults": ("A{n}{{cancel_after=0}}/A.B8", "A{n}>4{{cancel_after=1}}/A.B8"),
}
"""Histories that a section always plays: ``n`` tokens, ``h`` half of them."""

FLOORS: Mapping[str, str] = {"extension": "A{n}>a4/A.a.B8", "return": "A{n}>a4/B{n}/A.a.C8", "regenerate": "A{n}>a4/A"}
"""Histories in which something has to be reused by the last request."""

SHORT, ROOM = 24, 12         # tokens of the first prompt at least; those of the others beyond it
NEEDS = {"!": "cache", "together": "burst", "cancel_after=0": "cancel_prompt", "cancel_after=1": "cancel_answer"}


def chosen(only: Sequence[str], known: bool) -> frozenset[str]:
    """The sections that are played: those given, or all, "known" only where it is wanted. Raises BadInput."""
    for name in only:
        if name not in SECTIONS:
            raise BadInput(f"only: unknown section {quoted(name)}", hint=nearest(name, SECTIONS) or ", ".join(SECTIONS))
    return frozenset(only or (name for name in SECTIONS if known or name != "known"))


def basic_lines(sections: frozenset[str], space: Space) -> Iterator[str]:
    """The histories that these sections always play, as far as they fit and the implementation is able to."""
    names = sections | ({"same"} if sections & {"noise", "books"} else set())
    for name in SECTIONS:
        for pattern in BASIC.get(name, ()) if name in names else ():
            if line := _sized(pattern, space):
                yield line


def floor_lines(space: Space) -> dict[str, str]:
    """Property of "reuse" -> its history, where it fits."""
    lines = {name: _sized(pattern, space) for name, pattern in FLOORS.items()}
    return {name: line for name, line in lines.items() if line}


def _sized(pattern: str, space: Space) -> str:
    """The line, "" if it does not fit. Prompts are longer than twice the largest of the implementation's sizes, where
    they may be: whole blocks and chunks are reused."""
    n = min(max(SHORT, 2 * max(space.near, default=0) + 2), space.most_prompt - ROOM)
    line = pattern.format(n=n, h=n // 2)
    able = all(ability in space.abilities for sign, ability in NEEDS.items() if sign in line)
    return line if n >= 2 and able and line.count("/") < space.most_requests else ""


STATES = ("failed", "undecided", "missed", "accepted", "ok", "unsupported", "skipped")
"""Possible states, the worst first. "accepted" = failed, and listed as such with a reason; "missed" = a floor of reuse
that was not reached, a failure only if ``strict``; "skipped" = not selected."""


@dataclass(frozen=True, slots=True)
class Finding:
    """The smallest history that shows it: ``line`` in the project's notation, ``request`` (from 0) that is wrong.
    ``prompts`` are the tokens that were really sent, request by request; ``notes`` what else is known: how far the
    fingerprints are apart, and what the wrong answer is that of."""

    line: str
    request: int
    expected: str
    got: str
    prompts: tuple[Tokens, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def again(self) -> str:
        """The argument that plays it first, to be pasted."""
        return f'histories=["{self.line}"]'


@dataclass(frozen=True, slots=True)
class Result:
    """One property: its ``state``, how often it was ``checked``, in how many of these something was ``reused``, ``why``
    where there is more to say."""

    name: str
    section: str
    sentence: str
    state: str
    checked: int = 0
    reused: int = 0
    why: str = ""
    finding: Finding | None = None


def finding_of(line: str, check: Check, played: PlayedHistory, notes: Iterable[str] = ()) -> Finding:
    """What a check shows in a history that was played; ``line`` says it. How far the fingerprints are apart is noted
    before ``notes``."""
    prompts = tuple(ask.prompt for ask in played.asks)
    apart = (check.apart.text,) if check.apart is not None else ()
    return Finding(line, check.request, check.expected, check.got, prompts, (*apart, *notes))


class Count(NamedTuple):
    """Histories that a section played, how many of them failed, and the properties that failed there."""

    histories: int = 0
    failed: int = 0
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Report:
    """All results. ``counts`` by section; ``skipped`` section -> why it was not played; ``notes`` on the whole;
    ``strict``: a missed floor is a failure."""

    results: tuple[Result, ...]
    counts: Mapping[str, Count] = field(default_factory=dict)
    skipped: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    strict: bool = False

    @property
    def histories(self) -> int:
        """Histories that were played, not counting those of shrinking."""
        return sum(one.histories for one in self.counts.values())

    def state(self, name: str) -> str:
        """The state of a property. Raises KeyError for a name that is none."""
        return self[name].state

    def __getitem__(self, name: str) -> Result:
        return {one.name: one for one in self.results}[FORMER.get(name, name)]

    def section(self, name: str) -> str:
        """The state of a section: that of its worst property, or of the properties that fail in its histories."""
        if name in self.skipped:
            return "skipped"
        mine = [one.state for one in self.results if one.section == name]
        mine += [self.state(one) for one in self.counts.get(name, Count()).names]
        if not mine:
            return "ok" if self.counts.get(name, Count()).histories else "undecided"
        return min(mine, key=STATES.index)

    @property
    def failing(self) -> tuple[Result, ...]:
        """What keeps the implementation from conforming: everything failed, and everything undecided."""
        bad = ("failed", "undecided", "missed") if self.strict else ("failed", "undecided")
        return tuple(one for one in self.results if one.state in bad)

    @property
    def conforms(self) -> bool:
        """Returns True if nothing failed and nothing is undecided."""
        return not self.failing

    def data(self) -> dict[str, Any]:
        """The report in plain data."""
        sections = [{"number": number, "name": one, "state": self.section(one), "why": self.skipped.get(one, ""),
                     **self.counts.get(one, Count())._asdict()} for number, one in enumerate(SECTIONS, 1)]  # fmt: skip
        return {"conforms": self.conforms, "histories": self.histories, "notes": list(self.notes),
                "sections": sections, "properties": [_data(one) for one in self.results]}  # fmt: skip

    def __str__(self) -> str:
        # What a tested process says cannot do anything to a terminal, or to whoever encodes it.
        shown = (one if one.isprintable() or one == "\n" else one.encode("unicode_escape").decode()
                 for one in "\n".join(_lines(self)))  # fmt: skip
        return "".join(shown)


class Nonconforming(AssertionError):
    """An implementation fails the suite; ``report`` says where."""

    def __init__(self, report: Report) -> None:
        self.report = report
        super().__init__(f"{report}")


def _data(result: Result) -> dict[str, Any]:
    data, found = asdict(result), result.finding
    if found is not None:
        data["finding"] = {"line": found.line, "request": found.request, "expected": found.expected, "got": found.got,
                           "notes": list(found.notes), "prompts": [list(one) for one in found.prompts]}  # fmt: skip
    return data


def _lines(report: Report) -> Iterator[str]:
    for number, name in enumerate(SECTIONS, 1):
        yield f"{number} {name:<12}{report.section(name).upper():<13}{_counted(report, name)}".rstrip()
        for one in report.results:
            if one.section == name and one.state != "skipped":
                yield f"  {one.name:<12}{one.state.upper():<13}{_about(one)}".rstrip()
                yield from _finding(one.finding) if one.finding is not None else ()
    yield from report.notes
    counts = Counter(one.state for one in report.results)
    states = ", ".join(f"{counts[word]} {word}" for word in STATES if counts[word])
    yield f"{'OK' if report.conforms else 'FAILED'}: {states}; {report.histories} histories"


def _counted(report: Report, name: str) -> str:
    count = report.counts.get(name, Count())
    failed = f", {count.failed} failed: {', '.join(count.names)}" if count.failed else ""
    return report.skipped.get(name) or (f"{count.histories} histories{failed}" if count.histories else "")


def _about(result: Result) -> str:
    if result.state in ("failed", "missed"):
        return result.sentence + (f" ({result.why})" if result.why else "")
    if not result.checked or result.state != "ok":
        return result.why
    reused = f", {result.reused} with reuse" if result.reused else ""
    counted = f"{result.checked} check{'s' * (result.checked > 1)}{reused}"
    return f"{counted}; {result.why}" if result.why else counted


def _finding(found: Finding) -> Iterator[str]:
    yield f"      {found.line}"
    yield f"      request {found.request}: expected {found.expected}"
    yield f"      {'':<{len(str(found.request)) + 8}}  got      {found.got}"
    yield from (f"      {'':<{len(str(found.request)) + 8}}  {note}" for note in found.notes)
    yield f"      again: {found.again}"


# The report for machines that read JUnit's XML: a test suite for each section, a test case for each property.

def junit(report: Report, name: str = "cachesim") -> str:
    """The report as XML. Failed (with ``strict``, missed) properties are failures, undecided ones errors, the others
    that say nothing are skipped."""
    root = Element("testsuites", name=name)
    for number, section in enumerate(SECTIONS, 1):
        mine = [one for one in report.results if one.section == section]
        suite = SubElement(root, "testsuite", name=f"{number} {section}", tests=str(len(mine)))
        for tag, key in (("failure", "failures"), ("error", "errors"), ("skipped", "skipped")):
            suite.set(key, str(sum(_tag(one, report.strict) == tag for one in mine)))
        for one in mine:
            _case(suite, one, report.strict)
    indent(root)
    return tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _case(suite: Element, one: Result, strict: bool) -> None:
    case, said = SubElement(suite, "testcase", classname=f"cachesim.{one.section}", name=one.name), one.finding
    if tag := _tag(one, strict):
        found = SubElement(case, tag, message=one.why or one.sentence)
        if said is not None:
            found.text = "\n".join([said.line, f"request {said.request}: expected {said.expected}", f"got {said.got}",
                                    *said.notes, f"again: {said.again}"])  # fmt: skip


def _tag(one: Result, strict: bool) -> str:
    tags = {"failed": "failure", "undecided": "error", "ok": "", "missed": "failure" if strict else "skipped"}
    return tags.get(one.state, "skipped")
