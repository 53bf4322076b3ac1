"""Ranges of a request and changes of the prompt cache, from the data of a run."""

from __future__ import annotations

import pytest

from cachesim.scenarios.from_notation import from_line
from cachesim.tools.picture.scene import (
    CacheContents,
    RuleSource,
    Scene,
    TokenStretch,
    _batches,
    _entries,
    _reused_stretches,
    _stretches,
    causes,
)
from tests.unit.tools.picture.test_svg import row, scene


def done(**more):
    """Return the data of a request with a prompt of 20 tokens."""
    return {"kept": 0, "restored": 0, "loaded": 0, "moved": 0, "reason": "how", "cache_n": 0, "prompt_n": 20,
            "prompt": 20, "status": 200, **more}  # fmt: skip


@pytest.mark.parametrize(("reused", "stretches"), [
    ({}, []), ({"kept": 8}, [(0, 8, "kept")]), ({"kept": 8, "moved": 3}, [(0, 5, "kept"), (5, 8, "moved")]),
    ({"kept": 8, "moved": 8}, [(0, 8, "moved")]), ({"kept": 8, "moved": 9}, [(0, 8, "moved")]),
    ({"restored": 7}, [(0, 7, "restored", "how")]), ({"loaded": 7}, [(0, 7, "loaded", "how")]),
    ({"loaded": 4, "restored": 3}, [(0, 7, "restored", "how")]), ({"kept": 2, "loaded": 3}, [(0, 5, "kept")]),
])  # fmt: skip
def test_reused_tokens_were_kept_or_moved_or_come_from_a_restore_point(reused, stretches):
    assert [*_reused_stretches(done(**reused))] == [TokenStretch(*one) for one in stretches]


def charge(tokens, at, event="consumed", kind="entry", rule="R"):
    return {"tokens": tokens, "at": at, "event": event, "kind": kind, "rule": rule}


def ranges(data, lost, end=20, note=""):
    return [(one.start, one.stop, one.origin, one.at) for one in _stretches(data, lost, end, "checkpoint", note)]


def test_losses_follow_the_reused_tokens_from_the_last_charge_to_the_first():
    data = done(kept=5, cache_n=5, prompt_n=15)
    assert ranges(data, [charge(3, 1), charge(0, 9), charge(4, 0)]) == [
        (0, 5, "kept", -1), (5, 9, "again", 0), (9, 12, "again", 1), (12, 20, "evaluated", -1)]  # fmt: skip
    assert ranges(data, [charge(30, 1), charge(4, 0)]) == [
        (0, 5, "kept", -1), (5, 9, "again", 0), (9, 20, "again", 1)]  # fmt: skip


def test_an_answer_follows_the_prompt_only_if_the_request_succeeded():
    assert ranges(done(), [], 23) == [(0, 20, "evaluated", -1), (20, 23, "generated", -1)]
    assert ranges(done(status=400), [], 23) == [(0, 20, "evaluated", -1)]
    assert ranges(done(prompt_n=0), [], 20) == []


def test_a_loss_has_its_event_rule_and_note():
    (lost,) = (one for one in _stretches(done(), [charge(20, 2)], 20, "checkpoint", "predicted"))
    assert lost == TokenStretch(0, 20, "again", lost.why, 2, "R", ("consumed", "entry"))
    assert lost.why.endswith(", predicted")
    (bare,) = (one for one in _stretches(done(), [charge(20, 2)], 20, "checkpoint"))
    assert bare.why == lost.why.removesuffix(", predicted") != ""


@pytest.mark.parametrize(("had", "has", "consumed", "contents"), [
    ((), (), 0, CacheContents((), [], [], False)), ((5,), (5,), 1, CacheContents((5,), [], [], False)),
    ((5, 5, 7), (5, 9), 0, CacheContents((5, 9), [9], [5, 7], False)),
    ((5, 7), (7,), 1, CacheContents((7,), [], [5], True)), ((5, 7), (), 1, CacheContents((), [], [5, 7], False)),
    ((5, 7), (), 2, CacheContents((), [], [5, 7], True)),
])  # fmt: skip
def test_entries_that_a_load_removed_are_consumed(had, has, consumed, contents):
    assert _entries({"entry_tokens": has, "entries_consumed": consumed}, had) == contents


def test_micro_batches_of_the_slot_begin_inside_the_evaluated_prompt():
    batches = [{"part": "target", "spans": [(1, 4, 8), (0, 4, 8), (1, 12, 8)], "repeats": 1},
               {"part": "draft", "spans": [(1, 6, 8)], "repeats": 1},
               {"part": "target", "spans": [(1, 17, 2)], "repeats": 3}]  # fmt: skip
    assert [*_batches({"micro_batches": batches, "id_slot": 1, "cache_n": 4, "prompt": 20})] == [12, 17, 19]
    assert [*_batches({"micro_batches": batches, "id_slot": 0, "cache_n": 3, "prompt": 20})] == [4]


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
