"""Events reported for changes of a slot or of its checkpoints."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cachesim.engines.shared.conversation_points import ALL_TOKENS
from cachesim.events import Gained, Lost
from tests.unit.engines.shared.slot_server import SLOT, Checkpoint, Held, Server, advanced, gained, lost, text


def test_the_first_report_has_all_tokens_and_the_next_one_the_new_ones():
    server, slot = Server(), Held(text(5))
    assert server.changed(slot) == [advanced(5, (0, 1, 2, 3, 4), 0, None, 1, 5)]
    slot.tokens = text(7)
    assert server.changed(slot, ALL_TOKENS) == [advanced(7, (5, 6), 5, SLOT, 1, 7)]
    assert server.told.tokens[SLOT] == (0, 1, 2, 3, 4, 5, 6)


def test_nothing_is_reported_of_a_slot_that_is_as_it_was():
    server, slot = Server(), Held(text(5), lo=2, hi=4)
    assert server.changed(Held()) == []
    server.changed(slot)
    assert server.changed(slot, ALL_TOKENS) == server.changed(slot, 5) == []


def test_tokens_from_a_place_on_may_be_others():
    server, slot = Server(), Held(text(5))
    server.changed(slot)
    slot.tokens = [0, 1, 2, 9]
    assert server.changed(slot, 3) == [advanced(4, (9,), 3, SLOT, 1, 4)]
    assert server.changed(slot, 3) == [advanced(4, (9,), 3, SLOT, 1, 4)], "as it was, for all we know"
    assert server.changed(slot) == [advanced(4, (0, 1, 2, 9), 0, None, 1, 4)]


def test_without_a_kept_length_all_tokens_are_reported():
    server, slot = Server(), Held(text(5))
    server.changed(slot)
    server.points.changed(slot, "cause", "RULE")
    assert server.log.events[1:] == [advanced(5, (0, 1, 2, 3, 4), 0, None, 1, 5)]


def test_tokens_that_go_are_reported_without_any():
    server, slot = Server(), Held(text(5))
    server.changed(slot)
    slot.tokens = text(3)
    assert server.changed(slot, ALL_TOKENS) == [advanced(3, (), 3, SLOT, 1, 3)]
    slot.tokens = []
    assert server.changed(slot, ALL_TOKENS) == [advanced(0, (), 0, None, 1, 0)]


@pytest.mark.parametrize("lengths", [{"lo": 3}, {"hi": 4}, {"lo": 4, "hi": 4}])
def test_other_lengths_are_reported_without_tokens(lengths):
    server, slot = Server(), Held(text(5))
    server.changed(slot)
    now = replace(slot, **lengths)
    assert server.changed(now, ALL_TOKENS) == [advanced(5, (), 5, SLOT, now.lo, min(now.hi, 5))]


def test_a_slot_is_usable_as_far_as_it_has_tokens_and_rows():
    server = Server()
    assert server.changed(Held(text(5), rows=3))[0].point.hi == 3
    assert server.changed(Held(text(5), rows=9))[0].point.hi == 5
    assert server.changed(Held(text(5), rows=9, hi=4))[0].point.hi == 4


def test_rows_that_come_later_than_their_tokens_are_reported_from_their_place_on():
    server, slot = Server(), Held(text(5), rows=3)
    server.changed(slot)
    assert server.changed(replace(slot, rows=None), ALL_TOKENS) == [advanced(5, (3, 4), 3, SLOT, 1, 5)]


def test_rows_that_are_there_before_their_tokens_are_of_no_other_conversation():
    server, slot = Server(), Held(text(5), rows=9)
    server.changed(slot)
    assert server.changed(replace(slot, tokens=text(7)), ALL_TOKENS) == [advanced(7, (5, 6), 5, SLOT, 1, 7)]


def test_what_was_touched_is_reported_with_the_next_change_only():
    server, slot = Server(), Held(text(5))
    server.changed(slot)
    for n in (4, 2, 3):
        server.points.touch(0, n)
    server.points.touch(1, 0)
    assert server.changed(slot, ALL_TOKENS) == [advanced(5, (2, 3, 4), 2, SLOT, 1, 5)]
    assert server.changed(slot, ALL_TOKENS) == []


def test_slots_are_told_apart():
    server = Server()
    for number in (1, 0):
        slot = Held(text(3 + number), number, checkpoints=[Checkpoint(2)])
        assert [event.slot for event in server.changed(slot)] == [number, number]
    assert sorted(server.told.tokens) == [("checkpoint", 0, 2), ("checkpoint", 1, 1), ("slot", 0, 0), ("slot", 1, 0)]
    assert server.told.tokens["slot", 1, 0] == (0, 1, 2, 3)


def test_who_does_not_listen_to_slots_hears_of_checkpoints():
    server, one = Server(Gained, Lost), Checkpoint(3)
    server.log.listener = print
    assert server.changed(Held(text(5), checkpoints=[one])) == [gained(("checkpoint", 0, 1), 3, 1, 3)]
    assert server.changed(Held(text(5))) == [lost(("checkpoint", 0, 1))]


def test_checkpoints_come_stay_and_go():
    server, some = Server(), [Checkpoint(2), Checkpoint(4, 4, 4), Checkpoint(5)]
    first, second, third = (("checkpoint", 0, n) for n in (1, 2, 3))
    slot = Held(text(5), checkpoints=some[:1])
    assert server.changed(slot)[1:] == [gained(first, 2, 1, 2)]
    slot.checkpoints = some[:2]
    assert server.changed(slot, ALL_TOKENS) == [gained(second, 4, 4, 4)]
    slot.checkpoints = some[1:]
    assert server.changed(slot, ALL_TOKENS) == [gained(third, 5, 1, 5), lost(first)]
    assert server.points.kept() == [second, third] and server.points.checkpoint(third) is some[2]
    slot.checkpoints = []
    assert server.changed(slot, ALL_TOKENS) == [lost(second), lost(third)]
    assert server.looked == 3


def test_a_checkpoint_with_other_facts_about_the_same_state_is_the_same():
    server, one = Server(), Checkpoint(3)
    slot = Held(text(5), checkpoints=[one])
    server.changed(slot)
    slot.checkpoints = [other := replace(one)]
    assert server.changed(slot, ALL_TOKENS) == [] and server.points.checkpoint(("checkpoint", 0, 1)) is other
    slot.checkpoints = [replace(one, blob=[])]
    assert server.changed(slot, ALL_TOKENS) == [gained(("checkpoint", 0, 2), 3, 1, 3), lost(("checkpoint", 0, 1))]


@pytest.mark.parametrize("held, checkpoint, n, hi", [
    (Held(text(9)), Checkpoint(5), 5, 5),
    (Held(text(9)), Checkpoint(5, hi=4), 5, 4),
    (Held(text(9), rows=3), Checkpoint(5), 5, 3),
    (Held(text(3), rows=9), Checkpoint(5), 3, 3),
])
def test_a_checkpoint_is_usable_as_far_as_its_slot_has_tokens_and_rows(held, checkpoint, n, hi):
    assert Server().changed(replace(held, checkpoints=[checkpoint]))[1:] == [gained(("checkpoint", 0, 1), n, 1, hi)]


def test_a_checkpoint_is_reported_again_where_its_tokens_may_be_others():
    server, slot = Server(), Held(text(9), checkpoints=[Checkpoint(4), Checkpoint(6)])
    server.changed(slot)
    slot.tokens = [*text(5), 77, 78]
    assert server.changed(slot, 5)[1:] == [gained(("checkpoint", 0, 2), 6, 1, 6)]
    assert server.changed(slot, 4)[1:] == [gained(("checkpoint", 0, 2), 6, 1, 6)]
    assert server.changed(slot, 3)[1:] == [gained(("checkpoint", 0, n), 2 + 2 * n, 1, 2 + 2 * n) for n in (1, 2)]
    assert server.told.tokens["checkpoint", 0, 2] == (0, 1, 2, 3, 4, 77)


def test_a_slot_that_has_only_grown_has_its_checkpoints_still():
    """They are not inspected, so a new checkpoint is reported with the next other change."""
    server, slot = Server(), Held(text(5), checkpoints=[Checkpoint(3)])
    server.changed(slot)
    slot.tokens, slot.checkpoints = text(7), [*slot.checkpoints, Checkpoint(6)]
    assert server.changed(slot, ALL_TOKENS, grown=True) == [advanced(7, (5, 6), 5, SLOT, 1, 7)]
    assert server.changed(slot, ALL_TOKENS) == [gained(("checkpoint", 0, 2), 6, 1, 6)]


@pytest.mark.parametrize("short, whole", [({"rows": 2}, 4), ({"tokens": text(3)}, 4)])
def test_a_checkpoint_that_lacks_rows_or_tokens_gets_them_when_its_slot_grows(short, whole):
    server, slot = Server(), Held(text(5), checkpoints=[Checkpoint(whole)])
    server.changed(replace(slot, **short))
    assert server.changed(slot, ALL_TOKENS, grown=True)[1:] == [gained(("checkpoint", 0, 1), whole, 1, whole)]
    slot.tokens = text(6)
    assert server.changed(slot, ALL_TOKENS, grown=True) == [advanced(6, (5,), 5, SLOT, 1, 6)]


def test_a_checkpoint_gets_the_last_of_its_tokens_though_it_is_usable_at_no_more_lengths():
    server, slot = Server(), Held(text(5), checkpoints=[Checkpoint(4, hi=3)])
    server.changed(replace(slot, tokens=text(3)))
    assert server.changed(slot, ALL_TOKENS, grown=True)[1:] == [gained(("checkpoint", 0, 1), 4, 1, 3)]


def test_a_checkpoint_is_looked_for_as_long_as_one_of_them_lacks_something():
    server, slot = Server(), Held(text(5), checkpoints=[Checkpoint(5), Checkpoint(2)])
    server.changed(replace(slot, rows=3))
    slot.tokens = text(6)
    assert server.changed(slot, ALL_TOKENS, grown=True)[1:] == [gained(("checkpoint", 0, 1), 5, 1, 5)]


def test_a_checkpoint_with_other_lengths_is_reported_although_its_tokens_are_as_they_were():
    server, slot = Server(), Held(text(5), checkpoints=[Checkpoint(3)])
    server.changed(slot)
    assert server.changed(replace(slot, rows=2), ALL_TOKENS)[1:] == [gained(("checkpoint", 0, 1), 3, 1, 2)]


@pytest.mark.parametrize("rows", [None, 4])
def test_the_checkpoints_of_a_slot_that_has_grown_and_was_touched_are_reported(rows):
    """Where a draft was rejected behind them, nothing of them has changed."""
    server, slot = Server(), Held(text(5), rows=rows, checkpoints=[Checkpoint(3)])
    server.changed(slot)
    server.points.touch(0, 4)
    assert server.changed(replace(slot, rows=None), ALL_TOKENS, grown=True)[1:] == []
    server.points.touch(0, 2)
    assert server.changed(slot, ALL_TOKENS, grown=True)[1:] == [gained(("checkpoint", 0, 1), 3, 1, 3)]


def test_restore_points_are_known_without_a_listener_once_they_are_asked_for():
    """Nothing is reported: the keys follow from what the slots and entries hold then."""
    server = Server()
    server.log.listener = None
    first, second = Checkpoint(3), Checkpoint(5)
    slot, entry = Held(text(7), checkpoints=[first]), Held(text(9), checkpoints=[second])
    assert server.changed(slot) == [] == server.stored(entry)
    assert [key[0] for key in server.points.kept()] == ["checkpoint", "entry", "entry checkpoint"]
    slot.checkpoints = []
    server.changed(slot)
    assert [key[0] for key in server.points.kept()] == ["entry", "entry checkpoint"]
    server.points.lost(entry, "evicted", "R")
    assert server.points.kept() == []


def test_a_slot_ends_where_its_tokens_and_rows_ended_in_the_last_report():
    server, slot = Server(), Held(text(5))
    assert not server.points.ends_at(0, 0)                      # it was never reported
    server.changed(slot)
    assert server.points.ends_at(0, 5) and not server.points.ends_at(0, 4)
    server.points.touch(0, 3)
    assert not server.points.ends_at(0, 5)
    server.changed(Held(text(6), rows=5))
    assert not server.points.ends_at(0, 6) and not server.points.ends_at(0, 5)
