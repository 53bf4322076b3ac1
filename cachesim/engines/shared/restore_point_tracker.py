"""The restore points of slots, of their checkpoints and of stored conversations, reported as they come and go.

A driver says that a conversation has changed, why, and how much of it is as before; what that means for its points is
worked out here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Mapping, NamedTuple, Sequence

from cachesim.engines.inspection import Key, Point
from cachesim.events import Advanced, Gained, Log, Lost

ALL_TOKENS = 2**62
"""All tokens that there are."""


class Conversation(NamedTuple):
    """What the points of a slot, or of a stored conversation, depend on: its tokens; ``rows`` of full attention that
    are there from position 0 on without a hole; the lengths ``lo`` .. ``hi`` at which its windows and its states could
    be used; its checkpoints, each of which keeps its state in ``blob``."""

    tokens: Sequence[int]
    rows: int
    lo: int
    hi: int
    checkpoints: Sequence[Any]


class CheckpointRange(NamedTuple):
    """What depends on nothing but a checkpoint itself: the tokens that it stands for, and the lengths at which its
    windows and states could be used."""

    n: int
    lo: int
    hi: int


Cuts = Mapping[Key, tuple[Any, CheckpointRange, Point]]
"""Checkpoints by key, what depends on each alone, and the point that was reported of it."""


class _Reported(NamedTuple):
    """A conversation as it was last reported: tokens, rows and lengths, and its checkpoints by key. ``short``: one of
    these would be usable at more lengths if there were more tokens and rows."""

    n: int
    rows: int
    lo: int
    hi: int
    cuts: Cuts
    short: bool = False


UNREPORTED = _Reported(0, 0, 1, 0, {})
"""A conversation that was never reported."""


class RestorePointSource(ABC):
    """A server with such points."""

    @abstractmethod
    def of_slot(self, slot: Any) -> Conversation:
        """What the points of a slot depend on."""

    @abstractmethod
    def of_entry(self, entry: Any) -> Conversation:
        """What those of a stored conversation depend on."""

    @abstractmethod
    def of_checkpoint(self, checkpoint: Any) -> CheckpointRange:
        """What depends on a checkpoint itself."""


class RestorePoints:
    """The restore points of a server. As long as nobody listens, changes are only noted, and worked out when somebody
    asks."""

    def __init__(self, owner: RestorePointSource, log: Log) -> None:
        self.owner, self.log = owner, log
        self.slots: dict[int, _Reported] = {}
        self.entries: dict[Key, tuple[Any, _Reported]] = {}
        self.touched: dict[int, int] = {}
        self.unheard: dict[Key, Any] = {}               # slots and entries that changed while nobody listened
        self.count = 0

    def touch(self, slot: int, n: int) -> None:
        """Tokens of a slot, or its rows, from position ``n`` on may be others than they were; to be reported with the
        next change."""
        self.touched[slot] = min(n, self.touched.get(slot, ALL_TOKENS))

    def changed(self, slot: Any, cause: str, rule: str = "", kept: int = 0, grown: bool = False) -> None:
        """A slot has changed, because of this rule: tokens, and rows of full attention, before position ``kept`` are as
        they were. ``grown``: its checkpoints are as they were, too."""
        key, number = ("slot", slot.id, 0), slot.id
        was, live = self.slots.get(number) or UNREPORTED, self.log.heard(Advanced)
        if not self.log.heard(Gained):
            self.unheard[key] = slot
        if key in self.unheard or (grown and not live and not was.short):
            return
        now = self.owner.of_slot(slot)
        n = len(now.tokens)
        start = min(kept, self.touched.pop(number, ALL_TOKENS), was.n, was.rows, n)
        lo, hi = now.lo, min(now.hi, now.rows, n)
        if live and (start < n or kept < was.n or (n, lo, hi) != (was.n, was.lo, was.hi)):
            tokens = tuple(now.tokens[start:])
            self.log.emit(Advanced(number, Point(key, n, tokens, start, key if start else None, lo, hi), cause, rule))
        cuts, short = was.cuts, was.short
        if not grown or short or start < min(was.n, was.rows):
            cuts, short = self._cuts(key, now, was.cuts)
        self.slots[number] = _Reported(n, now.rows, lo, hi, cuts, short)
        if cuts is not was.cuts:
            self._report(number, was.cuts, cuts, start, cause, rule)

    def ends_at(self, slot: int, n: int) -> bool:
        """Did the tokens of a slot and its rows end there when they were last reported, and were not touched since?"""
        was = self.slots.get(slot)
        return was is not None and was.n == was.rows == n and slot not in self.touched

    def _cuts(self, of: Key, now: Conversation, known: Cuts) -> tuple[Cuts, bool]:
        """The checkpoints of a conversation, of which these were known; would one be usable at more lengths if there
        were more tokens and rows?"""
        name = ("checkpoint", of[1]) if of[0] == "slot" else ("entry checkpoint", of[2])
        keys = {id(one.blob): key for key, (one, _, _) in known.items()}
        found, short, n = dict[Key, tuple[Any, CheckpointRange, Point]](), False, len(now.tokens)
        for one in now.checkpoints:
            key = keys.get(id(one.blob)) or (*name, self._next())
            cut = known[key][1] if key in known else self.owner.of_checkpoint(one)
            hi = min(cut.hi, cut.n, n, now.rows)
            short = short or hi < min(cut.hi, cut.n)
            m = min(cut.n, n)
            found[key] = one, cut, Point(key, m, (), m, of, cut.lo, hi)
        return found, short

    def _report(self, slot: int | None, was: Cuts, now: Cuts, start: int, cause: str, rule: str) -> None:
        """Checkpoints that have come, or whose tokens from ``start`` on are others; those that have gone."""
        for key, (_, _, point) in now.items():
            if point.n > start or key not in was or was[key][2] != point:
                self.log.emit(Gained(slot, point, cause, rule))
        for key in was:
            if key not in now:
                self.log.emit(Lost(slot, key, cause, rule))

    def _next(self) -> int:
        self.count += 1
        return self.count

    def stored(self, entry: Any, cause: str = "stored", rule: str = "", instead: Any = None) -> None:
        """A conversation is stored, or ``instead`` of another one under its key."""
        key = self._key(instead) if instead is not None else ("entry", -1, self._next())
        was = self.entries[key][1] if instead is not None else UNREPORTED
        self.entries[key] = entry, was
        if not self.log.heard(Gained):
            self.unheard[key] = entry
            return
        now = self.owner.of_entry(entry)
        n, hi = len(now.tokens), min(now.hi, now.rows, len(now.tokens))
        cuts, short = self._cuts(key, now, was.cuts)
        self.entries[key] = entry, _Reported(n, now.rows, now.lo, hi, cuts, short)
        self.log.emit(Gained(None, Point(key, n, tuple(now.tokens), 0, None, now.lo, hi), cause, rule))
        self._report(None, was.cuts, cuts, 0, cause, rule)

    def lost(self, entry: Any, cause: str, rule: str) -> None:
        """A stored conversation has gone."""
        key = self._key(entry)
        self.unheard.pop(key, None)
        for one in (key, *self.entries.pop(key)[1].cuts):
            self.log.emit(Lost(None, one, cause, rule))

    def _key(self, entry: Any) -> Key:
        return next(key for key, (one, _) in self.entries.items() if one is entry)

    def kept(self) -> list[Key]:
        """The keys of checkpoints and stored conversations: by slot, then those stored first."""
        for key, one in self.unheard.items():
            if key[0] == "slot":
                was = self.slots.get(key[1]) or UNREPORTED
                self.slots[key[1]] = was._replace(cuts=self._cuts(key, self.owner.of_slot(one), was.cuts)[0])
            else:
                was = self.entries[key][1]
                cuts, _ = self._cuts(key, self.owner.of_entry(one), was.cuts)
                self.entries[key] = one, was._replace(cuts=cuts)
        mine = [key for number in sorted(self.slots) for key in self.slots[number].cuts]
        return mine + [one for key, (_, known) in self.entries.items() for one in (key, *known.cuts)]

    def checkpoint(self, key: Key) -> Any:
        """The checkpoint of a slot, or of a stored conversation, with this key."""
        of = self.slots[key[1]] if key[0] == "checkpoint" else self.entries["entry", -1, key[1]][1]
        return of.cuts[key][0]

    def conversation(self, key: Key) -> Any:
        """The stored conversation with this key, or that of the checkpoint with this key."""
        return self.entries[key if key[0] == "entry" else ("entry", -1, key[1])][0]
