"""Slots of all servers, and the check of save, restore and erase requests."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from cachesim.base.errors import BadInput
from cachesim.engines.shared.slot_base import SlotBase, check_action


def slot(task, *names):
    found = SlotBase()
    found.task, found.checkpoints = task, [SimpleNamespace(facts=name) for name in names]
    return found


def test_a_slot_names_its_task_and_the_facts_of_its_checkpoints():
    assert slot(None).id_task is None and slot(SimpleNamespace(id=0)).id_task == 0
    assert (slot(None).facts, slot(None, "a", "b").facts) == ([], ["a", "b"])


def test_dropped_checkpoints_are_returned_and_the_others_stay_in_order():
    held = slot(None, "a", "b", "c", "d")
    assert [one.facts for one in held.drop((0, 2))] == ["a", "c"] and held.facts == ["b", "d"]
    assert held.drop(()) == [] and held.facts == ["b", "d"]


@pytest.mark.parametrize(("action", "id_slot", "file", "text"), [
    ("save", 2, Path("f"), r"slot 2 does not exist \(0 to 1\)"), ("save", -1, Path("f"), "slot -1 does not exist"),
    ("copy", 0, Path("f"), r"unknown slot action 'copy' \(save, restore or erase\)"),
    ("save", 0, None, "slot action 'save' needs a file"), ("restore", 1, None, "slot action 'restore' needs a file"),
])  # fmt: skip
def test_an_action_that_cannot_be_done_is_refused(action, id_slot, file, text):
    with pytest.raises(BadInput, match=text):
        check_action(2, action, id_slot, file)


@pytest.mark.parametrize(("action", "id_slot", "file"), [
    ("save", 0, Path("f")), ("restore", 1, Path("f")), ("erase", 1, None), ("erase", 0, Path("f")),
])  # fmt: skip
def test_other_actions_are_accepted(action, id_slot, file):
    check_action(2, action, id_slot, file)
