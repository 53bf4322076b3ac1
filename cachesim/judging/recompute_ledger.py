"""Which decision lost the tokens that had to be computed again?

For a request with prompt P that kept n_past tokens:
  best   longest prefix of P that was ever evaluated, at most len(P) - 1: no policy can do better
  held   longest prefix of P, at most best, for which a usable, clean restore point ever existed, still there or not
best - held tokens were never captured; held - n_past are attributed to the change that removed that restore point, or
to the rule that did not use it. A live slot passes through states that nobody could have come back to a moment later,
so the tokens are attributed in two parts: as far as a lasting restore point reached, to its end; only the rest to the
passing state. The attributions of a request add up to best - n_past.
With several requests at work, each is judged by what there was when its slot was chosen. One that has to begin again is
judged by its first start: what it found then is what its answer tells.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import dataclass, field
from typing import Callable, NamedTuple

from cachesim.base import limits
from cachesim.base.tokens import Tokens, common_prefix
from cachesim.engines.inspection import Key, Point, Stored
from cachesim.engines.rule import Role, has_effect, role_of
from cachesim.events import Advanced, Decided, Declined, Event, Gained, Launch, Lost, Release
from cachesim.judging.clean_ranges import Span, clean_spans, foreign_rows
from cachesim.judging.restore_point_index import Alike, KnownPoint, best_of, decline, enter, nearest_decline
from cachesim.judging.token_radix import Place, Texts, owner
from cachesim.oracle.cold_run import ColdRun

WITHIN = ("erased", "truncated", "overwritten", "cleared", "evaluated")
"""Causes that, inside the request itself, only carry out the decision not to use a restore point."""


HEARD: frozenset[type[Event]] = frozenset((Decided, Declined, Gained, Advanced, Lost, Launch, Release))
"""The events that the ledger must be told of."""


class Charge(NamedTuple):
    """Tokens of one request attributed to a cause. ``event``: what happened ("never captured", "not chosen", "evicted",
    "advanced" where a live state only went on, ...); ``rule`` the id of the rule behind it; ``at`` the request at
    which it happened, -1 = the present one; ``kind`` the restore point that was lost."""

    request: int
    tokens: int
    event: str
    rule: str
    at: int
    kind: str = ""


class Account(NamedTuple):
    """The recompute account of one request; ``charges`` from the end of the prompt. ``moved`` tokens beyond what
    was ever evaluated in place; ``wrong`` reused tokens of an answer that is not a cold run's, which are
    attributed to nothing."""

    best: int
    held: int
    n_past: int
    charges: tuple[Charge, ...]
    moved: int = 0
    wrong: int = 0

    @property
    def balanced(self) -> bool:
        """Do the attributions add up to what was evaluated although it had existed before?"""
        return sum(c.tokens for c in self.charges) == max(0, self.best - self.n_past)


class LedgerStart(NamedTuple):
    """How far the ledger had come when a slot was chosen for a request: time, evaluated token lists, decisions."""

    clock: int
    evaluated: int
    asked: int


@dataclass(slots=True)
class SeenPoint:
    """What was seen of a restore point when it was reported: the place of its tokens, a cold run that begins with them
    (None = there are none), positions of rows that are not the cold run's, by window; and the lengths from which
    evaluation could go on."""

    place: Place
    cold: ColdRun | None
    foreign: dict[int, list[int]]
    known: list[KnownPoint]


@dataclass(slots=True)
class Ledger:
    """Follows every restore point of a server through its log. ``look`` gives what a point consists of, ``cold`` the
    cold run of a token list, ``believed`` the tokens of a slot, ``whose`` the request at work in it (-1 = none);
    ``covers``: does a cold run go on with these tokens, the first ``same`` of which are its own?"""

    look: Callable[[Key, int], Stored]
    cold: Callable[[Tokens], ColdRun]
    believed: Callable[[int], Tokens]
    whose: Callable[[int], int] = lambda slot: -1
    covers: Callable[[ColdRun, Tokens, int], bool] = lambda run, tokens, same: False
    texts: Texts = field(default_factory=Texts)
    views: dict[Key, SeenPoint] = field(default_factory=dict)
    present: dict[Alike, KnownPoint] = field(default_factory=dict)
    live: dict[KnownPoint, None] = field(default_factory=dict)
    evaluated: list[Tokens] = field(default_factory=list)
    in_order: list[tuple[Tokens, int]] = field(default_factory=list)
    asked: list[Decided] = field(default_factory=list)
    starts: dict[int, LedgerStart] = field(default_factory=dict)
    chosen: LedgerStart = field(default_factory=lambda: LedgerStart(0, 0, 0))
    request: int = -1
    clock: int = 0
    count: int = 0

    def begin(self, request: int) -> None:
        """The next request is sent."""
        self.request, self.chosen = request, self._now()

    def _now(self) -> LedgerStart:
        return LedgerStart(self.clock, len(self.evaluated), len(self.asked))

    def hear(self, event: Event) -> None:
        """Told of every event of the log, or of these kinds only."""
        if isinstance(event, Decided):
            if role_of(event.rule) in (Role.ASSIGN, Role.ADMIT):
                self.chosen = self._now()
            self.asked.append(event)
        elif isinstance(event, Gained | Advanced):
            self.clock += 1
            self._gained(event)
        elif isinstance(event, Lost):
            self.clock += 1
            self._lost(self.views.pop(event.key), event)
        elif isinstance(event, Declined):
            decline(self._place(event.slot, event.n_tokens), event.rule)
        elif isinstance(event, Launch) and event.slot is not None:
            self.starts.setdefault(self._owner(event.slot), self.chosen)
        elif isinstance(event, Release):
            for known in self.live:
                known.rested = known.rested or known.owner == event.slot

    def restart(self) -> None:
        """The server is gone, with all that it had."""
        for key in [*self.views]:
            self.hear(Lost(None, key, "restarted", ""))

    def _place(self, slot: int, n: int) -> Place:
        """The place of the first n tokens of a slot."""
        view = self.views.get(("slot", slot, 0))
        if view is not None and n <= view.place.n:
            return Place(*owner(view.place.text, n))
        return self.texts.place(self.believed(slot)[:n], slot)

    def _owner(self, slot: int | None) -> int:
        """The request behind what happens to a slot."""
        number = -1 if slot is None else self.whose(slot)
        return self.request if number < 0 else number

    def _gained(self, event: Gained | Advanced) -> None:
        """A point is there. What was there under its key is lost where it is not the same."""
        point: Point = event.point
        was, view = self.views.get(point.key), self._view(point, isinstance(event, Gained))
        for known in view.known:
            known.seen += 1
        self.views[point.key] = view
        if was is not None:
            self._lost(was, event)

    def _lost(self, view: SeenPoint, event: Gained | Advanced | Lost) -> None:
        for known in view.known:
            known.seen -= 1
            if not known.seen:
                known.lost, known.lost_clock, known.lost_at = event, self.clock, self._owner(event.slot)
                del self.present[known.key]
                self.live.pop(known, None)

    def _view(self, point: Point, durable: bool) -> SeenPoint:
        """What is there, as far as it is not known from the point that it goes on from."""
        start, key = point.start, point.key
        before = self.views[point.after] if point.after is not None and start else None
        if before is None:
            who = -1 if durable else key[1]
            place = self.texts.place(point.tokens, who)
            self.texts.remember(who, point.tokens, place)
        else:
            place = self.texts.go_on(Place(before.place.text, start), point.tokens)
        if not point.n:
            return SeenPoint(place, None, {}, [])
        cold = before.cold if before is not None else None
        if cold is None or not self.covers(cold, point.tokens, start):
            cold = self.cold(self.texts.tokens(place))
        stored, foreign = self.look(key, start), dict[int, list[int]]()
        if before is not None:
            first = {part.window: int(part.pos.min()) for part in stored.rows if len(part.pos)}
            for window, positions in before.foreign.items():
                foreign[window] = [q for q in positions if q < min(start, first.get(window, start))]
        for part in stored.rows:
            foreign.setdefault(part.window, []).extend(foreign_rows(part, cold, point.n))
        known = [self._known(point, place, span, durable) for span in clean_spans(point, stored, foreign, cold)]
        return SeenPoint(place, cold, foreign, known)

    def _known(self, point: Point, place: Place, span: Span, durable: bool) -> KnownPoint:
        """The restore point of this kind after these tokens, a new one if there was none a moment ago."""
        kind, slot, _ = point.key
        alike = (kind, place.text.number, place.n, *span, point.step)
        known = self.present.get(alike)
        if known is None:
            self.count += 1
            limits.JUDGED_TOKENS.check(self.texts.kept + self.count, "what the judge keeps of restore points")
            known = KnownPoint(self.count, alike, kind, place, *span, point.step, self.clock, slot, durable)
            enter(known, self._past)
            self.present[alike] = known
            if not durable:
                self.live[known] = None
        return known

    def _past(self) -> int:
        """No request that is to be settled began before this time."""
        return min((self.chosen.clock, *(start.clock for start in self.starts.values())))

    def _ever(self, prompt: Tokens, before: int) -> int:
        """How much of a prompt the first ``before`` of the evaluated lists begin with: the list that begins with most
        of it is next to it in alphabetical order."""
        for number in range(len(self.in_order), len(self.evaluated)):
            insort(self.in_order, (self.evaluated[number], number))
        at = bisect_left(self.in_order, (prompt, -1))
        sides = (range(at - 1, -1, -1), range(at, len(self.in_order)))
        near = [next((i for i in side if self.in_order[i][1] < before), None) for side in sides]
        return max((common_prefix(prompt, self.in_order[i][0]) for i in near if i is not None), default=0)

    def settle(self, request: int, slot: int, prompt: Tokens, n_past: int, wrong: bool) -> Account:
        """The account of a request that was answered in this slot, before its own tokens count as evaluated."""
        start = self.starts.pop(request, self.chosen)
        best = min(self._ever(prompt, start.evaluated), max(0, len(prompt) - 1))
        bill = _Bill(self, request, start, [d for d in self.asked[start.asked :] if d.slot in (slot, None)])
        return bill.account(self.texts.path(prompt, slot), n_past, best, wrong)


class _Bill(NamedTuple):
    """The recompute account of one request: what there was at its start, and the decisions about it."""

    ledger: Ledger
    request: int
    start: LedgerStart
    asked: list[Decided]

    def account(self, prompt: Place, n_past: int, best: int, wrong: bool) -> Account:
        """Its attributions."""
        point, held = self._held(prompt, best, lasting=False)
        moved = max(0, n_past - best)
        if wrong or n_past >= best:
            charges: tuple[Charge, ...] = ()
            if wrong and n_past < best:
                charges = (self._never(prompt, best, best - n_past),)
            return Account(best, held, n_past, charges, moved, n_past if wrong else 0)
        held = max(held, n_past)
        never = (self._never(prompt, best, best - held),) if best > held else ()
        durable, reach = self._held(prompt, best, lasting=True)
        reach = max(reach, n_past)
        passing = (self._lost(point, held - reach),) if point is not None and held > reach else ()
        lost = (self._lost(durable, reach - n_past),) if durable is not None and reach > n_past else ()
        return Account(best, held, n_past, never + passing + lost)

    def _held(self, prompt: Place, best: int, lasting: bool) -> tuple[KnownPoint | None, int]:
        """The best restore point older than the request, and how far it reached. Of equals one that was still there
        when the request came; then a kept copy before a live slot, which goes on by its nature; then the one lost
        last."""

        def worth(known: KnownPoint) -> tuple[int, ...] | None:
            if known.born > self.start.clock or (lasting and not known.lasting):
                return None
            return self._here(known), known.durable, known.lost_at

        return best_of(prompt, best, worth)

    def _here(self, known: KnownPoint) -> bool:
        """Was it still there when the request came?"""
        return known.lost is None or known.lost_clock > self.start.clock

    def _never(self, prompt: Place, best: int, tokens: int) -> Charge:
        """The rule that declined to make the checkpoint nearest below ``best``."""
        return Charge(self.request, tokens, "never captured", nearest_decline(prompt, best), -1)

    def _lost(self, known: KnownPoint, tokens: int) -> Charge:
        change = known.lost
        if change is None or (self._here(known) and change.cause in WITHIN):
            return Charge(self.request, tokens, "not chosen", self._unused(known), -1, known.kind)
        at = -1 if self._here(known) else known.lost_at
        event = "advanced" if change.cause == "evaluated" else change.cause
        return Charge(self.request, tokens, event, change.rule, at, known.kind)

    def _unused(self, known: KnownPoint) -> str:
        """The rule that had the restore point before it and did not use it."""
        asked = [(role_of(d.rule), d) for d in self.asked]
        searched = any(role is Role.NEED and has_effect(role, d.value) for role, d in asked)
        wanted = {
            "checkpoint": Role.PICK if searched else Role.NEED,
            "slot": Role.NEED if searched else Role.ASSIGN,
        }.get(known.kind, Role.LOAD)
        last = {role: d.rule for role, d in asked}
        return last.get(wanted, last.get(Role.ASSIGN, ""))
