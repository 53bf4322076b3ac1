"""History of the blocks that messages name: which were stored again after they had left, and whether that is certain.

A message that is missing may have stored or removed any block. What rests on two messages is decided only if none is
missing between them.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Callable, Mapping, NamedTuple, Sequence

from cachesim.tools.run.kv_event_messages import EventMessage
from cachesim.tools.server_logs.kv_events.message_reader import CLEARED, KNOWN_FIELDS, REMOVED, STORED

REMOVAL, CLEARING, RESTART = "removed", "cleared", "restart"
"""Ways in which a block leaves."""
Publisher = tuple[str, int | None]
Place = tuple[Publisher, int | None, str | None]
"""Publisher, group and medium of a block."""


class Moment(NamedTuple):
    """A message: its number, its time stamp, and how many gaps are before it."""

    seq: int | None
    ts: float
    gaps: int


class Departure(NamedTuple):
    """How a block left. ``stored``: blocks that the same message stores."""

    moment: Moment
    why: str
    stored: int = 0


@dataclass(slots=True)
class BlockState:
    """What is known of a block in a place. ``count``: stores that no removal followed; ``era``: number of clearings
    and restarts of its publisher before its last store."""

    era: int
    count: int = 0
    left: Departure | None = None


class Missed(NamedTuple):
    """Blocks of a group that a message stores again, all of which left in the same way. ``copies``: other media that
    still have them; ``block_hashes``: the first of them."""

    moment: Moment
    left: Departure
    group: int | None
    medium: str | None
    copies: tuple[str, ...]
    undecided: bool
    blocks: int
    tokens: int
    block_hashes: Sequence[Any]
    requests: frozenset[int] | None         # bodies whose prompts have the last of the blocks, None = not known


class Gap(NamedTuple):
    """Missing messages: the numbers before and after."""

    after: int
    before: int

    @property
    def messages(self) -> int:
        """Number of missing messages."""
        return self.before - self.after - 1


@dataclass
class BlockHistory:
    """The blocks of a file of messages. ``prompts_with`` returns for each hash of a store the bodies whose prompts
    have the block, None = not known."""

    prompts_with: Callable[[Place, Mapping[str, Any]], Sequence[frozenset[int] | None]]
    counts: Counter[str] = field(default_factory=Counter)
    unknown: Counter[str] = field(default_factory=Counter)
    gaps: list[Gap] = field(default_factory=list)
    missed: list[Missed] = field(default_factory=list)
    first_seq: int | None = None
    _last: dict[Publisher, int] = field(default_factory=dict)
    _states: dict[tuple[Place, Any], BlockState] = field(default_factory=dict)
    _media: dict[tuple[Publisher, int | None, Any], set[str | None]] = field(default_factory=dict)
    _ends: dict[Publisher, list[Departure]] = field(default_factory=dict)

    def read(self, message: EventMessage) -> None:
        """Follow a message."""
        publisher = (message.topic, message.rank)
        if not self._is_next(publisher, message):
            return
        self.counts["messages"] += 1
        moment = Moment(message.seq, message.ts, len(self.gaps))
        stored = sum(len(event["block_hashes"]) for event in message.events if event["type"] == STORED)
        for event in message.events:
            kind = event["type"]
            for name in event.keys() - KNOWN_FIELDS.get(kind, event.keys()):
                self.unknown[f"{kind}.{name}"[:80]] += 1
            if kind == STORED:
                self._store(publisher, event, moment)
            elif kind == REMOVED:
                self._remove(publisher, event, Departure(moment, REMOVAL, stored))
            elif kind == CLEARED:
                self.counts["clearings"] += 1
                self._end_era(publisher, Departure(moment, CLEARING))
            else:
                self.unknown[kind[:80]] += 1

    def _is_next(self, publisher: Publisher, message: EventMessage) -> bool:
        """Note gaps and restarts; return False for a message that was read before."""
        seq = message.seq
        if seq is None:
            self.counts["unnumbered"] += 1
            return True
        last = self._last.get(publisher)
        if last is None:
            self.first_seq = seq if self.first_seq is None else self.first_seq
        elif seq == 0:
            self.counts["restarts"] += 1
            self._end_era(publisher, Departure(Moment(seq, message.ts, len(self.gaps)), RESTART))
        elif seq <= last:
            self.counts["repeated"] += 1
            return False
        elif seq > last + 1:
            self.gaps.append(Gap(last, seq))
        self._last[publisher] = seq
        return True

    def _end_era(self, publisher: Publisher, departure: Departure) -> None:
        """Note that all blocks of a publisher left."""
        self._ends.setdefault(publisher, []).append(departure)

    def _store(self, publisher: Publisher, event: Mapping[str, Any], moment: Moment) -> None:
        medium = event.get("medium")
        group = event.get("group_idx")
        place = (publisher, group, medium)
        era = len(self._ends.get(publisher, ()))
        again: dict[tuple[Departure, tuple[str, ...]], list[tuple[Any, frozenset[int] | None]]] = {}
        requests = self.prompts_with(place, event)
        for digest, bodies in zip(event["block_hashes"], requests, strict=True):
            self.counts["stored"] += 1
            state = self._states.setdefault((place, digest), BlockState(era))
            left = self._departure(publisher, state)
            if left is not None:
                copies = self._copies(publisher, group, digest, medium)
                again.setdefault((left, copies), []).append((digest, bodies))
            state.count = 1 if left is not None else state.count + 1
            state.left = None
            state.era = era
            self._media.setdefault((publisher, group, digest), set()).add(medium)
        for (left, copies), blocks in again.items():
            is_certain = left.moment.gaps == moment.gaps and not self.counts["unnumbered"]
            self.missed.append(Missed(
                moment, left, group, medium, copies, undecided=not is_certain, blocks=len(blocks),
                tokens=len(blocks) * event["block_size"], block_hashes=[digest for digest, _ in blocks[:1]],
                requests=blocks[-1][1],
            ))  # fmt: skip

    def _departure(self, publisher: Publisher, state: BlockState) -> Departure | None:
        """Return how a block left, None if it is there or was never stored."""
        ends = self._ends.get(publisher, ())
        if state.count and state.era < len(ends):
            return ends[state.era]
        return None if state.count else state.left

    def _copies(self, publisher: Publisher, group: int | None, digest: Any, medium: str | None) -> tuple[str, ...]:
        """Return the other media that have a block."""
        others = self._media.get((publisher, group, digest), set()) - {medium}
        there = [str(other) for other in others if self._is_there((publisher, group, other), digest)]
        return tuple(sorted(there))

    def _is_there(self, place: Place, digest: Any) -> bool:
        state = self._states.get((place, digest))
        return state is not None and state.count > 0 and state.era == len(self._ends.get(place[0], ()))

    def _remove(self, publisher: Publisher, event: Mapping[str, Any], departure: Departure) -> None:
        place = (publisher, event.get("group_idx"), event.get("medium"))
        for digest in event["block_hashes"]:
            self.counts["removed"] += 1
            state = self._states.get((place, digest))
            if state is None or not self._is_there(place, digest):
                self.counts["removed, not seen stored"] += 1
                state = self._states[place, digest] = BlockState(era=len(self._ends.get(publisher, ())), count=1)
            state.count -= 1
            if not state.count:
                state.left = departure

    def present(self) -> int:
        """Return the number of blocks that are there at the end."""
        return sum(self._is_there(place, digest) for place, digest in self._states)
