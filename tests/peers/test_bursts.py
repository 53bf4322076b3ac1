"""Does our server still do what the real one did when the bursts were recorded? Needs no MLX."""

from __future__ import annotations

import json

import pytest

from cachesim.engines.chat import Message, Template
from tests.peers.bursts import TRANSCRIPT, Asked, Ours, World, checksum

WORLDS = json.loads(TRANSCRIPT.read_text("utf-8"))


def asked(data):
    messages, text, max_tokens, seed = data
    return Asked(tuple(Message(role, tuple(content)) for role, content in messages), tuple(text), max_tokens, seed)


@pytest.mark.parametrize("number", range(len(WORLDS)))
def test_every_burst_ends_as_the_real_one(number):
    one = WORLDS[number]
    name, template, flags = one["world"]
    ours = Ours(World(name, Template(*template), flags), *one["spec"])
    for burst in one["bursts"]:
        requests = [asked(data) for data in burst["asked"]]
        answers = ours.burst(requests, [tokens for _, _, tokens in burst["said"]])
        for answer, (cached, error, _) in zip(answers, burst["said"], strict=True):
            assert answer.died == (error == "died")
            assert error or answer.cache_n == cached
        if not any(answer.died for answer in answers):
            entries, size = ours.stored()
            assert [[kind, len(key), checksum(key)] for kind, key in entries] == burst["stored"]
            assert size == burst["nbytes"]


def test_the_recording_is_small_and_worth_repeating():
    bursts = [burst for one in WORLDS for burst in one["bursts"]]
    assert TRANSCRIPT.stat().st_size < 700 * 1024
    assert {one["world"][0] for one in WORLDS} == {"qwen3_next", "mamba2", "lfm2", "gemma3", "llama"}
    assert len(bursts) >= 300
    assert sum(len(burst["asked"]) > 1 for burst in bursts) > 100
    assert sum(cached > 0 for burst in bursts for cached, _, _ in burst["said"]) > 150
    assert any(error == "died" for burst in bursts for _, error, _ in burst["said"])
