"""Messages as SGLang hands them to the template: expected texts are those of the released functions of 0.5.23."""

from __future__ import annotations

import json

import pytest

from cachesim.engines.chat_bodies import Continued, Refused, SentMessage, TemplateUse
from cachesim.engines.sglang.chat_message import parsed_message, sglang_messages

CALL = {"type": "function", "index": 0, "id": "c", "function": {"name": "w", "arguments": '{"b":1}'}}
BLOCKS = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]


@pytest.mark.parametrize(("message", "is_looped", "written"), [
    ({"role": "user", "content": BLOCKS, "name": "ada", "x": 1}, False, '{"role": "user", "content": "a b"}'),
    ({"role": "user", "content": [{**BLOCKS[0], "cache_control": {}}]}, True,
     '{"role": "user", "content": [{"type": "text", "text": "a"}]}'),
    ({"role": "Assistant", "content": None, "refusal": None}, False, '{"role": "assistant", "content": ""}'),
    ({"role": "assistant", "content": "x", "tool_calls": []}, False,
     '{"role": "assistant", "content": "x", "tool_calls": []}'),
    ({"role": "assistant", "content": "", "reasoning_content": "hm", "tool_calls": [CALL]}, False,
     '{"role": "assistant", "content": "", "reasoning_content": "hm", "tool_calls": [{"id": "c", "index": 0, '
     '"type": "function", "function": {"name": "w", "arguments": {"b": 1}}}]}'),
    ({"role": "tool", "tool_call_id": "c", "content": BLOCKS}, True,
     '{"role": "tool", "tool_call_id": "c", "content": "a b"}'),
])  # fmt: skip
def test_a_message_is_written_as_the_released_functions_write_it(message, is_looped, written):
    assert json.dumps(parsed_message(message, TemplateUse(iterates_content=is_looped))) == written


@pytest.mark.parametrize("message", [
    {"role": "user", "content": [{"type": "guess"}]}, {"role": "user"}, {"role": "guest", "content": "x"},
    {"role": "user", "content": [{"type": "thinking", "thinking": "hm"}]},
    {"role": "assistant", "tool_calls": [{**CALL, "function": {"name": "w", "arguments": "[1]"}}]},
])
def test_what_the_server_refuses_is_refused(message):
    with pytest.raises(Refused):
        parsed_message(message, TemplateUse())


def test_an_answer_at_the_end_is_one_of_the_user_unless_the_client_asks_to_continue_it():
    chat = [SentMessage({"role": "assistant", "content": "It"}, "messages[0]")]
    found = sglang_messages(chat, TemplateUse(), {})
    assert [one.message for one in found.messages] == [{"role": "user", "content": "It"}]
    found = sglang_messages(chat, TemplateUse(), {"continue_final_message": True})
    assert not found.messages and found.continued is not None and found.way is Continued.AFTER_OPENING
