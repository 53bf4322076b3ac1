"""Questions that separate scenarios."""

from __future__ import annotations

from cachesim.scenarios.separating_question import (
    OTHER,
    separating_question,
)
from tests.scenarios.whole import heads

BY_ID = {one.id: one for one in heads()}


def asked(*ids):
    found = separating_question([BY_ID[name] for name in ids])
    return None if found is None else (found.text, {answer.text: answer.scenarios for answer in found.answers})


def test_scenarios_of_several_servers_are_separated_by_the_server():
    assert asked("vllm-no-prefix-cache", "sglang-21158-resend-hybrid", "ik-1888-exact-checkpoint-refused-hybrid") == (
        "Which server is it?", {"vllm": ("vllm-no-prefix-cache",), "sglang": ("sglang-21158-resend-hybrid",),
                                "ik_llama.cpp": ("ik-1888-exact-checkpoint-refused-hybrid",)})  # fmt: skip


def test_scenarios_of_a_server_are_separated_by_what_their_titles_name():
    text, answers = asked("llama-21831-reasoning-removed-hybrid", "llama-24714-date-near-beginning-hybrid",
                          "llama-22929-replaced-user-message-hybrid")  # fmt: skip
    assert text == "What is involved?" and [*answers][-1] == OTHER and len(answers) == 3


def test_kinds_of_models_separate_the_rest():
    assert asked("llama-24176-changing-message-hybrid", "llama-24176-changing-message-window") == (
        "Which kind of model is it?", {"hybrid": ("llama-24176-changing-message-hybrid",),
                                       "with a sliding window": ("llama-24176-changing-message-window",)})  # fmt: skip


def test_scenarios_that_agree_in_everything_are_not_separated():
    assert asked("llama-24714-date-near-beginning-hybrid") is None
