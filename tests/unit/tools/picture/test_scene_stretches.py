"""Ranges of a request and changes of the prompt cache, from the data of a run."""

from __future__ import annotations

import pytest

import cachesim
from cachesim.scenarios.from_notation import from_line
from cachesim.tools.picture.scene import (
    RuleSource,
    Scene,
    causes,
)
from cachesim.tools.run.pictured_runs import run_pictured
from tests.unit.tools.picture.test_svg import row, scene


def rows(line, model="A", **server):
    case = cachesim.load(line, profile="llama_cpp@b11549", model=model, server={"parallel": 1, **server})
    return run_pictured(case, "llama_cpp@b11549", events=False).scene().rows


def ranges(row):
    return [(part.start, part.stop, part.origin, part.at) for part in row.stretches]


def test_losses_follow_the_reused_tokens_from_the_oldest_to_the_newest_then_come_new_tokens_and_the_answer():
    case = cachesim.load("llama-24143-entry-removed-hybrid")
    found = run_pictured(case, "llama_cpp@b9518", events=False).scene().rows
    assert [ranges(one) for one in found] == [
        [(0, 100, "evaluated", -1), (100, 103, "generated", -1)], [(0, 70, "evaluated", -1), (70, 73, "generated", -1)],
        [(0, 40, "again", -1), (40, 65, "evaluated", -1), (65, 68, "generated", -1)],
        [(0, 80, "again", 2), (80, 100, "again", 0), (100, 112, "evaluated", -1), (112, 115, "generated", -1)]]
    assert [(list(one.entries.lengths), list(one.entries.gone), one.entries.is_consumed) for one in found] == [
        ([], [], False), ([103], [], False), ([73], [103], True), ([73, 68], [], False)]  # fmt: skip


def test_kept_tokens_may_have_moved():
    found = rows("S40.A20.B60>4/S.B60.C5/S[:9]", cache_reuse=8, cache_ram=0)
    assert ranges(found[1]) == [(0, 40, "kept", -1), (40, 100, "moved", -1), (100, 105, "evaluated", -1)]
    assert ranges(found[2]) == [(0, 8, "kept", -1), (8, 9, "evaluated", -1)]


def test_restored_and_loaded_tokens_come_from_a_restore_point():
    """Micro-batches begin inside the evaluated part of the prompt."""
    found = rows("A60>4/B70/A.C5/B.D5", "GA", ubatch_size=16, batch_size=32)
    assert ranges(found[2]) == [(0, 56, "restored", -1), (56, 60, "again", 0), (60, 65, "evaluated", -1)]
    assert ranges(found[3]) == [(0, 70, "loaded", -1), (70, 75, "evaluated", -1)]
    assert [list(one.batches) for one in found] == [[16, 32, 40, 56], [16, 32, 48, 50, 66], [61], [71]]
    assert found[2].stretches[0].why == found[2].reason != ""


def test_a_request_that_is_refused_generates_nothing():
    (refused,) = rows("A300", ctx_size=256)
    assert "generated" not in [part.origin for part in refused.stretches]


@pytest.mark.parametrize(("verdict", "is_wrong", "fine"), [
    ("OK", False, True), ("recorded", False, True), ("undecided", False, False), ("OK", True, False)])  # fmt: skip
def test_a_scene_is_fine_if_no_answer_is_wrong_or_undecided(verdict, is_wrong, fine):
    assert scene(row(0), row(1, is_wrong=is_wrong))._replace(verdict=verdict).fine is fine


def test_a_scene_is_as_long_as_its_longest_request():
    assert scene(row(0, prompt_n=30), row(1, prompt_n=12)).length == 30
    assert Scene("t", "", "p", "A", "OK", [row(0)._replace(stretches=())]).length == 1


def test_causes_are_the_known_rules_with_their_options():
    one = from_line("A5", model="A", server={"cache_ram": 100})
    found = causes(["LC-PC-LOAD.TAKE", "LC-NO-SUCH", "LC-PC-LOAD.TAKE"], one, "llama_cpp@b10587")
    assert [*found] == ["LC-PC-LOAD.TAKE"]
    cause = found["LC-PC-LOAD.TAKE"]
    assert isinstance(cause, RuleSource) and cause.rule == "LC-PC-LOAD.TAKE" and "--cache-ram 100" in cause.flags
