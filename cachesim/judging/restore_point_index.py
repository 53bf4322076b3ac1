"""Index of all restore points of a run, past and present, searched by prompt.

A point that is usable at a single length is stored at the radix node of that length. A point with a range of lengths is
stored at the node where its tokens end; each node keeps the smallest usable length in its subtree (``least``).
"""

from __future__ import annotations

from bisect import bisect_right, insort
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Callable, Iterator, Sequence

from cachesim.engines.point_kinds import choice_role
from cachesim.engines.rule import Role, has_effect, role_of
from cachesim.events import Advanced, Decided, Gained, Lost
from cachesim.judging.token_radix import RadixNode, RadixPlace, ancestors, owner_node

NEVER = 2**62
MANY = 8                 # length of a list of points from which on points that no request can use are dropped
PointKey = tuple[str, int, int, int, int, int]
"""Key of a restore point: kind, number of the radix node, number of tokens, lo, hi, step. Points with equal keys are
counted as one."""


@dataclass(slots=True, eq=False)
class KnownPoint:
    """A restore point that exists or existed. It is usable after lo, lo + step, ..., hi of the tokens at ``place``."""

    number: int                  # in order of appearance
    key: PointKey
    kind: str                    # first part of its objects' keys
    place: RadixPlace            # of its tokens
    lo: int                      # shortest usable length [tokens]
    hi: int                      # longest usable length [tokens]
    step: int
    born: int                    # time of the ledger's clock
    owner: int = -1              # slot
    is_durable: bool = True         # a stored copy, not a live slot
    has_rested: bool = False         # a request ended in this state
    lost: Gained | Advanced | Lost | None = None       # event that removed it
    lost_clock: int = -1         # time of the removal
    lost_at: int = -1            # request of the removal
    seen: int = 0                # objects that are this point now

    def reach(self, most: int) -> int:
        """Return the longest usable length up to ``most``; a value below ``lo`` if every length is above it."""
        far = min(most, self.hi)
        return far - (far - self.lo) % self.step

    def existed_at(self, clock: int) -> bool:
        """True if the point was not lost before a time of the ledger's clock."""
        return self.lost is None or self.lost_clock > clock

    def outlived(self, known: KnownPoint, clock: int) -> bool:
        """True if the point was lost by a later request than a ``known`` one, or existed at ``clock`` when that was
        gone. A live slot outlives no lost copy."""
        if self.existed_at(clock) or known.existed_at(clock):
            return self.existed_at(clock) and not known.existed_at(clock)
        return self.is_durable >= known.is_durable and self.lost_at > known.lost_at

    @property
    def is_lasting(self) -> bool:
        """True for a stored copy, and for a live state that still existed when its request ended."""
        return self.is_durable or self.lost is None or self.has_rested

    @property
    def rank(self) -> tuple[int, ...]:
        """Order of lost points with equal lengths: a request is charged to the loss of the highest."""
        return self.is_durable, self.lost_at, -self.number


@dataclass(slots=True, eq=False)
class NodeIndex:
    """Contents of a radix node."""

    single: dict[int, list[KnownPoint]] = field(default_factory=dict)     # points with a usable length, by length
    lengths: list[int] = field(default_factory=list)                      # keys of ``single``, ascending
    ranged: list[KnownPoint] = field(default_factory=list)                # points with a range of lengths
    least: int = NEVER                                                    # smallest usable length in the subtree
    declined: dict[int, str] = field(default_factory=dict)    # first rule that declined a checkpoint, by length
    declines: list[int] = field(default_factory=list)         # keys of ``declined``, ascending


def index_of(node: RadixNode) -> NodeIndex:
    """Return the index of a node; create it on first use."""
    if node.notes is None:
        node.notes = NodeIndex()
    notes: NodeIndex = node.notes
    return notes


def add_point(known: KnownPoint, past: Callable[[], int]) -> None:
    """Add a restore point. Every request that is not settled yet began at or after the time that ``past`` returns."""
    lo = known.lo
    if lo == known.hi:
        path = known.place.node
        notes = index_of(path if lo > path.start else owner_node(path, lo)[0])
        if lo in notes.single:
            _append(notes.single[lo], known, past)
        else:
            insort(notes.lengths, lo)
            notes.single[lo] = [known]
        return
    _append(index_of(known.place.node).ranged, known, past)
    node: RadixNode | None = known.place.node
    while node is not None and index_of(node).least > known.lo:
        index_of(node).least = known.lo
        node = node.parent


