"""Messages as vLLM hands them to the template: expected texts are those of the released functions of 0.33.0."""

from __future__ import annotations

import json

import pytest

from cachesim.engines.chat_bodies import Continued, Refused, SentMessage, TemplateUse
from cachesim.engines.vllm.chat_message import parsed_message, vllm_messages

CALL = {"type": "function", "index": 0, "id": "c", "function": {"name": "w", "arguments": '{"b":1}'}}
BLOCKS = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]


@pytest.mark.parametrize(("message", "is_looped", "written"), [
    ({"role": "user", "content": BLOCKS, "name": "ada", "x": 1}, False,
     '{"role": "user", "content": "a\\nb", "name": "ada"}'),
    ({"role": "user", "content": [{**BLOCKS[0], "cache_control": {}}]}, True,
     '{"role": "user", "content": [{"type": "text", "text": "a", "cache_control": {}}]}'),
    ({"role": "assistant", "content": None, "refusal": None}, False, '{"role": "assistant", "content": ""}'),
    ({"role": "assistant", "content": "x", "tool_calls": []}, False, '{"role": "assistant", "content": "x"}'),
    ({"role": "assistant", "content": "", "reasoning_content": "hm", "tool_calls": [CALL]}, False,
     '{"role": "assistant", "content": "", "tool_calls": [{"id": "c", "function": {"arguments": {"b": 1}, '
     '"name": "w"}, "type": "function", "index": 0}], "reasoning": "hm", "reasoning_content": "hm"}'),
    ({"role": "tool", "tool_call_id": "c", "content": BLOCKS}, True,
     '{"role": "tool", "content": "a\\nb", "tool_call_id": "c"}'),
    ({"role": "system", "content": "x-anthropic-billing-header: cch=1;\nBe brief."}, False,
     '{"role": "system", "content": "Be brief."}'),
])  # fmt: skip
def test_a_message_is_written_as_the_released_functions_write_it(message, is_looped, written):
    assert json.dumps(parsed_message(message, TemplateUse(iterates_content=is_looped))) == written


@pytest.mark.parametrize("message", [
    {"role": "user", "content": [{"type": "guess"}]}, {"role": "user", "content": 5}, {"content": "x"},
    {"role": "assistant", "tool_calls": [{**CALL, "function": {"name": "w", "arguments": {"b": 1}}}]},
])
def test_what_the_server_refuses_is_refused(message):
    with pytest.raises(Refused):
        parsed_message(message, TemplateUse())


def test_a_template_without_the_role_developer_gets_one_system_message_in_front():
    roles = ("system", "user", "developer")
    chat = [SentMessage({"role": role, "content": role}, f"messages[{at}]") for at, role in enumerate(roles)]
    found = vllm_messages(chat, TemplateUse(), {})
    assert [one.message for one in found.messages] == [
        {"role": "system", "content": "system\n\ndeveloper"}, {"role": "user", "content": "user"}]  # fmt: skip
    kept = vllm_messages(chat, TemplateUse(source="m.role == 'developer'"), {})
    assert [one.message["role"] for one in kept.messages] == [*roles]


def test_an_answer_is_continued_if_the_client_asks_for_it():
    chat = [SentMessage({"role": "assistant", "content": "It"}, "messages[0]")]
    assert vllm_messages(chat, TemplateUse(), {}).continued is None
    assert vllm_messages(chat, TemplateUse(), {"continue_final_message": True}).way is Continued.RENDERED
