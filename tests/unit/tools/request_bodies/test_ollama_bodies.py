"""Bodies of Ollama's own API: what its server makes of them, and when it loads the model again."""

from __future__ import annotations

import pytest

from cachesim.tools.request_bodies.api_forms import bodies_of
from cachesim.tools.request_bodies.body_files import FoundBody
from tests.unit.tools.request_bodies.made import found

USER = {"role": "user", "content": "Why?"}
CALL = {"function": {"name": "look", "arguments": {"b": 1, "a": 2}}}


def body_of(body, url="", answer=None):
    """Return a body as it is read."""
    [read] = bodies_of([FoundBody("x", body, url, answer)])
    return read


def chat(*messages, **more):
    return {"model": "m", "messages": [*messages], **more}


@pytest.mark.parametrize(("body", "url", "form"), [
    (chat(USER, keep_alive="5m"), "", "Ollama chat"), (chat(USER, options={"num_ctx": 4096}), "", "Ollama chat"),
    (chat(USER), "/api/chat", "Ollama chat"), (chat(USER), "/v1/chat/completions", "chat completions"),
    (chat(USER, keep_alive=1), "/v1/chat/completions", "chat completions"), (chat(USER), "", "chat completions"),
    (chat({**USER, "images": ["QUJD"]}), "", "Ollama chat"),
    (chat({"role": "tool", "tool_name": "a"}), "", "Ollama chat"),
    (chat({"role": "assistant", "tool_calls": [CALL]}), "", "Ollama chat"),
    (chat({"role": "assistant", "tool_calls": [{"type": "function", **CALL}]}), "", "chat completions"),
    ({"prompt": "a"}, "/api/generate", "Ollama generate"), ({"prompt": "a", "context": [1]}, "", "Ollama generate"),
    ({"prompt": "a"}, "", "completion"), ({"prompt": ["a"], "keep_alive": 0}, "", "completion"),
])  # fmt: skip
def test_a_body_is_ollamas_by_its_path_or_by_fields_of_its_own(body, url, form):
    assert body_of(body, url).form == form


def test_messages_have_the_fields_of_ollamas_record():
    read = body_of(chat({"role": "USER", "content": "a", "name": "x", "cache_control": 1},
                        {"role": "assistant", "tool_calls": [{"id": "1", **CALL}]}, keep_alive=1))  # fmt: skip
    assert read.chat == [{"role": "user", "content": "a"}, {"role": "assistant", "tool_calls": [CALL]}]
    assert not any(message.fields for message in read.messages)


def test_a_tool_is_written_again_in_the_order_of_its_record():
    """Unknown fields are dropped; the order of arguments is kept."""
    tool = {"function": {
        "strict": True, "parameters": {
            "properties": {"b": {"description": "x", "type": "string", "default": 1}, "a": {"type": "integer"}},
            "type": "object", "additionalProperties": False, "required": ["a"]},
        "name": "look", "description": ""}, "type": "function"}  # fmt: skip
    [(path, read)] = body_of(chat(USER, tools=[tool], keep_alive=1)).tools
    assert (path, str(read)) == ("tools[0]", str({
        "type": "function", "function": {"name": "look", "parameters": {
            "type": "object", "required": ["a"],
            "properties": {"b": {"type": "string", "description": "x"}, "a": {"type": "integer"}}}}}))  # fmt: skip


@pytest.mark.parametrize(("message", "why"), [
    ({"role": "user", "content": [{"type": "text", "text": "a"}]}, "messages[0].content: expected a string"),
    ({"role": "assistant", "tool_calls": [{"function": {"name": "a", "arguments": "{}"}}]},
     "messages[0].tool_calls[0].function.arguments: expected an object"),
    ({"role": "assistant", "content": None, "tool_calls": [CALL]}, ""),
])  # fmt: skip
def test_a_body_that_does_not_fit_the_records_is_refused(message, why):
    assert body_of(chat(message), "/api/chat").refused == why


@pytest.mark.parametrize(("more", "parts"), [
    ({}, [("user", "a")]), ({"system": "S"}, [("system", "S"), ("user", "a")]),
    ({"system": "S", "raw": True}, [("", "a")]), ({"system": "S", "suffix": "z"}, [("user", "a")]),
    ({"context": [1, 2]}, [("", "\U00010001\U00010002"), ("user", "a")]),
])  # fmt: skip
def test_a_generate_body_is_its_context_its_system_text_and_its_prompt(more, parts):
    read = body_of({"prompt": "a", **more}, "/api/generate")
    assert [(message.role, message.parts[0].text) for message in read.messages] == parts


@pytest.mark.parametrize(("more", "prompt"), [({}, None), ({"think": False}, 90)])
def test_the_prompt_count_of_a_reply_is_read_if_the_body_shows_a_version_that_counts_the_whole_prompt(more, prompt):
    reply = {"message": {"role": "assistant", "content": "Because."}, "done": True, "prompt_eval_count": 90,
             "eval_count": 7}  # fmt: skip
    read = body_of(chat(USER, keep_alive=1, **more), answer=reply)
    assert (read.reported.prompt, read.reported.generated) == (prompt, 7)
    assert read.answer is not None and read.answer.parts[0].text == "Because."


def test_a_model_is_loaded_again_for_another_context_or_after_it_was_unloaded(tmp_path):
    data = found(
        tmp_path, chat(USER, options={"num_ctx": 4096}), chat(USER, options={"num_ctx": 8192}),
        chat(USER, options={"num_ctx": 8192, "seed": 3}, keep_alive="0s"), chat(USER, options={}),
        chat(USER, options={"num_ctx": 2048}),
    )  # fmt: skip
    assert [row["reload"] for row in data["requests"]] == ["", "options.num_ctx", "", "keep_alive", ""]
    matters = {field["name"]: field["matters"] for row in data["requests"] for field in row["parameters"]}
    assert matters == {"options.num_ctx": "yes", "options.seed": "no", "keep_alive": "no"}