def _append(points: list[KnownPoint], known: KnownPoint, past: Callable[[], int]) -> None:
    """Append a point to the list of a node. Each time the list has doubled, drop the points that were lost before
    ``past()`` and that another lost point replaces for every request."""
    points.append(known)
    if len(points) < MANY or len(points) & (len(points) - 1):
        return
    earliest = past()
    gone = [point for point in points if point.lost is not None and point.lost_clock <= earliest]
    best: list[KnownPoint] = []
    for point in sorted(gone, key=lambda point: point.rank, reverse=True):
        if not any(_dominates(better, point) for better in best):
            best.append(point)
    dropped = set(gone).difference(best)
    points[:] = [point for point in points if point not in dropped]


def _dominates(better: KnownPoint, worse: KnownPoint) -> bool:
    """True if ``better`` reaches at least as far as ``worse``, which is on the same node, for every prompt, and was not
    lost earlier."""
    same = (better.lo, better.hi, better.step) == (worse.lo, worse.hi, worse.step)
    wider = better.step == 1 and better.lo <= worse.lo and better.hi >= worse.hi
    far = better.place.n >= worse.place.n or better.hi == better.lo
    later = better.lost_at >= worse.lost_at
    return (same or wider) and far and later and (better.is_lasting or not worse.is_lasting)


def record_decline(place: RadixPlace, rule: str) -> None:
    """Record the first rule that did not create a checkpoint after the tokens of a place."""
    notes = index_of(place.node)
    if place.n not in notes.declined:
        insort(notes.declines, place.n)
        notes.declined[place.n] = rule


def nearest_decline(place: RadixPlace, most: int) -> str:
    """Return the rule that declined a checkpoint at the longest prefix of a list, up to ``most`` tokens; "" if there
    was none."""
    for node, n in ancestors(RadixPlace(*owner_node(place.node, min(place.n, most)))):
        if node.notes is not None and (at := bisect_right(node.notes.declines, n)):
            rule: str = node.notes.declined[node.notes.declines[at - 1]]
            return rule
    return ""


def find_best_point(
    place: RadixPlace, most: int, fits: Callable[[KnownPoint], tuple[int, ...] | None]
) -> tuple[KnownPoint | None, int]:
    """Return the restore point from which a prompt could resume latest, and the length (else None and 0).
    ``place`` is the longest known prefix of the prompt; at most ``most`` tokens count. ``fits`` ranks points of equal
    length, None excludes a point; of equal points the first wins."""
    found: KnownPoint | None = None
    rank: tuple[int, ...] = (0,)
    below: RadixNode | None = None
    for node, n in ancestors(RadixPlace(*owner_node(place.node, min(place.n, most)))):
        if n < rank[0]:
            break
        for known, agree in _candidates(node, n, below, lambda: rank[0]):       # noqa: B023 - at once
            far = known.reach(agree)
            if far < known.lo or far < rank[0] or (worth := fits(known)) is None:
                continue
            mine = (far, *worth, -known.number)
            if mine > rank:
                found, rank = known, mine
        below = node
    return found, rank[0]


def _candidates(
    node: RadixNode, n: int, below: RadixNode | None, reached: Callable[[], int]
) -> Iterator[tuple[KnownPoint, int]]:
    """Yield the points of a node and of the branches that leave it, each with the number of tokens that it shares with
    the prompt, which follows the node for n tokens and then continues in ``below`` (None = it ends there)."""
    notes = node.notes
    if notes is None:
        return
    for at in range(bisect_right(notes.lengths, n), 0, -1):
        if notes.lengths[at - 1] < reached():
            break
        yield from ((known, n) for known in notes.single[notes.lengths[at - 1]])
    if notes.least > n:
        return
    yield from ((known, n) for known in notes.ranged)
    for start, branches in node.branches.items():
        agree = min(start, n)
        if agree >= reached():
            for branch in branches.values():
                if branch is not below:
                    yield from ((known, agree) for known in _all(branch, agree))


def _all(node: RadixNode, agree: int) -> Iterator[KnownPoint]:
    """Yield the points with a range of lengths in a subtree that are usable at ``agree`` tokens or fewer."""
    todo = [node]
    while todo:
        branch = todo.pop()
        if branch.notes is None or branch.notes.least > agree:
            continue
        yield from branch.notes.ranged
        todo += [child for branches in branch.branches.values() for child in branches.values()]


def declining_rule(kind: str, decisions: Sequence[Decided]) -> str:
    """Return the rule that had a restore point of this kind available and did not use it, or that reacted when it could
    not be read. ``decisions``: those about the request."""
    decided = [(role_of(d.rule), d) for d in decisions]
    searched = any(role is Role.NEED and has_effect(role, d.value) for role, d in decided)
    wanted = choice_role(kind, searched)
    last = {role: d.rule for role, d in decided}
    for (role, d), (after, reaction) in pairwise(decided):
        if role is wanted is Role.LOAD and has_effect(role, d.value) and after is Role.FAIL:
            return reaction.rule
    return last.get(wanted, last.get(Role.ASSIGN, ""))
