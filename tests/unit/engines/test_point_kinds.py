"""Kinds of restore points, and the roles of the rules that decide about their use."""

import pytest

from cachesim.engines.point_kinds import choice_role, is_copy, running_key, slot_of
from cachesim.engines.rule import Role


@pytest.mark.parametrize(("kind", "usual", "searching"), [
    ("slot", Role.ASSIGN, Role.NEED), ("checkpoint", Role.NEED, Role.PICK), ("entry", Role.LOAD, Role.LOAD),
    ("block", Role.LOAD, Role.LOAD),
])  # fmt: skip
def test_a_kind_has_a_role_and_another_one_for_a_request_that_needs_a_copy(kind, usual, searching):
    assert (choice_role(kind, False), choice_role(kind, True)) == (usual, searching)


@pytest.mark.parametrize(("kind", "expected"), [("slot", False), ("", False), ("checkpoint", True), ("block", True)])
def test_every_stored_kind_is_a_copy(kind, expected):
    assert is_copy(kind) is expected


def test_slots_hold_themselves_and_their_checkpoints():
    assert running_key(3) == ("slot", 3, 0)
    assert [slot_of(key) for key in (("slot", 3, 0), ("checkpoint", 2, 7), ("entry", 2, 7), ("block", -1, 7))] == [
        3, 2, -1, -1]
