"""The answer in recorded responses of several APIs."""

from __future__ import annotations

import json

import pytest

from cachesim.tools.request_bodies.message_content import answer_of

STREAM = "\n".join(f"data: {json.dumps(one)}" for one in (
    {"choices": [{"delta": {"reasoning_content": "let "}}]}, {"choices": [{"delta": {"reasoning_content": "me"}}]},
    {"choices": [{"delta": {"content": "Hel"}}]}, {"choices": [{"delta": {"content": "lo"}}]},
)) + "\n: comment\ndata: [DONE]\n\nevent: x\ndata: 7\n"  # fmt: skip


def said(value):
    found = answer_of(value)
    return None if found is None else [(part.kind, part.text) for part in found.parts]


@pytest.mark.parametrize("response", [
    {"choices": [{"message": {"role": "assistant", "content": "Hello"}}, {"message": {"content": "other"}}]},
    {"choices": [{"text": "Hello"}]}, {"type": "message", "content": [{"type": "text", "text": "Hello"}]},
    {"object": "response", "output": [{"type": "message", "content": [{"type": "output_text", "text": "Hello"}]}]},
    {"content": "Hello", "stop": True}, {"content": "Hello", "tokens_predicted": 2},
    'data: {"choices": [{"text": "Hello"}]}', 'data: {"delta": {"text": "Hel"}}\ndata: {"delta": {"text": "lo"}}',
    'data: {"content": "Hello"}',
])  # fmt: skip
def test_an_answer_is_found_in_every_form(response):
    assert said(response) == [("text", "Hello")]
    text = response if isinstance(response, str) else json.dumps(response)
    assert said(text) == said({"body": text}) == said({"status": 200, "data": {"json": response}}) == said(response)


def test_a_stream_is_joined_including_its_reasoning():
    assert said(STREAM) == [("reasoning", "let me"), ("text", "Hello")]


def test_tool_calls_are_joined_from_their_fragments():
    def event(index, **function):
        return f"data: {json.dumps({'choices': [{'delta': {'tool_calls': [{'index': index, 'function': function}]}}]})}"

    text = "\n".join([event(0, name="read", arguments='{"path"'), event(1, name="run"), event(0, arguments=': "a"}'),
                      event(1, arguments="{}")])  # fmt: skip
    assert said(text) == [("call", '{"name": "read", "arguments": {"path": "a"}}'),
                          ("call", '{"name": "run", "arguments": {}}')]  # fmt: skip


@pytest.mark.parametrize("response", [
    None, 7, [], {}, "", "hello", "{broken", {"choices": []}, {"choices": [{}]}, {"choices": [7]},
    {"content": "a page of something else"}, {"type": "message", "content": "text"}, "data: {broken",
])  # fmt: skip
def test_a_response_without_an_answer_has_none(response):
    assert said(response) is None


def test_wrappers_are_opened_four_deep():
    answer = {"choices": [{"text": "Hello"}]}
    for deep in range(7):
        assert (said(answer) is None) == (deep > 4)
        answer = {"body": answer}


@pytest.mark.parametrize(("wrappers", "is_found"), [(0, True), (1, True), (2, True), (3, False)])
def test_an_answer_is_sought_in_few_wrappers(wrappers, is_found):
    value = {"choices": [{"text": "Hello"}]}
    for _ in range(wrappers):
        value = {"response": json.dumps(value)}
    assert (said(value) is not None) is is_found
