"""Tests of the rules about adapters: lists of scales, and the invocation sequence of an aLoRA."""

from __future__ import annotations

import pytest

from cachesim.base.errors import BadInput
from cachesim.engines.llama_cpp.rules import adapters as rules
from cachesim.engines.llama_cpp.rules.adapters import Adapter, RequestScales, read_adapters, read_scales

PLAIN, ALORA = Adapter(0.0), Adapter(0.0, (7, 8, 9))
POOL = (PLAIN, ALORA, Adapter(0.0, (5,)))


@pytest.mark.parametrize(("given", "wanted"), [
    ({}, (0.5, 0.0, 1.0)), ({1: 1.0}, (0.0, 1.0, 0.0)), ({9: 1.0}, (0.0, 0.0, 0.0)), ({-1: 0.0}, (0.0, 0.0, 0.0)),
])  # fmt: skip
def test_a_list_is_complete_and_no_list_is_the_servers(given, wanted):
    assert rules.adapter_list(given, (0.5, 0.0, 1.0)).value == wanted


@pytest.mark.parametrize(("before", "now", "asked", "clears"), [
    ((), (1.0, 0.0, 0.0), 1, True),                       # a slot that was never used has another list
    ((1.0, 0.0, 0.0), (1.0, 0.0, 0.0), 1, False), ((1.0, 0.0, 0.0), (0.0, 0.0, 0.0), 1, True),
    ((1.0, 0.0, 0.0), (0.0, 0.0, 0.0), 0, False),         # without a list nothing is compared
    ((0.0, 0.0, 0.0), (0.0, 1.0, 0.0), 1, False), ((0.0, 1.0, 0.0), (0.0, 0.0, 1.0), 1, False),
    ((0.0, 1.0, 0.0), (1.0, 0.0, 0.0), 1, True), ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), 1, True),
    ((-1.0, 0.0, 0.0), (0.0, 1.0, 0.0), 1, False),        # a negative scale counts as off
])  # fmt: skip
def test_a_slot_is_cleared_unless_only_aloras_change(before, now, asked, clears):
    assert rules.clear_for_list(RequestScales(before, now, asked), POOL).value is clears


@pytest.mark.parametrize(("prompt", "start"), [
    ((1, 7, 8, 9, 2), 1), ((7, 8, 9), 0), ((7, 8, 9, 1, 7, 8, 9), 4), ((7, 8), -1), ((), -1),
    ((7, 8, 9, 9), -1), ((7, 8, 9, 8, 9), -1), ((7, 7, 8, 9), 1),         # its own end behind it hides a sequence
])  # fmt: skip
def test_the_last_invocation_is_found_unless_its_end_follows(prompt, start):
    assert rules.invocation_start(prompt, ALORA.invocation).value == start


def test_a_single_token_is_found_anywhere():
    assert rules.invocation_start((5, 1, 5, 2), (5,)).value == 2


@pytest.mark.parametrize(("scales", "refused"), [
    ((0.0, 1.0, 1.0), True), ((0.0, -1.0, 0.0), True), ((0.0, 1.0, 0.0), False), ((1.0, 1.0, 1.0), False),
    ((0.0, 0.0, 0.0), False),
])  # fmt: skip
def test_several_aloras_are_refused(scales, refused):
    assert bool(rules.one_activated(scales, POOL).value) is refused


def test_the_prefix_ends_a_token_before_the_invocation():
    assert [rules.cap_before_start(40, start).value for start in (-1, 0, 1, 20, 60)] == [40, 40, 0, 19, 40]


@pytest.mark.parametrize(("held", "start", "active", "stop"), [
    (0, 20, True, 19), (18, 20, True, 19), (19, 20, True, 0), (0, 20, False, 0), (0, 1, True, 0), (0, 0, True, 0),
])  # fmt: skip
def test_what_precedes_the_invocation_is_evaluated_without_the_adapter(held, start, active, stop):
    assert rules.split_at_start(held, start, active, False).value == stop
    assert rules.split_at_start(held, start, active, True).value == stop


def test_a_slot_joins_a_batch_of_its_adapters_only():
    assert rules.joins_batch((1.0, 0.0), (1.0, 0.0)).value and not rules.joins_batch((1.0, 0.0), (0.0, 0.0)).value


def test_no_flag_changes_the_scales_at_the_start():
    assert rules.scales_at_start((1.0, 0.5), True).value == (1.0, 0.5)


def test_adapters_and_lists_are_read():
    assert read_adapters("1, 0.5,0@101.102") == (Adapter(1.0), Adapter(0.5), Adapter(0.0, (101, 102)))
    assert read_scales("0:1, 2:-0.5,2:0.25") == {0: 1.0, 2: 0.25} and read_scales("") == {}


@pytest.mark.parametrize("text", ["x", "1,,2", "1@", "1@a", "1e5", "nan", "1@1..2"])
def test_a_wrong_adapter_is_refused(text):
    with pytest.raises(BadInput):
        read_adapters(text)


@pytest.mark.parametrize("text", ["0", "0:", "a:1", "0:1;1:2", "0:inf"])
def test_a_wrong_list_is_refused(text):
    with pytest.raises(BadInput):
        read_scales(text)
