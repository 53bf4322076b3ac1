"""Rendering of chats with the specification's toy template; every token was counted by hand."""

from __future__ import annotations

import pytest

from cachesim.base.errors import BadInput
from cachesim.base.tokens import common_prefix
from cachesim.engines.chat_template import ChatMessage, ChatTemplate, render, template_of

S, U = ChatMessage("system", (1, 2, 3, 4, 5, 6)), ChatMessage("user", (10, 11, 12))


def test_a_message_has_a_header_of_three_and_an_end_of_two():
    assert render([S], ChatTemplate(), False) == (90, 93, 92, 1, 2, 3, 4, 5, 6, 91, 92)
    assert render([U], ChatTemplate(), False) == (90, 94, 92, 10, 11, 12, 91, 92)


@pytest.mark.parametrize("thinking, suffix", [(False, (90, 95, 92)), (True, (90, 95, 92, 96, 92))])
def test_the_generation_suffix_is_three_tokens_and_five_when_thinking(thinking, suffix):
    prompt = render([S, U], ChatTemplate("plain", thinking))
    assert prompt[19:] == suffix and prompt[11:14] == (90, 94, 92)


def test_a_terse_template_keeps_role_content_and_end():
    assert render([S, U], ChatTemplate("terse", True)) == (93, 1, 2, 3, 4, 5, 6, 91, 94, 10, 11, 12, 91, 95, 96)


# Section 6: a template that shows a thought only behind the last user message.
LONG = [ChatMessage("system", (1, 2, 3)), ChatMessage("user", (20, 21)), ChatMessage("assistant", (30, 31)),
        ChatMessage("user", (40, 41, 42))]
REASONING = ChatTemplate("reasoning", True)


def test_the_prompt_of_section_6_token_by_token():
    assert render(LONG, REASONING) == (
        90, 93, 92, 1, 2, 3, 91, 92, 90, 94, 92, 20, 21, 91, 92, 90, 95, 92, 30, 31, 91, 92, 90, 94, 92, 40, 41, 42,
        91, 92, 90, 95, 92, 96, 92,
    )  # fmt: skip


def test_without_its_last_message_the_rendering_is_no_prefix():
    fewer = render(LONG[:-1], REASONING, False)
    assert (len(fewer), fewer[18]) == (26, 96)
    assert common_prefix(fewer, render(LONG, REASONING)) == 18


def test_a_sentinel_differs_first_at_the_end_of_the_last_header():
    other = render([*LONG[:-1], ChatMessage("user", (77,))], REASONING)
    assert len(other) == 33 and common_prefix(other, render(LONG, REASONING)) == 25


def test_a_reasoning_template_wants_a_user_message():
    with pytest.raises(BadInput, match="user message"):
        render(LONG[:1], REASONING, False)


def test_the_options_of_a_server_select_its_template():
    assert template_of({}) == ChatTemplate("plain", False)
    assert template_of({"template": "terse", "thinking": True, "parallel": 2}) == ChatTemplate("terse", True)


def test_a_tokenizer_knows_think_tokens_whether_the_suffix_has_one_or_not():
    assert [ChatTemplate(kind).thinks for kind in ("plain", "reasoning", "terse")] == [False, True, True]
    assert ChatTemplate("plain", True).thinks
