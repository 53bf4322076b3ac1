"""Composition of the rules in force at any point of an engine's main branch.

Each rule set is recorded at a single build. Between two of them the changes landed one by one, so each rule, number and
default has its own history: a list of spans, from the tables, from the life times of the rules and from the dated
changes between two tables. The rules at a point are the value of every field at that point, never a neighbouring table
as a whole. Where the point of a change is unknown, the older value is used, and a line says so.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Iterator, Mapping, NamedTuple, Sequence

from cachesim.engines.shared.rule_set import LOG_FIELDS, RuleSet
from cachesim.engines.shared.timeline import Commit, DatedChange, Timeline


class FieldSpan(NamedTuple):
    """A value of a field, used from ``first`` on. ``after``: None if ``first`` is the point of the change; otherwise
    the change landed somewhere after ``after``, at ``first`` at the latest. ``is_recorded``: a rule set has the
    value."""

    first: Commit
    value: Any
    source: str
    after: Commit | None = None
    is_recorded: bool = True


class ComposedRules(NamedTuple):
    """The rules at a point. ``base``: the recorded rule set that they equal, otherwise the last one at or before the
    point; ``changes``: the differences from it, as they landed; ``notes``: a line for each field whose value at this
    point is not known."""

    rules: RuleSet
    base: RuleSet
    changes: tuple[DatedChange, ...]
    notes: tuple[str, ...]


class RuleSetPeriod(NamedTuple):
    """Period in which a rule set was in force; the point before ``until`` is its last. ``own``: the point of the
    recording. ``until`` None = the point of the next change is unknown."""

    first: Commit
    own: Commit
    until: Commit | None


class MainBranch:
    """The main branch of an engine: its recorded rule sets, oldest first, and the history of every field."""

    def __init__(self, line: Sequence[RuleSet], when: Timeline) -> None:
        self.line, self.when = line, when
        self._tables = [(when.own[rules.name], rules, rules.leaves()) for rules in line]
        paths = dict.fromkeys(path for *_, leaves in self._tables for path in leaves)
        rows: dict[str, list[tuple[Commit, DatedChange]]] = {path: [] for path in paths}
        for row in when.between:
            rows.setdefault(row.field, []).append((when.landed[row.source], row))
        self.spans: Mapping[str, Sequence[FieldSpan]] = {path: list(self._history(path, rows[path])) for path in paths}
        self._varying = {path: spans for path, spans in self.spans.items() if len(spans) > 1}
        self._vague = [(path, *pair) for path, spans in self._varying.items() for pair in pairwise(spans)
                       if pair[1].after is not None]  # fmt: skip

    def _history(self, path: str, rows: Sequence[tuple[Commit, DatedChange]]) -> Iterator[FieldSpan]:
        """Yield the values of a field in order. ``rows``: its dated changes between two rule sets."""
        point, _, leaves = self._tables[0]
        value = leaves.get(path)
        yield FieldSpan(point, value, "")
        for (low, older, _), (high, newer, leaves) in pairwise(self._tables):
            for first, row in rows:
                if not first.by(low) and first.by(high):
                    low, value = first, row.value
                    yield FieldSpan(first, value, row.source, is_recorded=value == leaves.get(path))
            if value != leaves.get(path):
                value = leaves.get(path)
                points = [] if low != self.when.own[older.name] else self.when.parts(older.source_of(newer, path))
                yield self._table_span(low, high, points, value, older.source_of(newer, path))

    @staticmethod
    def _table_span(low: Commit, high: Commit, points: Sequence[Commit], value: Any, source: str) -> FieldSpan:
        """Return the span that begins between two neighbouring rule sets, at ``points`` if they are known."""
        if not points or not max(points).by(high):
            return FieldSpan(high, value, source, after=low)
        return FieldSpan(max(points), value, source, after=min(points) if len(points) > 1 else None)

    def at(self, point: Commit) -> ComposedRules:
        """Return the rules at a point that is not before the oldest rule set."""
        places = {path: _last_by(spans, point) for path, spans in self._varying.items()}
        now = {path: spans[places[path]] for path, spans in self._varying.items()}
        before = [table for table in reversed(self._tables) if table[0].by(point)]
        notes = tuple(self._notes(point))
        for _, rules, leaves in [*before, *self._tables[len(before):]]:
            if all(leaves.get(path) == span.value for path, span in now.items()):
                return ComposedRules(rules, rules, (), notes)
        _, base, leaves = before[0]
        other = {path: span for path, span in now.items() if span.value != leaves.get(path)}
        spans = sorted(other.items(), key=lambda one: one[1].first)
        changes = tuple(DatedChange(path, span.value, span.source) for path, span in spans)
        read = {path for path, span in now.items() if not span.is_recorded}
        ended = {path: spans[places[path] + 1].source for path, spans in self._varying.items()
                 if places[path] + 1 < len(spans)}  # fmt: skip
        rules = base.with_leaves({path: span.value for path, span in other.items()})
        return ComposedRules(rules.described(read, ended), base, changes, notes)

    def _span_at(self, path: str, point: Commit) -> FieldSpan:
        spans = self.spans[path]
        return spans[_last_by(spans, point)]

    def _notes(self, point: Commit) -> Iterator[str]:
        """Yield a line for the first change of each field of which it is not known whether it landed by a point."""
        noted = set[str]()
        for path, before, span in self._vague:
            after = span.after
            if path in noted or after is None or after == point or not after.by(point) or span.first.by(point):
                continue
            noted.add(path)
            what, old = self._subject(path, before.value, span.value)
            low, high = self.when.label(after), self.when.label(span.first)
            if self.when.parts(span.source):
                yield f"{what}: changed in parts between {low} and {high} ({span.source}): the older {old} is used"
            else:
                by = f" ({span.source})" if span.source else ""
                yield f"{what}: changed between {low} and {high}{by}; its build is not known: the older {old} is used"

    @staticmethod
    def _subject(path: str, older: Any, newer: Any) -> tuple[str, str]:
        """Return the name of a field for its reader, and the word for its value."""
        rule = str(getattr(older, "rule", "") or getattr(newer, "rule", ""))
        if rule:
            return rule.partition(".")[0], "variant"
        outer, _, key = path.partition(".")
        if outer == "defaults":
            return f"default of {key}", "default"
        return (f"log ({path})" if outer in LOG_FIELDS and outer != "outside" else path), "value"

    def points(self, log: bool = False) -> list[Commit]:
        """Return the points between two rule sets at which a decision (with ``log``, or the log) changed, in order. A
        change that the newer of the two does not have belongs to a later pair, whose rule sets were recorded in the
        opposite order."""
        return sorted({span.first for path, spans in self._varying.items() for span in spans
                       if (log or path.partition(".")[0] not in LOG_FIELDS) and self._lands(path, span)})  # fmt: skip

    def _lands(self, path: str, span: FieldSpan) -> bool:
        """True if a value begins after the older and by the newer of two neighbouring rule sets, and the newer has the
        value that the field has then."""
        for (low, *_), (high, _, leaves) in pairwise(self._tables):
            if span.first.by(high):
                return not span.first.by(low) and bool(self._span_at(path, high).value == leaves.get(path))
        return False

    def period(self, name: str) -> RuleSetPeriod:
        """Return the period in which a rule set of the main branch was in force."""
        own = self.when.own[name]
        histories = [spans for path, spans in self.spans.items() if path.partition(".")[0] not in LOG_FIELDS]
        first = max(span.first for spans in histories for span in spans if span.first.by(own))
        later = [next((span for span in spans if not span.first.by(own)), None) for spans in histories]
        ends = [(span.first if span.after is None else span.after, span) for span in later if span is not None]
        if not ends:
            return RuleSetPeriod(first, own, None)
        end, span = min(ends, key=lambda one: one[0])
        return RuleSetPeriod(first, own, None if span.after is not None and not self.when.parts(span.source) else end)


    def life_of(self, value: Any, point: Commit | None = None) -> dict[str, list[str]]:
        """Return the fields that have this value, and when: ``since b6711 (#16440), until b7970 (#19408)``. With
        ``point``, only the period that contains it. A rule after None, which means not simulated, has no beginning."""
        found: dict[str, list[str]] = {}
        for path, spans in self.spans.items():
            for before, span, later in zip([None, *spans[:-1]], spans, [*spans[1:], None], strict=True):
                if span.value == value and (point is None or span is self._span_at(path, point)):
                    simulated = before and not (before.value is None and hasattr(value, "rule"))
                    begins = [f"since {self._moment(span)}"] if simulated else []
                    ends = [f"until {self._moment(later)}"] if later is not None else []
                    found.setdefault(path, []).append(", ".join(begins + ends))
        return found

    def _moment(self, span: FieldSpan) -> str:
        """Return the point at which a span begins, with its source."""
        low = "" if span.after is None else f"a build between {self.when.label(span.after)} and "
        return f"{low}{self.when.label(span.first)}" + (f" ({span.source})" if span.source else "")


def _last_by(spans: Sequence[FieldSpan], point: Commit) -> int:
    """Return the index of the last span that begins at or before a point, 0 without one."""
    for place in range(len(spans) - 1, 0, -1):
        if spans[place].first.by(point):
            return place
    return 0


def format_period(found: RuleSetPeriod, when: Timeline) -> str:
    """Return the printed form of a period: ``b9509..b9573``, ``2026-07-10..2026-07-30``; ``+`` = it may have lasted
    longer."""
    first, own = when.label(found.first), when.label(found.own)
    if found.until is None:
        return f"{own}+" if found.first == found.own else f"{first}..{own}+"
    last = f"b{found.until.number - 1}" if when.builds and found.until.number else when.label(found.until)
    return f"{first}..{last}"
