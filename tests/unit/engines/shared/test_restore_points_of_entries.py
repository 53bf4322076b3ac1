"""Events reported for stored conversations, and the keys of those present."""

from __future__ import annotations

from cachesim.engines.inspection import RestorePoint
from cachesim.events import Gained, Lost
from tests.unit.engines.shared.slot_server import Checkpoint, Held, Server, gained, text


def test_a_stored_conversation_comes_with_its_checkpoints_and_goes_with_them():
    server, entry = Server(), Held((4, 5, 6), lo=2, hi=9, checkpoints=[Checkpoint(2)])
    mine, cut = ("entry", -1, 1), ("entry checkpoint", 1, 2)
    assert server.stored(entry) == [
        Gained(None, RestorePoint(mine, 3, (4, 5, 6), 0, None, 2, 3), "stored", ""), gained(cut, 2, 1, 2, mine),
    ]  # fmt: skip
    assert server.told.tokens == {mine: (4, 5, 6), cut: (4, 5)}
    assert server.points.conversation(mine) is server.points.conversation(cut) is entry
    assert server.points.checkpoint(cut) is entry.checkpoints[0]
    server.points.lost(entry, "evicted", "RULE")
    assert server.log.events[2:] == [Lost(None, key, "evicted", "RULE") for key in (mine, cut)]
    assert server.points.kept() == [] and server.told.points == {}


def test_a_stored_conversation_is_usable_as_far_as_it_has_rows():
    server = Server()
    assert [server.stored(Held(text(5), rows=n))[0].point.hi for n in (0, 4, 9)] == [0, 4, 5]


def test_a_stored_conversation_is_replaced_by_another_one_with_its_key():
    server, some = Server(), [Checkpoint(2), Checkpoint(3)]
    old, other = Held(text(4), checkpoints=some), Held(text(4))
    server.points.stored(other)
    server.points.stored(old)
    now = Held(text(2), rows=1, checkpoints=some[:1])
    assert server.stored(now, "cleared", "RULE", instead=old) == [
        Gained(None, RestorePoint(("entry", -1, 2), 2, (0, 1), 0, None, 1, 1), "cleared", "RULE"),
        Gained(None, RestorePoint(("entry checkpoint", 2, 3), 2, (), 2, ("entry", -1, 2), 1, 1), "cleared", "RULE"),
        Lost(None, ("entry checkpoint", 2, 4), "cleared", "RULE"),
    ]  # fmt: skip
    assert server.points.conversation(("entry", -1, 2)) is now
    assert server.points.conversation(("entry", -1, 1)) is other


def test_conversations_that_look_alike_are_told_apart():
    server, alike = Server(), [Held(text(3)), Held(text(3))]
    for one in alike:
        server.points.stored(one)
    server.points.lost(alike[1], "evicted", "")
    assert server.points.kept() == [("entry", -1, 1)]


def test_kept_points_come_by_slot_and_then_by_age():
    server = Server()
    server.points.stored(Held(text(5), checkpoints=[Checkpoint(1)]))
    server.changed(Held(text(5), 1, checkpoints=[Checkpoint(2), Checkpoint(1)]))
    server.changed(Held(text(5), 0, checkpoints=[Checkpoint(3)]))
    server.points.stored(Held(text(5)))
    assert server.points.kept() == [
        ("checkpoint", 0, 5), ("checkpoint", 1, 3), ("checkpoint", 1, 4),
        ("entry", -1, 1), ("entry checkpoint", 1, 2), ("entry", -1, 6),
    ]  # fmt: skip


def test_other_tokens_of_the_same_number_under_a_key_are_reported():
    server, before = Server(), Held(text(4))
    [first] = server.stored(before)
    [again] = server.stored(Held(text(4, 50)), "cleared", "RULE", instead=before)
    assert again.point == first.point._replace(tokens=(50, 51, 52, 53))
    assert (again.slot, again.cause, again.rule) == (None, "cleared", "RULE")
