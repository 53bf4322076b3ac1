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
MOST_GAPS = 1_000               # gaps that are listed; all are counted
MOST_NAMES = 200                # names of unknown fields and events
MOST_PUBLISHERS = 256
MOST_MEDIA = 32                 # media of a publisher in which copies are sought
MOST_PLACES = 4_096             # places whose blocks share one object
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


class PlacedBlock(NamedTuple):
    """A block in a place."""

    place: Place
    digest: Any


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
    """The blocks of messages. ``prompts_with`` returns for each hash of a store the bodies whose prompts have the
    block, None = not known; ``most``: blocks that are kept, present or not, None = all. The blocks that left first are
    forgotten first."""

    prompts_with: Callable[[Place, Mapping[str, Any]], Sequence[frozenset[int] | None]]
    most: int | None = None
    counts: Counter[str] = field(default_factory=Counter)
    unknown: Counter[str] = field(default_factory=Counter)
    gaps: list[Gap] = field(default_factory=list)
    missed: list[Missed] = field(default_factory=list)
    first_seq: int | None = None
    _last: dict[Publisher, int | None] = field(default_factory=dict)
    _there: dict[Publisher, dict[PlacedBlock, int]] = field(default_factory=dict)    # stores that no removal followed
    _left: dict[PlacedBlock, Departure] = field(default_factory=dict)                # in the order in which they left
    _media: dict[Publisher, set[str | None]] = field(default_factory=dict)
    _kept: int = 0                                                                   # blocks in both
    _publishers: dict[Publisher, Publisher] = field(default_factory=dict)
    _places: dict[Place, Place] = field(default_factory=dict)

    def last_seq(self, publisher: Publisher) -> int | None:
        """Return the number of the publisher's last message, None if it has none."""
        return self._last.get(publisher)

    def read(self, message: EventMessage) -> None:
        """Follow a message."""
        publisher = (message.topic, message.rank)
        if not self._is_next(publisher, message):
            return
        publisher = self._publishers.setdefault(publisher, publisher)
        self.counts["messages"] += 1
        moment = Moment(message.seq, message.ts, self.counts["gaps"])
        stored = sum(len(event["block_hashes"]) for event in message.events if event["type"] == STORED)
        for event in message.events:
            kind = event["type"]
            for name in event.keys() - KNOWN_FIELDS.get(kind, event.keys()):
                self._count_unknown(f"{kind}.{name}"[:80])
            if kind == STORED:
                self._store(publisher, event, moment)
            elif kind == REMOVED:
                self._remove(publisher, event, Departure(moment, REMOVAL, stored))
            elif kind == CLEARED:
                self.counts["clearings"] += 1
                self._clear(publisher, Departure(moment, CLEARING))
            else:
                self._count_unknown(kind[:80])

    def take_missed(self) -> list[Missed]:
        """Return the blocks that were stored again since the last call."""
        found = self.missed
        self.missed = []
        return found

    def present(self) -> int:
        """Return the number of blocks that are there."""
        return sum(map(len, self._there.values()))

    def _count_unknown(self, name: str) -> None:
        if name in self.unknown or len(self.unknown) < MOST_NAMES:
            self.unknown[name] += 1

    def _is_next(self, publisher: Publisher, message: EventMessage) -> bool:
        """Note gaps and restarts; return False for a message that is not followed: it was read before, or there are
        too many publishers."""
        seq = message.seq
        if publisher not in self._last and len(self._last) >= MOST_PUBLISHERS:
            self.counts["of other publishers"] += 1
            return False
        last = self._last.get(publisher)
        if seq is None:
            self._last.setdefault(publisher, None)
            self.counts["unnumbered"] += 1
            return True
        if last is None:
            self.first_seq = seq if self.first_seq is None else self.first_seq
        elif seq == 0:
            self.counts["restarts"] += 1
            self._clear(publisher, Departure(Moment(seq, message.ts, self.counts["gaps"]), RESTART))
        elif seq <= last:
            self.counts["repeated"] += 1
            return False
        elif seq > last + 1:
            self._note_gap(Gap(last, seq))
        self._last[publisher] = seq
        return True

    def _note_gap(self, gap: Gap) -> None:
        self.counts["gaps"] += 1
        self.counts["missing"] += gap.messages
        if len(self.gaps) < MOST_GAPS:
            self.gaps.append(gap)

    def _clear(self, publisher: Publisher, departure: Departure) -> None:
        """Note that all blocks of a publisher left."""
        for block in self._there.pop(publisher, ()):
            self._left[block] = departure

    def _store(self, publisher: Publisher, event: Mapping[str, Any], moment: Moment) -> None:
        place = self._place(publisher, event)
        _, group, medium = place
        there = self._there.setdefault(publisher, {})
        media = self._media.setdefault(publisher, set())
        if len(media) < MOST_MEDIA:
            media.add(medium)
        again: dict[tuple[Departure, tuple[str, ...]], list[tuple[Any, frozenset[int] | None]]] = {}
        requests = self.prompts_with(place, event)
        for digest, bodies in zip(event["block_hashes"], requests, strict=True):
            self.counts["stored"] += 1
            block = PlacedBlock(place, digest)
            stores = there.get(block, 0)
            there[block] = stores + 1
            if stores:
                continue
            left = self._left.pop(block, None)
            if left is None:
                self._kept += 1
                continue
            copies = self._copies(publisher, group, digest, medium)
            again.setdefault((left, copies), []).append((digest, bodies))
        self._forget()
        for (left, copies), blocks in again.items():
            is_certain = left.moment.gaps == moment.gaps and not self.counts["unnumbered"]
            self.missed.append(Missed(
                moment, left, group, medium, copies, undecided=not is_certain, blocks=len(blocks),
                tokens=len(blocks) * event["block_size"], block_hashes=[digest for digest, _ in blocks[:1]],
                requests=blocks[-1][1],
            ))  # fmt: skip

    def _place(self, publisher: Publisher, event: Mapping[str, Any]) -> Place:
        """Return the place of the blocks of an event: one object for all blocks of the place."""
        place = (publisher, event.get("group_idx"), event.get("medium"))
        if len(self._places) < MOST_PLACES:
            return self._places.setdefault(place, place)
        return self._places.get(place, place)

    def _copies(self, publisher: Publisher, group: int | None, digest: Any, medium: str | None) -> tuple[str, ...]:
        """Return the other media that have a block."""
        there = self._there[publisher]
        others = self._media[publisher] - {medium}
        found = [str(other) for other in others if PlacedBlock((publisher, group, other), digest) in there]
        return tuple(sorted(found))

    def _remove(self, publisher: Publisher, event: Mapping[str, Any], departure: Departure) -> None:
        place = self._place(publisher, event)
        there = self._there.setdefault(publisher, {})
        for digest in event["block_hashes"]:
            self.counts["removed"] += 1
            block = PlacedBlock(place, digest)
            stores = there.get(block)
            if stores is None:
                self.counts["removed, not seen stored"] += 1
                self._kept += self._left.pop(block, None) is None
                self._left[block] = departure
            elif stores > 1:
                there[block] = stores - 1
            else:
                del there[block]
                self._left[block] = departure
        self._forget()

    def _forget(self) -> None:
        """Forget the blocks beyond ``most``: those that left first, then those that were stored first."""
        while self.most is not None and self._kept > self.most:
            fullest = max(self._there.values(), key=len, default={})
            kept: dict[PlacedBlock, Any] = self._left or fullest
            del kept[next(iter(kept))]
            self._kept -= 1
            self.counts["forgotten"] += 1
