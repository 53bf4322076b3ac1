"""Bodies of all APIs are read as the same messages."""

from __future__ import annotations

import json

import pytest

from cachesim.base.errors import BadInput
from cachesim.tools.request_bodies.api_forms import bodies_of
from cachesim.tools.request_bodies.body import FIRST_TOKEN, BodyMessage, BodyText
from cachesim.tools.request_bodies.body_files import FoundBody, bodies_in, is_body

CALL = {"type": "function", "function": {"name": "run", "arguments": '{"a": 1}'}}
SCHEMA = {"type": "object", "properties": {}}


def body_of(value, url=""):
    [one] = bodies_of([FoundBody("x", value, url)])
    return one


def said(value, url=""):
    return [(one.role, [(part.kind, part.text) for part in one.parts]) for one in body_of(value, url).messages]


def messages(*some, **more):
    return {"messages": list(some), **more}


def test_the_same_conversation_of_three_apis_is_the_same_messages():
    openai = messages({"role": "system", "content": "Kind."}, {"role": "user", "content": "Go"},
                      {"role": "assistant", "content": "", "tool_calls": [CALL]},
                      {"role": "tool", "content": "done"})  # fmt: skip
    anthropic = messages({"role": "user", "content": "Go"},
                         {"role": "assistant", "content": [{"type": "tool_use", "name": "run", "input": {"a": 1}}]},
                         {"role": "user", "content": [{"type": "tool_result", "content": "done"}]},
                         system="Kind.")  # fmt: skip
    responses = {"model": "m", "instructions": "Kind.", "input": [
        {"role": "user", "content": "Go"}, {"type": "function_call", "name": "run", "arguments": '{"a": 1}'},
        {"type": "function_call_output", "output": "done"}]}  # fmt: skip
    assert said(openai) == said(anthropic) == said(responses)
    assert [role for role, _ in said(openai)] == ["system", "user", "assistant", "tool"]
    assert [body_of(one).form for one in (openai, anthropic, responses)] == [
        "chat completions", "Anthropic messages", "responses"]  # fmt: skip


def test_the_tools_of_a_responses_body_have_their_paths():
    tool = {"type": "function", "name": "run", "description": "runs it", "parameters": SCHEMA}
    responses = body_of({"model": "m", "input": "Go", "instructions": "Kind.", "tools": [tool]})
    assert responses.form == "responses" and [one.role for one in responses.messages] == ["system", "user"]
    assert responses.tools == [("tools[0]", tool)]


@pytest.mark.parametrize("more, url, anthropic", [
    ({}, "", False), ({"system": "x"}, "", True), ({"anthropic_version": "1"}, "", True),
    ({}, "/v1/messages?beta=true", True), ({}, "/v1/chat/completions", False),
    ({"tools": [{"name": "a", "input_schema": SCHEMA}]}, "", True), ({"tools": [{"type": "function"}]}, "", False),
    ({"tools": []}, "", False), ({"tools": [7]}, "", False),
    ({"messages": [{"role": "user", "content": [{"type": "tool_result"}]}]}, "", True),
    ({"messages": [{"role": "user", "content": [{"type": "text", "text": "a"}]}]}, "", False),
    ({"messages": [{"role": "user", "content": [{"type": None, "text": "a"}, {"text": "b"}]}]}, "", False),
])  # fmt: skip
def test_a_body_is_anthropic_by_its_path_its_fields_or_its_blocks(more, url, anthropic):
    value = messages({"role": "user", "content": "Go"}) | more
    assert (body_of(value, url).form == "Anthropic messages") is anthropic


def test_tools_of_both_apis_are_rendered_alike():
    tool = {"name": "a", "description": "does a", "input_schema": SCHEMA}
    anthropic = body_of(messages({"role": "user", "content": "Go"}, tools=[tool]))
    assert anthropic.tools == [("tools[0]", {"type": "function", "function": {
        "name": "a", "description": "does a", "parameters": SCHEMA}})]  # fmt: skip
    assert body_of(messages({"role": "user", "content": "Go"}, functions=[{"name": "a"}])).tools == [
        ("functions[0]", {"name": "a"})]  # fmt: skip


def test_tool_results_precede_the_user_text_of_their_message():
    result, text = {"type": "tool_result", "content": "done"}, {"type": "text", "text": "And?"}
    value = messages({"role": "user", "content": [text, result]}, {"role": "user", "content": [result]},
                     {"role": "user", "content": []}, system="x")  # fmt: skip
    assert [role for role, _ in said(value)] == ["system", "tool", "user", "tool", "user"]


