"""Replay of recorded bursts of the real server on ours. Does not need MLX."""

from __future__ import annotations

import json

import pytest

from tests.peers.bursts import TRANSCRIPT, repeat

WORLDS = json.loads(TRANSCRIPT.read_text("utf-8"))


@pytest.mark.parametrize("number", range(len(WORLDS)))
def test_every_burst_ends_as_the_real_one(number):
    repeat(WORLDS[number])


def test_the_recording_is_small_and_worth_repeating():
    bursts = [burst for one in WORLDS for burst in one["bursts"]]
    assert TRANSCRIPT.stat().st_size < 700 * 1024
    assert {one["world"][0] for one in WORLDS} == {"qwen3_next", "mamba2", "lfm2", "gemma3", "llama"}
    assert len(bursts) >= 300
    assert sum(len(burst["asked"]) > 1 for burst in bursts) > 100
    assert sum(cached > 0 for burst in bursts for cached, _, _ in burst["said"]) > 150
    assert any(error == "died" for burst in bursts for _, error, _ in burst["said"])
