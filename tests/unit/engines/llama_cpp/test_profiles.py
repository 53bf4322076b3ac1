"""Differences between neighbouring versions, as in the history."""

from __future__ import annotations

from itertools import combinations

import pytest

from cachesim.engines.llama_cpp.history import COMMITS
from cachesim.engines.llama_cpp.profiles import PROFILES
from cachesim.engines.llama_cpp.profiles.adapter_tables import NOT_RUN
from cachesim.engines.rule import RULES
from cachesim.engines.shared.rule_set import differences

OLDER_THAN_HEAD = {
    "slot_select": "LC-SLOT-SELECT.SL2", "pc_alloc": "LC-PC-ALLOC.PC5", "pc_update": "LC-PC-UPDATE.PC5",
    "idle_save": "LC-IDLE-SAVE.UNIFIED", "clear": "LC-CLEAR.TOKENS", "ckpt_pick": "LC-CKPT-PICK.PK2",
    "ckpt_break": "LC-CKPT-BREAK.CR7", "ckpt_create": "LC-CKPT-CREATE.CR7", "ckpt_spacing": "LC-CKPT-SPACING.NONE",
    "min_step": 256, "slot_file_header": 12, "restore_failed": "LC-RESTORE-FAIL.TOKENS",
    "rs_split": "LC-RS-SPLIT.ALONE", "spec_room": "LC-SPEC-ROOM.COMMON", "spec_split": "LC-SPEC-SPLIT.NONE",
    "spec_count": "LC-SPEC-COUNT.ALL", "children_count": "LC-CHILDREN-COUNT.BATCH",
    "context_shift": "LC-SHIFT.POSITIVE", "most_images": 0, "marks": "LC-MARKS.SPANS",
    "discard_fit": "LC-DISCARD.FREE", "empty_batch_line": "no tokens to decode",
}
NOT_LOGGED = {"slot_sim", "slot_skip_busy", "slot_skip_empty", "pc_cand", "slot_by_id"}
CLONE = {"pc_after_hit": "LC-PC-LOAD.CLONE"}
# neighbour, profile: differences of the second (history, sections 2, 3, 5.2, 5.4, 6.2 and 7)
STEPS = [
    ("b10587", "pr24143-on-b10587", CLONE),
    ("b10587", "b9518", OLDER_THAN_HEAD),
    ("b9518", "pr24143-on-b9518", CLONE),
    ("b9518", "b9473", {"ckpt_need": "LC-CKPT-NEED.TH3"}),
    ("b9473", "24035-v1", {
        "ckpt_pick": "LC-CKPT-PICK.V1", "ckpt_restore": "LC-CKPT-RESTORE.COUNT", "ckpt_erase": "LC-CKPT-ERASE.V1"}),
    ("b10587", "24035-v3", {
        "ckpt_pick": "LC-CKPT-PICK.V3", "ckpt_restore": "LC-CKPT-RESTORE.COUNT", "ckpt_erase": "LC-CKPT-ERASE.V3",
        "ckpt_break": "LC-CKPT-BREAK.V3", "ckpt_create": "LC-CKPT-CREATE.V3", "ckpt_limit": "LC-CKPT-LIMIT.DENSEST"}),
]  # fmt: skip


def profile(name):
    return PROFILES[f"llama_cpp@{name}"]


NAMES = sorted({name for step in STEPS for name in step[:2]})


@pytest.mark.parametrize("old, new, want", STEPS, ids=[f"{a}-{b}" for a, b, _ in STEPS])
def test_rules_and_numbers_that_differ_from_the_neighbour(old, new, want):
    """Differences in the log only are ignored."""
    found = {name: getattr(b, "rule", b) for name, _, b in differences(profile(old), profile(new))}
    assert {name: value for name, value in found.items() if isinstance(value, (str, int))} == want


def test_what_an_older_build_does_not_log():
    assert profile("b9518").silent - profile("b10587").silent >= NOT_LOGGED
    assert profile("pr24143-on-b10587").silent == profile("b10587").silent


@pytest.mark.parametrize("a, b", list(combinations(NAMES, 2)))
def test_no_two_of_them_are_equal(a, b):
    assert differences(profile(a), profile(b))


def test_numbers_of_head():
    head = profile("b10587")
    assert (head.min_step, head.host_header, head.inferred) == (8192, 8, NOT_RUN)
    assert COMMITS["3f545beccee69d9975f466ec7e45fd9aacd8ba90"] == "llama_cpp@b10587"


@pytest.mark.parametrize("name", sorted(PROFILES))
def test_a_profile_is_named_sourced_and_made_of_registered_rules(name):
    rules = PROFILES[name]
    assert rules.name == name and rules.source and rules.build
    assert all(RULES[one.rule] is one for one in rules.fields().values() if callable(one))
    assert set(rules.inferred) <= set(rules.fields())


@pytest.mark.parametrize("name, inferred", [
    ("24035-v1", {"ckpt_pick", "ckpt_restore", "ckpt_erase"}),
    ("24035-v3", {"ckpt_pick", "ckpt_restore", "ckpt_erase", "ckpt_break", "ckpt_create", "ckpt_limit"}),
    ("pr24143-on-b9518", {"pc_after_hit"}),
    ("pr24143-on-b10587", set()), ("b9518", set()), ("b9473", set()),
])  # fmt: skip
def test_what_was_inferred_is_marked(name, inferred):
    assert set(profile(name).inferred) == inferred | set(NOT_RUN)