def test_a_template_receives_joined_texts_and_parsed_arguments():
    value = messages({"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
                     {"role": "assistant", "content": None, "tool_calls": [CALL, "x"]})  # fmt: skip
    one, two = body_of(value).chat
    assert one["content"] == "a\nb" and two["tool_calls"][1] == "x"
    assert two["tool_calls"][0]["function"]["arguments"] == {"a": 1}
    [thought] = body_of(messages({"role": "assistant", "content": [{"type": "thinking", "thinking": "hm"}]})).chat
    assert thought == {"role": "assistant", "content": "", "reasoning_content": "hm"}


@pytest.mark.parametrize("prompt, texts", [
    ("a", [["a"]]), (["a", "b"], [["a"], ["b"]]), ([5, 6], [[chr(FIRST_TOKEN + 5) + chr(FIRST_TOKEN + 6)]]),
    (["a", 5], [["a", chr(FIRST_TOKEN + 5)]]), ([[5], ["b"]], [[chr(FIRST_TOKEN + 5)], ["b"]]),
    ({"prompt_string": "a"}, [["a"]]), ([{"prompt_string": "a"}, "b"], [["a"], ["b"]]), ([[]], [[]]),
])  # fmt: skip
def test_a_prompt_is_a_text_tokens_both_or_several(prompt, texts):
    found = bodies_of([FoundBody("x", {"prompt": prompt})])
    assert [[part.text for part in one.messages[0].parts] for one in found] == texts
    assert [one.number for one in found] == [*range(len(texts))] and all(one.is_raw and one.form == "completion"
                                                                         for one in found)  # fmt: skip


@pytest.mark.parametrize("prompt, what", [
    ([1.5], "prompt[0] is neither text nor a token"), ([True, 1], "prompt[0] is neither"), ([-1], "prompt[0]"),
    (7, "prompt is neither text nor tokens"), ([1, 0x110000], "prompt[1] is neither"),
])  # fmt: skip
def test_a_malformed_prompt_is_refused(prompt, what):
    with pytest.raises(BadInput) as refused:
        bodies_of([FoundBody("x", {"prompt": prompt})])
    assert what in str(refused.value)


def test_fields_beside_the_prompt_are_parameters():
    one = body_of(messages({"role": "user", "content": "Go"}, model="m", tools=[], top_p=1, n_predict=3))
    assert one.parameters == {"top_p": 1, "n_predict": 3} and one.model == "m"
    assert body_of({"prompt": "a", "n_predict": 3, "model": 7}).form == "native completion"
    assert body_of({"prompt": "a", "model": 7}).model == ""


def test_a_single_prompt_gets_the_recorded_answer():
    answer = {"choices": [{"text": "Hello"}]}
    [one] = bodies_of([FoundBody("x", {"prompt": "a"}, "", answer)])
    assert one.answer.text_without() == "Hello"
    assert [one.answer for one in bodies_of([FoundBody("x", {"prompt": ["a", "b"]}, "", answer)])] == [None, None]


@pytest.mark.parametrize("value, known", [
    ({"messages": [{"role": "user"}]}, True), ({"messages": []}, False), ({"messages": [{"content": "a"}]}, False),
    ({"prompt": "a"}, True), ({"prompt": []}, False), ({"prompt": [1, "a"]}, True), ({"prompt": [None]}, False),
    ({"prompt": {"prompt_string": "a"}}, True), ({"prompt": {"text": "a"}}, False),
    ({"input": "a", "model": "m", "stream": True}, True), ({"input": "a", "model": "m"}, False),
    ({"input": "a", "stream": True}, False), ({"input": [{"role": "user"}], "model": "m"}, True),
    ({"input": [{"role": "user"}]}, False), ({"input": [], "model": "m"}, False), ([], False), ("a", False),
])  # fmt: skip
def test_a_value_is_a_body_or_not(value, known):
    assert is_body(value) is known


def test_a_body_is_found_with_its_path_and_answer():
    value = {"url": "/v1/x", "response": {"choices": []}, "request": {"body": json.dumps({"prompt": "a"})}}
    assert list(bodies_in([value, {"prompt": "b"}], "f")) == [
        FoundBody("f[0]", {"prompt": "a"}, "/v1/x", {"choices": []}), FoundBody("f[1]", {"prompt": "b"})]  # fmt: skip
    assert next(bodies_in([value], "f")).place == "f" and list(bodies_in("{broken", "f")) == []


def test_wrappers_are_opened_six_deep():
    value = {"prompt": "a"}
    for deep in range(9):
        assert len(list(bodies_in(value, "f"))) == (deep <= 7)
        value = {"body": value}
    value = {"prompt": "a"}
    for deep in range(6):
        assert len(list(bodies_in(value, "f"))) == (deep <= 3)
        value = {"body": json.dumps(value)}


def test_a_message_of_anthropics_api_is_that_of_a_template():
    """A tool result is a message of its own, with its own fields."""
    value = messages(
        {"role": "user", "content": [{"type": "tool_result", "content": "done", "tool_use_id": "t"},
                                     {"type": "text", "text": "And?", "cache_control": 1}, 7]},
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "yes"},
                                          {"type": "tool_use", "name": "run", "input": {"a": 1}}]},
        system="Kind.", tools=[{"name": "a"}, 7])  # fmt: skip
    body = body_of(value)
    assert body.chat == [
        {"role": "system", "content": "Kind."}, {"role": "tool", "content": "done"},
        {"role": "user", "content": "And?"},
        {"role": "assistant", "content": "yes", "reasoning_content": "hm",
         "tool_calls": [{"type": "function", "function": {"name": "run", "arguments": {"a": 1}}}]}]  # fmt: skip
    assert [one.fields for one in body.messages] == [
        "", '{"tool_use_id": "\\"t\\""}', '{"content[0].cache_control": "1"}', ""]
    assert body.tools == [("tools[0]", {"name": "a"}), ("tools[1]", 7)]


def test_a_prompt_of_ollama_has_its_images_before_its_text():
    body = body_of({"prompt": "a", "images": ["QUJD"]})
    image, _ = body.messages[0].parts
    assert (body.form, image.path, image.text[:14]) == ("Ollama generate", "images[0]", "<image 3 bytes")
    assert body.messages == [BodyMessage("user", "prompt", (image, BodyText("text", "prompt", "a")))]


def test_the_place_of_the_first_body_too_many_is_named(lift):
    lift(BODIES=2)
    with pytest.raises(BadInput) as bad:
        bodies_of([FoundBody(place, {"prompt": "a"}) for place in ("x", "y", "z")])
    assert bad.value.file == "z"
