"""Parts of a message as a template receives them."""

from __future__ import annotations

import json

import pytest

from cachesim.tools.request_bodies.body import CALL, IMAGE, REASONING, TEXT, BodyMessage, BodyText
from cachesim.tools.request_bodies.message_content import answer_of, arguments, block, content, join_text, message_of


@pytest.mark.parametrize("value, found", [
    ('{"a": [1, null]}', {"a": [1, None]}), ("3", 3), ({"a": 1}, {"a": 1}), (None, None), ("{broken", "{broken"),
    ("", ""), ("[" * 100_000, "[" * 100_000), ("1" * (1 << 20), "1" * (1 << 20)),
], ids=lambda value: str(value)[:12])  # fmt: skip
def test_arguments_are_parsed_if_they_are_json(value, found):
    assert arguments(value) == found


def parts(message):
    return [(part.kind, part.path, part.text) for part in message.parts]


def test_the_parts_of_a_message_stand_in_the_order_of_a_template():
    message = message_of({
        "role": "assistant", "tool_calls": [{"function": {"name": "go", "arguments": {"a": 1}}}, 7], "content": "Yes",
        "thinking": "third", "reasoning_content": "first", "reasoning": ["se", {"text": "cond"}], "images": ["AAAA"],
    }, "m")  # fmt: skip
    kinds = [(kind, path) for kind, path, _ in parts(message)]
    assert kinds == [(REASONING, "m.reasoning_content"), (REASONING, "m.reasoning"), (REASONING, "m.thinking"),
                     (IMAGE, "m.images[0]"), (TEXT, "m.content"), (CALL, "m.tool_calls[0]"),
                     (CALL, "m.tool_calls[1]")]  # fmt: skip
    texts = [text for *_, text in parts(message)]
    assert texts[:3] == ["first", "second", "third"]
    assert texts[-3:] == ["Yes", '{"name": "go", "arguments": {"a": 1}}', ""]
    assert message_of({"role": 5, "tool_calls": "x", "content": None}, "m") == BodyMessage("", "m", ())


@pytest.mark.parametrize(("call", "text"), [
    ({"name": "go", "input": {"a": "é"}}, '{"name": "go", "arguments": {"a": "é"}}'),
    ({"name": "go"}, '{"name": "go", "arguments": {}}'),
    ({"function": {"arguments": "[1"}}, '{"name": null, "arguments": [1}'),
    ({"name": "go", "arguments": "x", "input": 1}, '{"name": "go", "arguments": x}'),
    ({"function": 5, "name": "go", "input": []}, '{"name": "go", "arguments": []}'),
])  # fmt: skip
def test_a_call_is_its_name_and_its_arguments(call, text):
    assert block({"type": "tool_use", **call}, "b") == [BodyText(CALL, "b", text)]


@pytest.mark.parametrize(("value", "found"), [
    ("a", [(TEXT, "b", "a")]), ("", []), (7, []), ({"type": "text", "text": "a"}, [(TEXT, "b.text", "a")]),
    ({"type": "x"}, []), ({"type": "x", "content": "a"}, [(TEXT, "b.content", "a")]),
    ({"type": "x", "content": ["a", {"text": "c"}]}, [(TEXT, "b.content[0]", "a"), (TEXT, "b.content[1].text", "c")]),
    ({"type": "thinking", "thinking": "", "text": "h"}, [(REASONING, "b.text", "h")]), ({"type": "thinking"}, []),
    ({"type": "reasoning", "summary": [{"text": "h"}, "i"]}, [(REASONING, "b.summary", "hi")]),
    ({"type": "tool_result", "content": "r"}, [(TEXT, "b.content", "r")]),
    ({"type": "tool_result", "content": "r", "output": "o"}, [(TEXT, "b.output", "o")]),
])  # fmt: skip
def test_a_block_is_read_by_its_type(value, found):
    assert [(part.kind, part.path, part.text) for part in block(value, "b")] == found


