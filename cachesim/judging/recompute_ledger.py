"""Recompute ledger: the decisions that the re-evaluated tokens of each request are charged to.

For a request with prompt P that kept n_past tokens:
  best   longest prefix of P that was ever evaluated, at most len(P) - 1: no policy can do better
  held   longest prefix of P, at most best, for which a usable, clean restore point ever existed, removed since or not;
         at least what a correct answer reused
best - held tokens were never captured. held - n_past tokens are charged to the removal of that restore point, or to the
rule that did not use it. A shorter point that existed longer is charged with the tokens that it covered. A live slot's
intermediate states exist only briefly: tokens up to the longest durable restore point are charged to its removal, only
the remainder to the transient state. The charges of a request add up to best - n_past.
Concurrent requests are each judged by the state at the choice of their slot, a restarted request by its first start,
which its answer reports.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import dataclass, field
from typing import Callable, NamedTuple

from cachesim.base import limits
from cachesim.base.tokens import Tokens, common_prefix
from cachesim.engines.inspection import Key, RestorePoint, ResumeUnit, StoredContent, TokenPrefix
from cachesim.engines.point_kinds import running_key
from cachesim.engines.rule import Role, role_of
from cachesim.events import Advanced, Decided, Declined, Event, Gained, Launch, Lost, Release
from cachesim.judging.clean_ranges import Span, clean_spans, foreign_positions
from cachesim.judging.restore_point_index import (
    KnownPoint,
    PointKey,
    add_point,
    declining_rule,
    find_best_point,
    nearest_decline,
    record_decline,
)
from cachesim.judging.token_radix import RadixPlace, TokenRadix, owner_node
from cachesim.oracle.cold_run import ColdRun

WITHIN = ("erased", "truncated", "overwritten", "cleared", "evaluated")
"""Causes that, inside the request itself, only carry out the decision not to use a restore point."""
POINT = 16                   # tokens whose keeping takes as long as a restore point
TOO_FEW = "too few"
"""Cause of tokens that end within a unit of the server, the only kind of place from which it resumes."""
LEDGER_EVENTS: frozenset[type[Event]] = frozenset((Decided, Declined, Gained, Advanced, Lost, Launch, Release))
"""The events that ``RecomputeLedger.record`` needs."""


class Charge(NamedTuple):
    """Re-evaluated tokens of a request, charged to a cause. ``event`` is the cause ("never captured", "not chosen",
    "evicted", "advanced" where evaluation continued past a live state, ...); ``rule`` the id of the rule behind it;
    ``at`` the request at which it happened, -1 = ``request``; ``kind`` the restore point that was lost, or the unit
    that the tokens do not fill."""

    request: int
    tokens: int
    event: str
    rule: str
    at: int
    kind: str = ""


class RequestLedger(NamedTuple):
    """Ledger of a request [tokens]. ``best``, ``held``: as in the module's docstring. ``charges`` from the end of the
    prompt. ``moved``: tokens reused beyond ``best``; ``wrong``: tokens that a wrong answer reused."""

    best: int
    held: int
    n_past: int
    charges: tuple[Charge, ...]
    moved: int = 0
    wrong: int = 0

    def without_reading(self, unread: str) -> RequestLedger:
        """Return the ledger of a request that reads no stored prefix, because of ``unread``: whatever is stored, that
        is the only cause. "" = the request may read one."""
        tokens = sum(charge.tokens for charge in self.charges)
        if not unread or not tokens or self.wrong:
            return self
        return self._replace(charges=(Charge(self.charges[0].request, tokens, unread, "", -1),))

    def within_unit(self, unit: ResumeUnit | None) -> RequestLedger:
        """Return the ledger with the tokens after the longest restore point charged to their number, if they were never
        captured and are too few for a further ``unit``: no restore point can lie among them."""
        if unit is None or not self.charges or self.charges[0].event != "never captured":
            return self
        if self.wrong or self.held // unit.tokens != self.best // unit.tokens:
            return self
        few = self.charges[0]._replace(event=TOO_FEW, kind=unit.noun)
        return self._replace(charges=(few, *self.charges[1:]))

    @property
    def is_balanced(self) -> bool:
        """True if the charges add up to the re-evaluated tokens."""
        return sum(c.tokens for c in self.charges) == max(0, self.best - self.n_past)


class LedgerStart(NamedTuple):
    """State of the ledger when a slot was chosen for a request: time, evaluated token lists, decisions."""

    clock: int
    evaluated: int
    decisions: int


@dataclass(slots=True)
class PointSnapshot:
    """Snapshot of a restore point at its last report: the place of its tokens, a cold run that begins with them (None =
    without tokens), positions of rows that differ from the cold run, by window, and its usable lengths."""

    place: RadixPlace
    cold: ColdRun | None
    foreign: dict[int, list[int]]
    known: list[KnownPoint]


class PlacedTokens(NamedTuple):
    """Tokens of a slot, and the place of the first of them. The identical tuple still has these tokens: tuples are
    immutable."""

    tokens: Tokens
    place: RadixPlace


@dataclass(slots=True)
class RecomputeLedger:
    """Ledger of a run: follows every restore point of a server through its log."""

    inspect: Callable[[Key, int], StoredContent]             # contents of a point, rows from a position on
    cold: Callable[[Tokens], ColdRun]                  # cold run of a token list
    slot_prefix: Callable[[int], TokenPrefix]          # tokens of a slot
    slot_request: Callable[[int], int] = lambda slot: -1     # request that the slot processes, -1 = none
    # True if a cold run that shares its first n tokens continues with these tokens
    covers: Callable[[ColdRun, Tokens, int], bool] = lambda run, tokens, same: False
    radix: TokenRadix = field(default_factory=TokenRadix)
    snapshots: dict[Key, PointSnapshot] = field(default_factory=dict)
    placed: dict[int, PlacedTokens] = field(default_factory=dict)          # by slot, of the present request
    present: dict[PointKey, KnownPoint] = field(default_factory=dict)      # restore points that exist
    live: dict[KnownPoint, None] = field(default_factory=dict)             # those of them that are live slots
    evaluated: list[Tokens] = field(default_factory=list)                  # token lists evaluated by earlier requests
    in_order: list[tuple[Tokens, int]] = field(default_factory=list)       # ``evaluated``, sorted, with their numbers
    decisions: list[Decided] = field(default_factory=list)
    starts: dict[int, LedgerStart] = field(default_factory=dict)           # by request
    chosen: LedgerStart = field(default_factory=lambda: LedgerStart(0, 0, 0))      # at the last choice of a slot
    request: int = -1                                                      # the latest request
    clock: int = 0                                                         # changes of restore points so far
    count: int = 0                                                         # restore points so far

    def begin(self, request: int) -> None:
        """Record that the next request is sent."""
        self.request, self.chosen = request, self._current_start()

    def _current_start(self) -> LedgerStart:
        return LedgerStart(self.clock, len(self.evaluated), len(self.decisions))

    def record(self, event: Event) -> None:
        """Record an event of the log; events outside ``LEDGER_EVENTS`` change nothing."""
        if isinstance(event, Decided):
            if role_of(event.rule) in (Role.ASSIGN, Role.ADMIT):
                self.chosen = self._current_start()
            self.decisions.append(event)
        elif isinstance(event, Gained | Advanced):
            self.clock += 1
            self._add(event)
        elif isinstance(event, Lost):
            self.clock += 1
            self._remove(self.snapshots.pop(event.key), event)
        elif isinstance(event, Declined):
            record_decline(self._place(event.slot, event.n_tokens), event.rule)
        elif isinstance(event, Launch) and event.slot is not None:
            self.starts.setdefault(self._request_behind(event.slot), self.chosen)
        elif isinstance(event, Release):
            for known in self.live:
                known.has_rested = known.has_rested or known.owner == event.slot

    def restart(self) -> None:
        """Record that the server has ended and lost all its restore points."""
        self.placed.clear()
        for key in [*self.snapshots]:
            self.record(Lost(None, key, "restarted", ""))

    def _place(self, slot: int, n: int) -> RadixPlace:
        """Return the place of the first n tokens of a slot."""
        snapshot = self.snapshots.get(running_key(slot))
        if snapshot is not None and n <= snapshot.place.n:
            return RadixPlace(*owner_node(snapshot.place.node, n))
        tokens, held = self.slot_prefix(slot)
        n = min(n, held)
        known = self.placed.get(slot)
        if known is None or known.tokens is not tokens:
            place = self.radix.place(tokens[:n])
        elif n <= known.place.n:
            return RadixPlace(*owner_node(known.place.node, n))
        else:
            place = self.radix.extend(known.place, tokens[known.place.n : n])
        self.placed[slot] = PlacedTokens(tokens, place)
        return place

    def _request_behind(self, slot: int | None) -> int:
        """Return the request that causes the events of a slot."""
        number = -1 if slot is None else self.slot_request(slot)
        return self.request if number < 0 else number

    def _add(self, event: Gained | Advanced) -> None:
        """Record the present contents of a point; what was under its key before is lost unless it is equal."""
        point: RestorePoint = event.point
        was, snapshot = self.snapshots.get(point.key), self._snapshot(point, isinstance(event, Gained))
        for known in snapshot.known:
            known.seen += 1
        self.snapshots[point.key] = snapshot
        if was is not None:
            self._remove(was, event)

    def _remove(self, snapshot: PointSnapshot, event: Gained | Advanced | Lost) -> None:
        for known in snapshot.known:
            known.seen -= 1
            if not known.seen:
                known.lost, known.lost_clock, known.lost_at = event, self.clock, self._request_behind(event.slot)
                del self.present[known.key]
                self.live.pop(known, None)

    def _snapshot(self, point: RestorePoint, durable: bool) -> PointSnapshot:
        """Return a snapshot of a point; what it shares with the point that it extends is not inspected again."""
        start, key = point.start, point.key
        before = self.snapshots[point.after] if point.after is not None and start else None
        if before is None:
            place = self.radix.place(point.tokens)
        else:
            place = self.radix.extend(RadixPlace(before.place.node, start), point.tokens)
        if not point.n:
            return PointSnapshot(place, None, {}, [])
        cold = before.cold if before is not None else None
        if cold is None or not self.covers(cold, point.tokens, start):
            cold = self.cold(self.radix.tokens(place))
        stored = self.inspect(key, start)
        foreign = foreign_positions(point, stored, cold, before.foreign if before is not None else {})
        known = [self._known(point, place, span, durable) for span in clean_spans(point, stored, foreign, cold)]
        return PointSnapshot(place, cold, foreign, known)

    def _known(self, point: RestorePoint, place: RadixPlace, span: Span, durable: bool) -> KnownPoint:
        """Return the restore point of this kind after these tokens, a new point if it did not exist just before."""
        kind, slot, _ = point.key
        key = (kind, place.node.number, place.n, *span, point.step)
        known = self.present.get(key)
        if known is None:
            self.count += 1
            kept = self.radix.kept + POINT * self.count
            limits.JUDGED_TOKENS.check(kept, "what the judge keeps of restore points")
            known = KnownPoint(self.count, key, kind, place, *span, point.step, self.clock, slot, durable)
            add_point(known, self._earliest_start)
            self.present[key] = known
            if not durable:
                self.live[known] = None
        return known

    def _earliest_start(self) -> int:
        """Return a time before or at the start of every request that is not settled yet."""
        return min((self.chosen.clock, *(start.clock for start in self.starts.values())))

    def _evaluated_prefix(self, prompt: Tokens, before: int) -> int:
        """Return the length of the longest prefix of a prompt in the first ``before`` evaluated lists. The list with
        that prefix is a neighbour of the prompt in sorted order."""
        for number in range(len(self.in_order), len(self.evaluated)):
            insort(self.in_order, (self.evaluated[number], number))
        at = bisect_left(self.in_order, (prompt, -1))
        sides = (range(at - 1, -1, -1), range(at, len(self.in_order)))
        near = [next((i for i in side if self.in_order[i][1] < before), None) for side in sides]
        return max((common_prefix(prompt, self.in_order[i][0]) for i in near if i is not None), default=0)

    def settle(self, request: int, slot: int, prompt: Tokens, n_past: int, wrong: bool) -> RequestLedger:
        """Return the ledger of a request answered in ``slot``, before its tokens are added to ``evaluated``."""
        start = self.starts.pop(request, self.chosen)
        self.placed.pop(slot, None)
        best = min(self._evaluated_prefix(prompt, start.evaluated), max(0, len(prompt) - 1))
        decisions = [d for d in self.decisions[start.decisions :] if d.slot in (slot, None)]
        return _ChargeBuilder(request, start, decisions).build(
            self.radix.longest_known(prompt), n_past, best, wrong)  # fmt: skip


class _ChargeBuilder(NamedTuple):
    """Attribution of the re-evaluated tokens of a request: its start and the decisions about it."""

    request: int
    start: LedgerStart
    decisions: list[Decided]

    def build(self, prompt: RadixPlace, n_past: int, best: int, wrong: bool) -> RequestLedger:
        """Return the ledger of the request. ``best``: length of the longest prefix ever evaluated."""
        point, held = self._best_point(prompt, best, lasting=False)
        held, moved = held if wrong else max(held, min(n_past, best)), max(0, n_past - best)
        if wrong or n_past >= best:
            charges: tuple[Charge, ...] = ()
            if wrong and n_past < best:
                charges = (self._never_captured(prompt, best, best - n_past),)
            return RequestLedger(best, held, n_past, charges, moved, n_past if wrong else 0)
        never = (self._never_captured(prompt, best, best - held),) if best > held else ()
        durable, reach = self._best_point(prompt, best, lasting=True)
        reach = max(reach, n_past)
        passing = (self._charge(point, held - reach),) if point is not None and held > reach else ()
        lost: tuple[Charge, ...] = ()
        while durable is not None and reach > n_past:
            longer, (durable, stop) = durable, self._best_point(prompt, best, lasting=True, after=durable)
            stop = max(stop, n_past)
            lost, reach = (*lost, self._charge(longer, reach - stop)), stop
        return RequestLedger(best, held, n_past, never + passing + lost)

    def _best_point(
        self, prompt: RadixPlace, best: int, lasting: bool, after: KnownPoint | None = None
    ) -> tuple[KnownPoint | None, int]:
        """Return the older restore point that covers most of the first ``best`` tokens, and its length. Ties: a point
        that existed when the request came wins, then a stored copy over a live slot, then the latest loss. ``after``:
        only points that outlived this one."""

        def worth(known: KnownPoint) -> tuple[int, ...] | None:
            if known.born > self.start.clock or (lasting and not known.is_lasting):
                return None
            if after is not None and not known.outlived(after, self.start.clock):
                return None
            return self._existed_at_start(known), known.is_durable, known.lost_at

        return find_best_point(prompt, best, worth)

    def _existed_at_start(self, known: KnownPoint) -> bool:
        return known.existed_at(self.start.clock)

    def _never_captured(self, prompt: RadixPlace, best: int, tokens: int) -> Charge:
        """Charge tokens that no restore point covered to the rule that declined the last checkpoint up to ``best``."""
        return Charge(self.request, tokens, "never captured", nearest_decline(prompt, best), -1)

    def _charge(self, known: KnownPoint, tokens: int) -> Charge:
        change = known.lost
        if change is None or (self._existed_at_start(known) and change.cause in WITHIN):
            rule = declining_rule(known.kind, self.decisions)
            event = "not read" if role_of(rule) is Role.FAIL else "not chosen"
            return Charge(self.request, tokens, event, rule, -1, known.kind)
        at = -1 if self._existed_at_start(known) else known.lost_at
        event = "advanced" if change.cause == "evaluated" else change.cause
        return Charge(self.request, tokens, event, change.rule, at, known.kind)
