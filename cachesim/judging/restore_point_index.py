"""Every restore point that there ever was, found by the prompts that could have gone on from it.

A point that is usable at one length only lies at that place of its conversation. One with a range of lengths lies on
the path on which its tokens end; of each path is known the least length at which a point on it, or behind it, is
usable.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from dataclasses import dataclass, field
from typing import Callable, Iterator

from cachesim.events import Advanced, Gained, Lost
from cachesim.judging.token_radix import Place, TextNode, owner, upwards

NEVER = 2**62
MANY = 8                 # points in one list, from which on those that no request can want any more are forgotten
Alike = tuple[str, int, int, int, int, int]
"""Two restore points are the same one: kind, path and number of the tokens, lo, hi, step."""


@dataclass(slots=True, eq=False)
class KnownPoint:
    """A restore point that exists or existed: usable after lo, lo + step, .. hi of the tokens at ``place``, there from
    ``born`` on (a time of the ledger's clock), the ``number``-th of all. ``lost`` is the event that removed it, at
    time ``lost_clock`` of request ``lost_at``; ``rested``: a request ended in this state; ``seen``: so
    many objects are it now."""

    number: int
    key: Alike
    kind: str
    place: Place
    lo: int
    hi: int
    step: int
    born: int
    owner: int = -1
    durable: bool = True
    rested: bool = False
    lost: Gained | Advanced | Lost | None = None
    lost_clock: int = -1
    lost_at: int = -1
    seen: int = 0

    def reach(self, most: int) -> int:
        """The longest of its lengths that is no more than ``most``, less than ``lo`` if there is none."""
        far = min(most, self.hi)
        return far if self.step == 1 else self.lo + (far - self.lo) // self.step * self.step

    @property
    def lasting(self) -> bool:
        """A kept copy, or a live state that was still there when its request had ended."""
        return self.durable or self.lost is None or self.rested

    @property
    def rank(self) -> tuple[int, ...]:
        """Of lost points with the same lengths the greatest is the one that a request is told of."""
        return self.durable, self.lost_at, -self.number


@dataclass(slots=True, eq=False)
class Notes:
    """What lies on one path: points by their one length, those with a range of lengths, the first rule that declined
    to make a checkpoint at each length; ``least``: see above."""

    single: dict[int, list[KnownPoint]] = field(default_factory=dict)
    lengths: list[int] = field(default_factory=list)
    ranged: list[KnownPoint] = field(default_factory=list)
    least: int = NEVER
    declined: dict[int, str] = field(default_factory=dict)
    declines: list[int] = field(default_factory=list)


def notes_of(text: TextNode) -> Notes:
    """The notes of a path, made when they are first wanted."""
    if text.notes is None:
        text.notes = Notes()
    notes: Notes = text.notes
    return notes


def enter(known: KnownPoint, past: Callable[[], int] = lambda: -1) -> None:
    """From now on it is found. No request that is still to be settled, or to come, began before the time ``past``."""
    lo = known.lo
    if lo == known.hi:
        path = known.place.text
        notes = notes_of(path if lo > path.start else owner(path, lo)[0])
        if lo in notes.single:
            _append(notes.single[lo], known, past)
        else:
            insort(notes.lengths, lo)
            notes.single[lo] = [known]
        return
    _append(notes_of(known.place.text).ranged, known, past)
    text: TextNode | None = known.place.text
    while text is not None and notes_of(text).least > known.lo:
        notes_of(text).least = known.lo
        text = text.parent


def _append(points: list[KnownPoint], known: KnownPoint, past: Callable[[], int]) -> None:
    """One more point of a path. Whenever the list has doubled, those that were lost before ``past`` and are worse than
    another such one for every request are taken out of it."""
    points.append(known)
    if len(points) < MANY or len(points) & (len(points) - 1):
        return
    earliest = past()
    gone = [one for one in points if one.lost is not None and one.lost_clock <= earliest]
    best: list[KnownPoint] = []
    for one in sorted(gone, key=lambda one: one.rank, reverse=True):
        if not any(_serves(other, one) for other in best):
            best.append(one)
    dropped = set(gone).difference(best)
    points[:] = [one for one in points if one not in dropped]


def _serves(one: KnownPoint, other: KnownPoint) -> bool:
    """Does a point reach as far as another one of its path, whatever the prompt?"""
    same = (one.lo, one.hi, one.step) == (other.lo, other.hi, other.step)
    wider = one.step == 1 and one.lo <= other.lo and one.hi >= other.hi
    far = one.place.n >= other.place.n or one.hi == one.lo
    return (same or wider) and far and (one.lasting or not other.lasting)


def decline(place: Place, rule: str) -> None:
    """A rule did not make a checkpoint after the tokens of this place."""
    notes = notes_of(place.text)
    if place.n not in notes.declined:
        insort(notes.declines, place.n)
        notes.declined[place.n] = rule


def nearest_decline(place: Place, most: int) -> str:
    """The rule that declined the longest beginning of a list, of at most so many tokens; "" = there is none."""
    for text, n in upwards(Place(*owner(place.text, min(place.n, most)))):
        if text.notes is not None and (at := bisect_right(text.notes.declines, n)):
            rule: str = text.notes.declined[text.notes.declines[at - 1]]
            return rule
    return ""


def best_of(
    place: Place, most: int, fits: Callable[[KnownPoint], tuple[int, ...] | None]
) -> tuple[KnownPoint | None, int]:
    """The point from which a prompt could go on best, and after how many tokens (0 = none). ``place``: how far its
    beginning is known; ``most`` tokens at most. ``fits`` ranks the points of equal reach, None = it does not count;
    the first of equals wins."""
    found: KnownPoint | None = None
    rank: tuple[int, ...] = (0,)
    below: TextNode | None = None
    for text, n in upwards(Place(*owner(place.text, min(place.n, most)))):
        if n < rank[0]:
            break
        for known, agree in _candidates(text, n, below, lambda: rank[0]):       # noqa: B023 - at once
            far = known.reach(min(agree, n))
            if far < known.lo or far < rank[0] or (worth := fits(known)) is None:
                continue
            mine = (far, *worth, -known.number)
            if mine > rank:
                found, rank = known, mine
        below = text
    return found, rank[0]


def _candidates(
    text: TextNode, n: int, below: TextNode | None, reached: Callable[[], int]
) -> Iterator[tuple[KnownPoint, int]]:
    """The points of a path, and of what leaves it, each with how far it agrees with a list that goes along for n
    tokens and then, if ``below`` is a path, on there."""
    notes = text.notes
    if notes is None:
        return
    for at in range(bisect_right(notes.lengths, n), 0, -1):
        if notes.lengths[at - 1] < reached():
            break
        yield from ((known, n) for known in notes.single[notes.lengths[at - 1]])
    if notes.least > n:
        return
    for known in notes.ranged:
        yield known, min(n, known.place.n)
    for start, kids in text.kids.items():
        agree = min(start, n)
        if agree >= reached():
            for kid in kids.values():
                if kid is not below:
                    yield from ((known, agree) for known in _all(kid, agree))


def _all(text: TextNode, agree: int) -> Iterator[KnownPoint]:
    """The points with a range of lengths on a path and on those that leave it, as far as any is usable that early."""
    todo = [text]
    while todo:
        one = todo.pop()
        if one.notes is None or one.notes.least > agree:
            continue
        yield from one.notes.ranged
        todo += [kid for kids in one.kids.values() for kid in kids.values()]
