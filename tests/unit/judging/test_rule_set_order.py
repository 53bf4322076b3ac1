"""Tests of the order in which other rule sets are tried."""

from __future__ import annotations

import pytest

from cachesim.engines.registry import BUILTIN, rules_of
from cachesim.judging.rule_set_order import changed_here, newer_rule_sets, place_of, search_order

ENGINE = BUILTIN["llama_cpp"]
LINE = list(ENGINE.line)
MIDDLE = len(LINE) // 2


@pytest.mark.parametrize("place", [0, MIDDLE, len(LINE) - 1])
def test_a_rule_set_has_its_own_place_or_that_of_its_base(place):
    name = LINE[place]
    assert place_of(name, rules_of(name)) == place
    beside = [one for one, base in ENGINE.beside.items() if base == name]
    assert {place_of(one, rules_of(one)) for one in beside} <= {place}


@pytest.mark.parametrize("place", [0, MIDDLE, len(LINE) - 1])
def test_later_rule_sets_come_first_then_proposals_and_the_older_ones(place):
    name = LINE[place]
    found = search_order(name, rules_of(name))
    later, older = LINE[place + 1 :], LINE[:place][::-1]
    assert found[: len(later)] == later and found[len(found) - len(older) :] == older
    proposals = found[len(later) : len(found) - len(older)]
    assert sorted(proposals) == sorted(ENGINE.beside)
    repaired = [one.endswith("-repaired") for one in proposals]
    assert repaired == sorted(repaired, reverse=True)


def test_newer_rule_sets_are_later_ones_and_proposals_on_no_older_base():
    name = LINE[MIDDLE]
    found = newer_rule_sets(name, rules_of(name))
    assert found[: len(LINE) - MIDDLE - 1] == LINE[MIDDLE + 1 :]
    assert {*found} == {one for one in (*LINE, *ENGINE.beside) if one != name
                        and place_of(one, rules_of(one)) >= MIDDLE}  # fmt: skip


def test_later_commits_of_a_proposal_come_before_all_others():
    for name, first in (("mlx_lm@pr1006a", ["mlx_lm@pr1006b", "mlx_lm@pr1006c"]), ("mlx_lm@pr1006c", [])):
        found, line = search_order(name, rules_of(name)), [*BUILTIN["mlx_lm"].line]
        assert found[: len(first)] == first and found[len(first)] == line[place_of(name, rules_of(name)) + 1]


def test_a_change_belongs_to_the_rule_set_whose_neighbour_towards_the_run_has_another_value():
    before, name, following = LINE[MIDDLE - 1 : MIDDLE + 2]
    changed = {one.field for one in rules_of(name).changes(rules_of(following)) if "." not in one.field}
    for field in changed:
        assert changed_here(name, rules_of(name), following, field)
        assert changed_here(following, rules_of(following), name, field)
        assert changed_here(before, rules_of(before), name, field) is (
            rules_of(before).fields()[field] != rules_of(name).fields()[field])


@pytest.mark.parametrize(("profile", "name", "field", "here"), [
    ("llama_cpp@pr24143-on-b9518", "llama_cpp@b9518", "ckpt_break", True),      # the base: towards later rule sets
    ("llama_cpp@pr24143-on-b9518", "llama_cpp@b9518", "ckpt_need", False),
    ("llama_cpp@b9518", "llama_cpp@pr24143-on-b10587", "pc_after_hit", True),   # a proposal: by its own base
    ("llama_cpp@b9518", "llama_cpp@pr24143-on-b10587", "slot_select", False),
])  # fmt: skip
def test_a_change_of_a_proposal_is_what_its_base_does_not_have(profile, name, field, here):
    assert changed_here(profile, rules_of(profile), name, field) is here
