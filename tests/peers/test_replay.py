"""Replay of the recorded transcript of the real classes on ours. Does not need MLX."""

from __future__ import annotations

import json

import pytest

from tests.peers import transcript


@pytest.fixture(scope="module")
def recorded():
    return json.loads(transcript.PATH.read_text("utf-8"))


@pytest.fixture(scope="module")
def ours(recorded):
    return transcript.digests(None, recorded["seed"], *recorded["ops"])


@pytest.mark.long
@pytest.mark.parametrize("part", ["classes", "lru"])
def test_every_answer_is_that_of_the_real_classes(recorded, ours, part):
    theirs = recorded[part]
    wrong = [i // 8 for i in range(0, len(theirs), 8) if theirs[i : i + 8] != ours[part][i : i + 8]]
    assert (wrong[:1], len(ours[part])) == ([], len(theirs))


def test_the_transcript_is_small_and_says_what_it_was_made_with(recorded):
    assert transcript.PATH.stat().st_size < 300 * 1024
    assert recorded["mlx_lm"] == "0.32.2"
    assert len(recorded["classes"]) == 8 * recorded["ops"][0]
