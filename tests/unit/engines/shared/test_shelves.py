"""Is what a look finds, put together with what earlier looks found, just what a first look finds?"""

from __future__ import annotations

from copy import deepcopy

import numpy as np
import pytest

from cachesim.base.errors import BadInput
from cachesim.engines.judge_view import StatePart
from cachesim.engines.shared.held_tokens import HeldTokens
from cachesim.engines.shared.shelves import Cut, Shelves
from cachesim.events import Changed, Release
from cachesim.model import LayerState
from cachesim.scenarios.runner import Silent, play
from cachesim.tools.search.case import MODELS, draw_case

PROFILES = ("llama_cpp@b11549", "ik_llama@main")
DRAWN = 60


def whole(rows):
    """Rows by position, full attention only."""
    return {layer: dict(zip(rows.pos.tolist(), one.digest.tolist(), strict=True)) for layer, one in rows.rows.items()}


def told(point):
    """What a point says apart from its rows of full attention."""
    stored = point.stored
    windows = [(one.window, one.pos.tolist(), {layer: rows.digest.tolist() for layer, rows in one.rows.items()})
               for one in stored.rows if one.window]  # fmt: skip
    state = None if stored.state is None else (stored.state.pos, {k: id(v) for k, v in stored.state.rows.items()})
    return stored.kind, stored.owner, stored.tokens, stored.resume, point.lo, point.hi, point.step, windows, state


class Reader(Silent):
    """Looks at every change, as a judge does."""

    def __init__(self) -> None:
        self.rows, self.last, self.looks, self.went_on, self.stayed = {}, [], 0, 0, 0

    def started(self, server) -> None:
        self.server, self.rows, self.last = server, {}, []
        server.log.listener = self.hear

    def hear(self, event) -> None:
        if isinstance(event, Changed | Release):
            self.look()

    def look(self) -> None:
        now = self.server.shelves()
        rows = {shelf: self.rows[shelf] if shelf in self.rows else self.put_together(shelf) for shelf in now}
        self.stayed += sum(shelf in self.rows for shelf in now)
        self.rows, self.looks = rows, self.looks + 1
        points = self.server.points()
        assert [told(one) for shelf in now for one in shelf.points] == [told(one) for one in points]
        fresh = iter(points)
        for shelf in now:
            assert [one for one in shelf.points if one.stored.tokens != shelf.tokens[: len(one.stored.tokens)]] == []
            for _ in shelf.points:
                full = [part for part in next(fresh).stored.rows if not part.window]
                assert [whole(part) for part in full] == ([] if rows[shelf] is None else [rows[shelf]])

    def put_together(self, shelf):
        """All rows of full attention: those that were there before, and the new ones."""
        if shelf.before is None:
            parts = [part for one in shelf.points[:1] for part in one.stored.rows if not part.window]
            return whole(parts[0]) if parts else None
        self.went_on += 1
        before = self.rows[shelf.before]
        old = [id(one) for one in shelf.before.copies]
        assert 0 < shelf.same <= len(shelf.tokens) and shelf.tokens[: shelf.same] == shelf.before.tokens[: shelf.same]
        for one in shelf.points:
            assert one.hi <= shelf.same if id(one) in old else one.stored.start == shelf.same
        if shelf.rows is None:
            return before
        assert shelf.rows.pos.tolist() == list(range(shelf.same, shelf.same + len(shelf.rows.pos)))
        new, same = whole(shelf.rows), shelf.same
        return {layer: {**{q: d for q, d in one.items() if q < same}, **new[layer]} for layer, one in before.items()}


@pytest.mark.long
@pytest.mark.parametrize("profile", PROFILES)
def test_every_look_finds_what_a_first_look_finds(profile):
    went_on = stayed = 0
    engine = profile.partition("@")[0]
    for number in range(DRAWN):
        case, reader = draw_case(number, engine, tuple(MODELS[engine])), Reader()
        try:
            play(case.scenario(profile), profile, "provenance", reader)
        except BadInput:
            continue
        went_on, stayed = went_on + reader.went_on, stayed + reader.stayed
    assert went_on > 500 and stayed > 500