@pytest.mark.parametrize(("text", "found"), [
    ("<think>a</think>\n\nb", [(REASONING, "<think>a</think>\n\n"), (TEXT, "b")]),
    (" <think>a", [(REASONING, " <think>a")]), ("b <think>a</think>", [(TEXT, "b <think>a</think>")]),
    ("<think></think>", [(REASONING, "<think></think>")]),
])  # fmt: skip
def test_a_leading_think_block_is_reasoning(text, found):
    assert [(part.kind, part.text) for part in content(text, "c")] == found


def test_a_content_is_a_text_a_list_or_a_block():
    assert [part.path for part in content(["a", "", {"text": "b"}, 7], "c")] == ["c[0]", "c[2].text"]
    assert content({"text": "b"}, "c") == [BodyText(TEXT, "c.text", "b")]
    assert content(None, "c") == content(7, "c") == []


def stream(*events):
    return "".join(f"data: {json.dumps(event)}\n\n" for event in events) + "data: [DONE]\n"


def delta(**fields):
    return {"choices": [{"delta": fields}]}


def call(index, **function):
    return delta(tool_calls=[{"index": index, "function": function}])


def test_a_stream_of_events_is_joined():
    text = stream(delta(reasoning_content="h"), delta(thinking="m"), delta(content="Y"), {"choices": [{"text": "e"}]},
                  {"delta": {"text": "s"}}, {"content": "!"}, call(1, name="b", arguments="{"), call(0, name="a"),
                  call(1, arguments="}"), call("x", arguments="[]"), 7, {"choices": []},
                  delta(tool_calls=[7]))  # fmt: skip
    assert [(kind, text) for kind, _, text in parts(answer_of(f": comment\n{text}data: {{\n"))] == [
        (REASONING, "hm"), (TEXT, "Yes!"), (CALL, '{"name": "b", "arguments": {}}'),
        (CALL, '{"name": "a", "arguments": []}')]  # fmt: skip
    assert answer_of(stream({"choices": [{"finish_reason": "stop"}]})) is None and answer_of("plain") is None


@pytest.mark.parametrize("value", [
    {"choices": [{"message": {"content": "Yes", "role": "user"}}]}, {"choices": [{"text": "Yes"}]},
    {"type": "message", "content": [{"type": "text", "text": "Yes"}]},
    {"object": "response", "output": [{"type": "message", "content": [{"text": "Yes"}]}]},
    {"content": "Yes", "stop": True}, {"content": "Yes", "tokens_predicted": 1},
    {"response": {"choices": [{"text": "Yes"}]}},
    {"body": "", "text": '{"choices": [{"text": "Yes"}]}'}, ' {"content": "Yes", "stop": true}',
    {"json": {"data": {"body": {"content": "Yes", "stop": 1}}}},
])  # fmt: skip
def test_a_response_is_read_in_every_form(value):
    assert answer_of(value).text_without() == "Yes"


@pytest.mark.parametrize("value", [
    None, 7, "", "{", {}, {"choices": []}, {"choices": [7]}, {"choices": [{"text": 7}]}, {"content": "Yes"},
    {"type": "message", "content": "Yes"}, {"output": []}, {"content": 7, "stop": True},
    {"json": {"data": {"body": {"text": {"content": {"content": "Yes", "stop": 1}}}}}},
])  # fmt: skip
def test_another_value_is_not_an_answer(value):
    assert answer_of(value) is None


def test_an_event_may_follow_its_colon_without_a_space():
    assert answer_of('data:{"content": "Yes"}\ndata: {"content": "!"}\n').text_without() == "Yes!"


@pytest.mark.parametrize(("role", "found"), [("user", "user"), ("", ""), (None, ""), (["user"], "")])
def test_a_message_has_the_role_that_is_a_text(role, found):
    assert message_of({"role": role, "content": "a"}, "m").role == found


def test_the_parts_of_a_kind_are_lines():
    mixed = [BodyText(TEXT, "a", "one"), BodyText(REASONING, "b", "two"), BodyText(TEXT, "c", "three")]
    assert (join_text(mixed), join_text(mixed, REASONING), join_text(mixed, CALL)) == ("one\nthree", "two", "")
