"""Tests of versions as tables of rules: changes between two versions, and mixtures of two."""

from __future__ import annotations

from itertools import pairwise

import pytest

from cachesim.engines.mlx_lm.profiles import BESIDE, LINE, PROFILES


def changed(old, new):
    return {one.field: one.source for one in PROFILES[f"mlx_lm@{old}"].changes(PROFILES[f"mlx_lm@{new}"])}


def test_every_row_of_the_specification_has_a_profile():
    older = {"base923", "pr923", "pr929", "0.31.0", "0.31.1", "pr999", "pr1006a", "pr1006b", "pr1006c", "m1019"}
    names = older | {"m1072", "0.31.3", "d78bf58e", "0.32.2", "0.32.2-repaired"}
    first = {"0.24.1", "0.25.1", "0.28.3", "0.28.4", "0.30.2", "pr923-repaired", "pr923-shared",
             "pr923-shared-repaired"}
    later = {"0.31.1-qwen3_5", "m1072-metal", "pr1030", "pr1186", "pr1253"}
    known, newest = {f"mlx_lm@{name}" for name in names | first | later}, LINE.index("mlx_lm@0.32.2")
    assert set(PROFILES) - set(LINE[newest + 1 :]) == known
    assert {*LINE, *BESIDE} == set(PROFILES)


@pytest.mark.parametrize("name", PROFILES)
def test_a_profile_says_what_it_is(name):
    rules = PROFILES[name]
    assert rules.name == name and rules.source and rules.build


# Section 4.1, step by step.
@pytest.mark.parametrize("old, new, wanted", [
    ("base923", "0.31.0", dict.fromkeys(
        ["position", "pc", "checkpoint_type", "lru.longer", "lru.hand_out", "lru.present", "lru.prune", "lru.victim",
         "lru.kinds"],
        "#911")),
    ("0.31.0", "0.31.1", {"row": "#976"}),
    ("0.31.1", "m1019", dict.fromkeys(
        ["final_type", "checkpoint_type", "lru.present", "lru.prune", "lru.over_bytes", "lru.victim", "lru.kinds"],
        "#1019")),
    ("0.31.1", "pr1006a", {"position": "#1006"}),
    ("pr1006a", "pr1006b", {"tails": "#1006"}),
    ("pr1006b", "pr1006c", {"create_at_pc": "#1006"}),
    ("0.31.3", "d78bf58e", {"caches.arrays_state": "#1632", "caches.chunked_front": "#1673"}),
])
def test_what_changed_and_by_which_pull_request(old, new, wanted):
    assert changed(old, new) == wanted


def test_the_mask_of_7_2_came_and_went():
    assert changed("m1072", "0.31.3")["caches.arrays_merge_empty"] == "#1169"
    assert changed("d78bf58e", "0.32.2")["caches.arrays_mask"] == "0.32.2"


def test_a_proposal_answers_for_its_own_rules():
    """The `ended` entries of a proposal exclude those of the rule set that it is based on."""
    assert changed("base923", "pr923")["lru.hand_out"] == "#923"
    assert changed("0.31.1", "pr999")["lru.prune"] == "#999"
    assert changed("pr923", "pr929") == {"key": "#929", "lru.snapshots": "#929", "lru.snapshot_trim": "#929"}


def test_every_change_of_the_line_has_a_source():
    for old, new in pairwise(LINE):
        assert all(one.source for one in PROFILES[old].changes(PROFILES[new])), (old, new)


@pytest.mark.parametrize("old, new", list(pairwise(LINE)))
def test_with_all_fields_mixed_in_the_older_is_the_newer(old, new):
    both = PROFILES[old].mixed(PROFILES[new], [one.field for one in PROFILES[old].changes(PROFILES[new])])
    assert both.changes(PROFILES[new]) == []


def test_dotted_names_reach_the_inner_tables_and_nothing_else():
    head, wheel = PROFILES["mlx_lm@d78bf58e"], PROFILES["mlx_lm@0.32.2"]
    both = head.mixed(wheel, ["caches.arrays_mask"])
    assert both.caches.arrays_mask is wheel.caches.arrays_mask
    assert [one.field for one in head.changes(both)] == ["caches.arrays_mask"] and both.name == head.name
    assert head.mixed(wheel, ["rest"]).changes(head)[0].field == "rest"
