"""Releases of vLLM on the time line: ``bisect`` names the release that changed an outcome."""

from __future__ import annotations

import pytest

from cachesim.engines.build_names import in_force, resolve_name
from cachesim.engines.vllm import ENGINE
from cachesim.judging.find_change import bisect
from cachesim.scenarios.corpus import named
from cachesim.scenarios.load import load

CHANGES = [
    ("vllm-33270-no-drop-with-lookahead-hashes", 1, "0.33.0", "speculation", 36, 40),
    ("vllm-53505-acceptance-at-a-boundary-hybrid", 1, "0.33.0", "publish_again", 12, 16),
    ("vllm-43650-state-behind-the-rows-hybrid", 1, "0.26.0", "reconcile", 24, 20),
    ("vllm-lookahead-without-hash-window", 0, "0.33.0", "speculation", 0, 0),
]


@pytest.mark.parametrize("scenario, request_number, release, field, was, now", CHANGES)
def test_bisect_names_the_release_and_the_rule(scenario, request_number, release, field, was, now):
    turns = bisect(load(named(scenario)), ENGINE)[request_number].turns
    turn, = [turn for turn in turns if turn.new == f"vllm@{release}"]
    assert (turn.was.cache_n, turn.now.cache_n) == (was, now)
    assert [[change.field for change in cause.changes] for cause in turn.causes] == [[field]]


def test_a_release_is_in_force_from_its_day():
    assert [in_force(ENGINE, f"vllm@0.{minor}.0") for minor in (30, 31, 32, 33)] == [
        ("2026-09-22+",), ("2026-10-05+",), ("2026-10-18+",), ("2026-11-02+",)]  # fmt: skip


@pytest.mark.parametrize("name, profile", [
    ("vllm@2026-10-05", "vllm@0.31.0"), ("vllm@2026-11-01", "vllm@0.32.0"), ("vllm@2999-01-01", ENGINE.newest),
])  # fmt: skip
def test_a_day_names_the_last_release(name, profile):
    assert resolve_name(name).profile == profile


def test_bisect_leaves_out_releases_for_which_an_option_is_not_simulated():
    turns = bisect(load(named("vllm-34587-mode-all-chunk-inside-block")), ENGINE)[0].turns
    turn, = [turn for turn in turns if None in (turn.was, turn.now)]
    assert [[change.field for change in cause.changes] for cause in turn.causes] == [["states_align"]]


@pytest.mark.parametrize("older, newer, field, pull", [
    ("0.25.1", "0.26.0", "partial_hits", "#46384"), ("0.27.1", "0.28.0", "partial_hits", "#51843"),
    ("0.28.0", "0.29.0", "partial_hits", "#50493"), ("0.29.0", "0.30.0", "state_tail", "#53945"),
    ("0.30.0", "0.31.0", "state_tail", "#58368"),
])  # fmt: skip
def test_each_change_of_a_field_has_its_own_pull_request(older, newer, field, pull):
    changes = ENGINE.profiles[f"vllm@{older}"].changes(ENGINE.profiles[f"vllm@{newer}"])
    assert [change.source for change in changes if change.field == field] == [pull]
