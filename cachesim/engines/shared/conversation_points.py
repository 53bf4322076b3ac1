"""Restore points of conversations: of slots, of their checkpoints, and of stored conversations.

A driver reports that a conversation changed, the reason, and the length of its unchanged part. This module derives the
restore points that the conversation has now.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Mapping, NamedTuple, Sequence

from cachesim.engines.inspection import Key, RestorePoint
from cachesim.engines.point_kinds import CHECKPOINT, CONVERSATION, RUNNING, running_key
from cachesim.engines.shared.restore_point_tracker import RestorePointTracker
from cachesim.events import Advanced, Gained, Log

STORED_CHECKPOINT = f"{CONVERSATION} {CHECKPOINT}"
"""Kind of a checkpoint that was stored with its conversation."""
ALL_TOKENS = 2**62
"""A length that exceeds every conversation: all tokens are unchanged."""


class Conversation(NamedTuple):
    """The data that determine the restore points of a slot or of a stored conversation: its tokens; the number of
    ``rows`` of full attention from position 0 on without a gap; the lengths ``lo`` .. ``hi`` at which its windows and
    states are usable; its checkpoints, each of which keeps its state in ``blob``."""

    tokens: Sequence[int]
    rows: int
    lo: int
    hi: int
    checkpoints: Sequence[Any]


class CheckpointRange(NamedTuple):
    """Range of a checkpoint, independent of the conversation: ``n`` tokens that it covers, and the lengths ``lo`` ..
    ``hi`` at which its windows and states are usable."""

    n: int
    lo: int
    hi: int


Ranges = Mapping[Key, tuple[Any, CheckpointRange, RestorePoint]]
"""Checkpoints by key, with the range of each and its restore point."""


class _Reported(NamedTuple):
    """The last report of a conversation: number of tokens and rows, and its checkpoints by key. ``is_short``: a
    checkpoint would have more tokens or usable lengths if the conversation had more tokens and rows."""

    n: int
    rows: int
    ranges: Ranges
    is_short: bool = False


UNREPORTED = _Reported(0, 0, {})
"""State of a conversation that was never reported."""


class ConversationSource(ABC):
    """A server with restore points of slots, checkpoints and stored conversations."""

    @abstractmethod
    def of_slot(self, slot: Any) -> Conversation:
        """Return the tokens, rows, usable lengths and checkpoints of a slot, which determine its restore points."""

    @abstractmethod
    def of_entry(self, entry: Any) -> Conversation:
        """Return the tokens, rows, usable lengths and checkpoints of a prompt cache entry, which determine its restore
        points."""

    @abstractmethod
    def of_checkpoint(self, checkpoint: Any) -> CheckpointRange:
        """Return the range of a checkpoint."""


class ConversationPoints(RestorePointTracker):
    """Restore points of conversations. Without a listener on the log, changes are only recorded, and computed on
    demand."""

    def __init__(self, owner: ConversationSource, log: Log) -> None:
        super().__init__(log)
        self.owner = owner
        self.slots: dict[int, _Reported] = {}
        self.entries: dict[Key, tuple[Any, _Reported]] = {}
        self.touched: dict[int, int] = {}
        self.unreported: dict[Key, Any] = {}               # slots and entries changed without a listener

    def touch(self, slot: int, n: int) -> None:
        """Record that tokens or rows of a slot from position ``n`` on may have changed; the next call of ``changed``
        reports it."""
        self.touched[slot] = min(n, self.touched.get(slot, ALL_TOKENS))

    def changed(self, slot: Any, cause: str, rule: str = "", kept: int = 0, grown: bool = False) -> None:
        """Report a change of a slot, made by this rule. Tokens and rows of full attention before position ``kept`` are
        unchanged. ``grown``: the checkpoints are unchanged, too."""
        key, number = running_key(slot.id), slot.id
        was, live = self.slots.get(number) or UNREPORTED, self.log.listens_to(Advanced)
        if not self.log.listens_to(Gained):
            self.unreported[key] = slot
        if key in self.unreported or (grown and not live and not was.is_short):
            return
        now = self.owner.of_slot(slot)
        n = len(now.tokens)
        start = min(kept, self.touched.pop(number, ALL_TOKENS), was.n, was.rows, n)
        if live:
            tokens, after = tuple(now.tokens[start:]), key if start else None
            point = RestorePoint(
                key, n, tokens=tokens, start=start, after=after, lo=now.lo, hi=min(now.hi, now.rows, n)
            )
            self.advance(number, point, cause, rule, anew=kept < was.n)
        ranges, short = was.ranges, was.is_short
        if not grown or short or start < min(was.n, was.rows):
            ranges, short = self._ranges(key, now, was.ranges)
        self.slots[number] = _Reported(n, now.rows, ranges, short)
        if ranges is not was.ranges:
            self._report(number, was.ranges, now=ranges, start=start, cause=cause, rule=rule)

    def ends_at(self, slot: int, n: int) -> bool:
        """True if the tokens and rows of a slot ended at ``n`` in the last report and were not touched since."""
        was = self.slots.get(slot)
        return was is not None and was.n == was.rows == n and slot not in self.touched

    def _ranges(self, owner: Key, now: Conversation, known: Ranges) -> tuple[Ranges, bool]:
        """Return the checkpoints of a conversation, reusing the ranges of the ``known`` checkpoints, and whether a
        checkpoint is ``short`` (see ``_Reported``)."""
        kind, number = (CHECKPOINT, owner[1]) if owner[0] == RUNNING else (STORED_CHECKPOINT, owner[2])
        earlier = {id(checkpoint.blob): (key, span) for key, (checkpoint, span, _) in known.items()}
        found = dict[Key, tuple[Any, CheckpointRange, RestorePoint]]()
        short = False
        n = len(now.tokens)
        for checkpoint in now.checkpoints:
            key, span = (earlier.get(id(checkpoint.blob))
                         or (self.new_key(kind, number), self.owner.of_checkpoint(checkpoint)))  # fmt: skip
            most = min(span.hi, span.n)
            m, hi = min(span.n, n), min(most, n, now.rows)
            short = short or m < span.n or hi < most
            found[key] = checkpoint, span, RestorePoint(key, m, tokens=(), start=m, after=owner, lo=span.lo, hi=hi)
        return found, short

    def _report(self, slot: int | None, was: Ranges, now: Ranges, start: int, cause: str, rule: str) -> None:
        """Report checkpoints that are new or whose tokens from ``start`` on changed, then those that are gone."""
        for _, _, point in now.values():
            self.hold(point, cause, rule, slot, anew=point.n > start)
        for key in was:
            if key not in now:
                self.lose(key, cause, rule, slot)

    def stored(self, entry: Any, cause: str = "stored", rule: str = "", instead: Any = None) -> None:
        """Report a stored conversation, or with ``instead`` the replacement of another conversation under its key."""
        key = self._key(instead) if instead is not None else self.new_key(CONVERSATION)
        was = self.entries[key][1] if instead is not None else UNREPORTED
        self.entries[key] = entry, was
        if not self.log.listens_to(Gained):
            self.unreported[key] = entry
            return
        now = self.owner.of_entry(entry)
        n, hi = len(now.tokens), min(now.hi, now.rows, len(now.tokens))
        ranges, short = self._ranges(key, now, was.ranges)
        self.entries[key] = entry, _Reported(n, now.rows, ranges, short)
        self.hold(RestorePoint(
            key, n, tokens=tuple(now.tokens), start=0, after=None, lo=now.lo, hi=hi
        ), cause, rule, anew=True)
        self._report(None, was.ranges, now=ranges, start=0, cause=cause, rule=rule)

    def lost(self, entry: Any, cause: str, rule: str) -> None:
        """Report the removal of a stored conversation and of its checkpoints."""
        key = self._key(entry)
        self.unreported.pop(key, None)
        for gone in (key, *self.entries.pop(key)[1].ranges):
            self.lose(gone, cause, rule)

    def _key(self, entry: Any) -> Key:
        return next(key for key, (known, _) in self.entries.items() if known is entry)

    def kept(self) -> list[Key]:
        """Return the keys of all checkpoints (by slot), then of stored conversations with their checkpoints, oldest
        first."""
        for key, changed in self.unreported.items():
            if key[0] == RUNNING:
                was = self.slots.get(key[1]) or UNREPORTED
                self.slots[key[1]] = was._replace(ranges=self._ranges(key, self.owner.of_slot(changed), was.ranges)[0])
            else:
                was = self.entries[key][1]
                ranges, _ = self._ranges(key, self.owner.of_entry(changed), was.ranges)
                self.entries[key] = changed, was._replace(ranges=ranges)
        of_slots = [key for number in sorted(self.slots) for key in self.slots[number].ranges]
        return of_slots + [found for key, (_, known) in self.entries.items() for found in (key, *known.ranges)]

    def checkpoint(self, key: Key) -> Any:
        """Return the checkpoint of a slot, or of a stored conversation, with this key."""
        owner = self.slots[key[1]] if key[0] == CHECKPOINT else self.entries[CONVERSATION, -1, key[1]][1]
        return owner.ranges[key][0]

    def conversation(self, key: Key) -> Any:
        """Return the stored conversation with this key, or the owner of the checkpoint with this key."""
        return self.entries[key if key[0] == CONVERSATION else (CONVERSATION, -1, key[1])][0]
