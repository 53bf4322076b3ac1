"""Comparison of the restore points that a server reports with the actual points.

``Reported`` follows a log as judging does. ``differences`` compares its points with those that follow from the
definition: a length is usable if every row and state that the next token reads is present. These are rows 0 .. n-1 of
full attention, the last window - 1 rows of a window, and the state of recurrent layers after token n.
"""

from __future__ import annotations

from itertools import chain
from typing import NamedTuple

from cachesim.base.keyed_tokens import identities
from cachesim.engines.inspection import Key, RestorePoint
from cachesim.engines.mlx_lm.snapshot import content
from cachesim.events import Advanced, Gained, Lost


class Reported:
    """Listens to a log: the last reported point of each key, and all of its tokens."""

    def __init__(self):
        self.points: dict[Key, RestorePoint] = {}
        self.tokens: dict[Key, tuple[int, ...]] = {}

    def __call__(self, event):
        if isinstance(event, Gained | Advanced):
            self._gained(event.point)
        elif isinstance(event, Lost):
            del self.points[event.key], self.tokens[event.key]

    def _gained(self, point):
        before = self.tokens[point.after][: point.start] if point.start else ()
        assert (len(before), len(before) + len(point.tokens)) == (point.start, point.n), point
        self.tokens[point.key], self.points[point.key] = (*before, *point.tokens), point

    def lengths(self, key):
        """The usable lengths of a point, [] if it was never reported."""
        point = self.points.get(key)
        return [] if point is None else list(range(point.lo, point.hi + 1, point.step))

    def spans(self, kind):
        """(n, lo, hi) of the points of a kind, in the order of their keys."""
        return [(one.n, one.lo, one.hi) for key, one in sorted(self.points.items()) if key[0] == kind]


class Held(NamedTuple):
    """What a restore point consists of: tokens, rows as pairs of a window (0 = full attention) and its positions, the
    last position that the states have absorbed (None = there are no states)."""

    tokens: tuple[int, ...]
    rows: list
    state: int | None = None

    @property
    def lengths(self):
        """The usable lengths, found row by row."""
        found = list(range(1, len(self.tokens) + 1))
        if self.state is not None:
            found = [n for n in found if n == self.state + 1]
        for window, positions in self.rows:
            unbroken = _unbroken(set(positions), len(self.tokens))
            found = [n for n in found if unbroken[n] >= (min(n, window - 1) if window else n)]
        return found


def _unbroken(positions, most):
    """For every length up to ``most``: how many rows end with its last token, without a hole."""
    found = [0]
    for pos in range(most):
        found.append(found[-1] + 1 if pos in positions else 0)
    return found


def held_by(stored):
    """What a stored object consists of."""
    rows = [(part.window, part.pos.tolist()) for part in stored.rows]
    return Held(stored.tokens, rows, None if stored.state is None else stored.state.pos)


class Place(NamedTuple):
    """A conversation: the key of its point (None = a stored conversation, whose key follows in order), the point, its
    checkpoints."""

    key: Key | None
    own: Held
    checkpoints: list[Held]


def _llama_cpp(server, blob):
    parts = ((0, blob.base), (server.core.kind.n_swa, blob.swa))
    rows = [(window, part.pos.tolist()) for window, part in parts if part is not None]
    return rows, None if blob.recr is None else blob.recr.pos


def _ik_llama(server, blob):
    rows = [] if blob.rows is None else [(0, blob.own.tolist())]
    return rows, blob.state_pos if server.core.kind.hybrid else None


def conversations(server):
    """Yield the slots of a server of llama.cpp or ik_llama.cpp, then its stored conversations, oldest first. A
    conversation whose state was handed out has no tokens left."""
    saved = _llama_cpp if server.core.rules.name.startswith("llama_cpp") else _ik_llama
    for slot in server.core.slots:
        yield _place(server, ("slot", slot.id, 0), held_by(server.inspection.live(slot.id)), slot.checkpoints, saved)
    for one in server.core.cache.entries if server.core.cache else ():
        own = Held(identities(one.tokens) if one.blob.size else (), *saved(server, one.blob))
        yield _place(server, None, own, one.checkpoints, saved)


def _place(server, key, own, checkpoints, saved):
    full = [part for part in own.rows if not part[0]]
    blobs = [(one.facts.n_tokens, *saved(server, one.blob)) for one in checkpoints]
    return Place(key, own, [Held(own.tokens[:n], [*full, *rows], state) for n, rows, state in blobs])


def entries(server):
    """The entries of a server of mlx-lm."""
    for (_, tokens), entry in server.core.cache.lru.entries().items():
        yield Place(None, held_by(content(server.core, "entry", -1, tokens, entry.layers)), [])


def differences(reported, server, ahead=frozenset()):
    """Where the reported points are not those that the server has: (key, reported, held) lengths, or tokens. Slots in
    ``ahead`` may have more tokens than are reported; these are left out."""
    kept = iter(server.inspection.kept())
    places = entries(server) if server.core.rules.name.startswith("mlx_lm") else conversations(server)
    found = []
    for place in places:
        most = len(reported.tokens.get(place.key, ())) if place.key in ahead else None
        for whole in (place.own, *place.checkpoints):
            key = place.key if whole is place.own and place.key else next(kept, None)
            held = whole._replace(tokens=whole.tokens[:most])
            known, lengths = reported.tokens.get(key, ()), reported.lengths(key)
            if lengths != held.lengths:
                found.append((key, lengths, held.lengths))
            if lengths and known != held.tokens:
                found.append((key, known, held.tokens))
    slots = {key for key in reported.points if key[0] == "slot"}
    lost = [(key, [], None) for key in chain(kept, set(server.inspection.kept()) ^ (reported.points.keys() - slots))]
    return found + lost
