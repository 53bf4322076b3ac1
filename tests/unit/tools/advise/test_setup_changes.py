"""Tests of the changes that are tried, and of clashes between them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cachesim.engines.registry import engine_of
from cachesim.scenarios.from_notation import from_line
from cachesim.tools.advise.setup_changes import (
    ChangeKind,
    Setup,
    SetupChange,
    affect_same_setting,
    changes_of_client,
    flag_changes,
)

PROFILE = "llama_cpp@b11549"
MANUAL = engine_of(PROFILE).manual


def slots(**server):
    """Return the options that give each conversation its own slot."""
    case = Setup(from_line("S40.A60/B80", profiles=(PROFILE,), server=server), PROFILE)
    return [one.options for one in changes_of_client(case, MANUAL) if one.client and one.client.name == "id_slot"]


def test_where_there_is_one_slot_more_slots_are_asked_for():
    assert slots(parallel=1) and all(MANUAL.slot_count(options) > 1 for options in slots(parallel=1))


def test_where_there_are_slots_they_are_shared_out_as_they_are():
    assert slots(parallel=2) == [{}]


@pytest.mark.parametrize(("a", "b", "same"), [
    ({"options": {"parallel": 2}}, {"options": {"parallel": 4}}, True),
    ({"options": {"parallel": 2}}, {"options": {"cache_ram": 0}}, False),
    ({"options": {"parallel": 2, "kv_unified": True}}, {"options": {"cache_ram": 0, "kv_unified": True}}, True),
    ({"profile": "a"}, {"profile": "b"}, True), ({"profile": "a"}, {"options": {"parallel": 2}}, False),
])  # fmt: skip
def test_two_changes_of_one_thing_clash(a, b, same):
    one, other = (SetupChange(ChangeKind.FLAG, **words) for words in (a, b))
    assert affect_same_setting(one, other) is affect_same_setting(other, one) is same


def test_without_a_list_of_the_engine_the_values_of_its_flags_are_tried():
    case = Setup(from_line("S40.A60/B80", profiles=(PROFILE,), server={}), PROFILE)
    now, flags = MANUAL.defaults, [flag for flag in MANUAL.flags if flag.tries]
    tried = [one.options for one in flag_changes(case, replace(MANUAL, tries=None))]
    assert tried == [{flag.name: value} for flag in flags for value in flag.tries if value != now[flag.name]]
    assert len(tried) > 3
    assert list(flag_changes(case, replace(MANUAL, tries=lambda now, load: iter(())))) == []
