"""Tests of what the player of older servers reads and writes."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest

from cachesim.base.tokens import common_prefix
from cachesim.engines.shared.vocab import PIECES
from cachesim.model.hash_mixing import Rng
from tests.live.older_lines import DIALECTS, LINE_FEED, dialect, spm_vocabulary
from tests.live.older_servers import PLAIN, draw_options, draw_steps, tokens_of


@pytest.mark.parametrize(("profile", "same_as"), [("b1573", "b1573"), ("b3642", "b2781"), ("b4579", "b4094")])
def test_a_build_speaks_as_the_newest_known_one_before_it(profile, same_as):
    assert dialect(profile) is DIALECTS[same_as]


@pytest.mark.parametrize(("profile", "line", "numbers"), [
    ("b4579", "slot update_slots: id  1 | task 7 | kv cache rm [5, end)", ("1", "5")),
    ("b2781", '{"msg":"kv cache rm [p0, end)","id_slot":1,"id_task":7,"p0":5}', ("1", "5")),
    ("b1573", "slot 1 : kv cache rm - [5, end)", ("1", "5")),
])
def test_each_server_logs_a_removal_in_its_way(profile, line, numbers):
    assert re.search(dialect(profile).lines["rm"], line).groups() == numbers


def test_the_characters_of_a_reply_are_its_tokens():
    assert tokens_of({"content": PIECES[PLAIN[3]] + PIECES[PLAIN[4]]}) == PLAIN[3:5]


def test_the_vocabulary_of_2023_has_as_many_pieces_and_a_line_feed():
    keys = spm_vocabulary()
    assert len(keys["tokenizer.ggml.tokens"]) == len(keys["tokenizer.ggml.scores"]) == len(PIECES)
    assert keys["tokenizer.ggml.tokens"][LINE_FEED] == "<0x0A>"


@pytest.mark.parametrize("profile", ["b1573", "b2781", "b4579", "b5833"])
def test_drawn_conversations_often_continue_a_prompt(profile):
    rng = Rng(1, profile)
    options = draw_options(rng, profile)
    steps = [step for _ in range(20) for step in draw_steps(rng, options, profile, [()])]
    prompts = [list(request.prompt) for step in steps for request in step.requests]
    assert sum(common_prefix(a, b) > 2 for a, b in pairwise(prompts)) > 5
    assert all(prompts)
