"""Copies of a server share its immutable parts, whatever their size."""

from __future__ import annotations

import copy
from copy import deepcopy

import pytest

from cachesim.engines.base import FixedTokens, ImmutableItems
from cachesim.engines.llama_cpp.memory.saved_state import Blob
from cachesim.scenarios.from_notation import from_line
from cachesim.scenarios.runner import ScenarioStage, SilentObserver, groups
from tests.shared import ROOT

LINE = "A60>a4/B60>b4/A.a.C9>c3/D70>d2/A.a.C.c.E5"


def behind(profile, cut=None):
    """A server behind the requests of the line, or the first of them."""
    scenario = from_line(LINE, model="GGGA", profiles=(profile,))
    stage = ScenarioStage(scenario, profile, "none", ROOT, SilentObserver(), profile)
    for first, group in groups(scenario.steps[:cut]):
        stage.send(first, group)
    return stage, scenario


def test_what_was_saved_is_its_own_copy():
    one = Blob(9)
    assert deepcopy([one])[0] is one


def test_a_copy_of_immutable_items_shares_them():
    key, value = tuple(range(300)), tuple(range(400))
    twin = deepcopy(items := ImmutableItems({key: value}))
    assert next(iter(twin)) is key and twin[key] is value
    del twin[key]
    assert items == {key: value}


PROFILES = pytest.mark.parametrize("profile", ["llama_cpp@b10587", "ik_llama@main", "mlx_lm@d78bf58e", "mlx_lm@pr923"])


@PROFILES
def test_a_copy_does_not_visit_the_tokens_of_long_prompts(profile, monkeypatch):
    stage, _ = behind(profile)
    visited, visit = [], copy._deepcopy_dispatch[tuple]
    monkeypatch.setitem(copy._deepcopy_dispatch, tuple, lambda x, *more: (visited.append(x), visit(x, *more))[1])
    stage.server.fork()
    assert [len(x) for x in visited if len(x) > 50] == []


@PROFILES
def test_a_copy_shares_the_rules(profile):
    stage, _ = behind(profile)
    assert stage.server.fork().core.rules is stage.server.core.rules


@PROFILES
def test_a_copy_goes_its_own_way(profile):
    whole, _ = behind(profile)
    stage, scenario = behind(profile, 2)
    stage.server = (other := stage.server).fork()
    stage.log = stage.server.log
    for first, group in list(groups(scenario.steps))[2:]:
        stage.send(first, group)
    slots, before = stage.server.core.slots, behind(profile, 2)[0].server.core.slots
    assert [tuple(x.tokens) for x in slots] == [tuple(x.tokens) for x in whole.server.core.slots]
    assert [tuple(x.tokens) for x in other.core.slots] == [tuple(x.tokens) for x in before]


def test_a_copy_of_a_server_shares_the_last_prompt_of_a_slot():
    stage, _ = behind("ik_llama@main")
    slot = stage.server.core.slots[0]
    assert type(slot.last_prompt) is FixedTokens and slot.last_prompt.tokens
    assert stage.server.fork().core.slots[0].last_prompt is slot.last_prompt