class Slot:
    """A slot with one layer of rows, a state that could be used at ``usable``, and checkpoints by their lengths."""

    def __init__(self, *tokens):
        self.tokens, self.rows, self.checkpoints = HeldTokens(tokens), list(tokens), []
        self.usable, self.state = (1, 9), None

    def look(self, looked):
        rows = {0: np.array(self.rows, np.uint64)}
        return looked.of_slot_in_line(
            0, self.tokens, len(self.rows), rows, self.state, self.checkpoints,
            lambda n, held: Cut(n, held[: n[0]], n[0], n[0], (), None),
            (self.usable[0], min(self.usable[1], len(self.tokens))),
        )


def spans(shelf):
    return [(one.stored.kind, one.lo, one.hi, one.stored.start) for one in shelf.points]


def test_a_slot_that_nobody_touched_is_the_same_shelf():
    looked, slot = Shelves(), Slot(1, 2, 3)
    slot.checkpoints = [(2,)]
    first = slot.look(looked)
    assert spans(first) == [("slot", 1, 3, 0), ("checkpoint", 2, 2, 0)] and slot.look(looked) is first
    slot.state = StatePart(2, {0: LayerState(np.zeros(1, np.uint64), 5, None, None)})
    second = slot.look(looked)
    assert second is not first and (second.before, second.same, second.points[1]) == (first, 3, first.points[1])
    slot.checkpoints = [tuple([2])]                                 # one that is equal, and another object
    assert slot.look(looked) is not second


def test_a_checkpoint_whose_rows_have_changed_under_it_is_told_anew():
    looked, slot = Shelves(), Slot(1, 2, 3)
    slot.checkpoints = [(2,), (3,)]
    first = slot.look(looked)
    slot.rows[2] = 9
    second = slot.look(looked)
    assert (second.before, second.same, second.rows.pos.tolist()) == (first, 2, [2])
    assert second.points[1] is first.points[1] and second.points[2] is not first.points[2]
    slot.rows.pop()                                                 # a row is missing
    assert spans(slot.look(looked)) == [("slot", 1, 2, 2), ("checkpoint", 2, 2, 0)]


def test_what_had_no_points_is_nothing_to_go_on_from():
    looked, slot = Shelves(), Slot(1, 2, 3)
    slot.usable = (9, 9)
    assert not slot.look(looked).points
    slot.usable = (1, 9)
    slot.tokens.append(4)
    slot.rows.append(4)
    shelf = slot.look(looked)
    assert (shelf.before, shelf.same, shelf.rows.pos.tolist(), spans(shelf)) == (
        None, 0, [0, 1, 2, 3], [("slot", 1, 4, 0)]
    )  # fmt: skip


def test_a_slot_that_was_empty_meanwhile_and_a_copy_are_new():
    looked, slot = Shelves(), Slot(1, 2, 3)
    slot.look(looked)
    slot.tokens.append(4)
    slot.rows.append(4)
    shelf = slot.look(deepcopy(looked))
    assert (shelf.before, shelf.same) == (None, 0)
    assert slot.look(looked).before is not None
    looked.only(())
    assert slot.look(looked).before is None


def test_only_the_last_shelf_is_kept():
    looked, slot = Shelves(), Slot(1, 2, 3)
    shelves = [slot.look(looked)]
    for token in range(4, 9):
        slot.tokens.append(token)
        slot.rows.append(token)
        shelves.append(slot.look(looked))
    assert [one.before for one in shelves] == [None] * 5 + [shelves[-2]]


def test_a_stored_conversation_is_looked_at_once():
    looked, made = Shelves(), []
    entries = [object(), object(), object()]
    for kept in (entries, entries[1:], entries[2:0:-1], [*entries[1:], entries[0]], entries[1:2] * 2):
        told_of = looked.entries.each(kept, lambda one: made.append(one) or id(one))
        assert told_of == [id(one) for one in kept]
    assert made == [*entries, entries[0]]
