"""Slots of all servers, and the check of save, restore and erase requests."""

from pathlib import Path

import pytest

from cachesim.base.errors import BadInput
from cachesim.engines.shared.slot_base import check_action


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
