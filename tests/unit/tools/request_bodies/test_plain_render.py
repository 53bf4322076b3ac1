"""Plain rendering of a body, and the place in the body of each character."""

from __future__ import annotations

import json

import pytest

from cachesim.tools.request_bodies.api_forms import bodies_of
from cachesim.tools.request_bodies.body import CALL, REASONING, TEXT, BodyMessage, BodyText
from cachesim.tools.request_bodies.body_files import FoundBody
from cachesim.tools.request_bodies.plain_render import answer_text, canonical, json_pieces, render_plain
from tests.unit.tools.request_bodies.made import TOOLS, chat


def rendered(body):
    [one] = bodies_of([FoundBody("x", body)])
    return render_plain(one)


def test_messages_are_lines_with_their_role():
    one = rendered(chat("Hello", "Hi", system="Be kind."))
    assert one.text == ("<|im_start|>system\nBe kind.<|im_end|>\n<|im_start|>user\nHello<|im_end|>\n"
                        "<|im_start|>assistant\nHi<|im_end|>\n<|im_start|>assistant\n")  # fmt: skip
    assert one.text[one.history :] == "<|im_start|>assistant\n"


@pytest.mark.parametrize("system", ["Be kind.", ""])
@pytest.mark.parametrize("tools", [[], TOOLS])
def test_each_message_begins_where_it_is_rendered(system, tools):
    one = rendered(chat("Hello", "Hi", "Bye", system=system, tools=tools))
    said = [text for text in (system, "Hello", "Hi", "Bye") if text]
    assert len(one.begins) == len(said) + 1 and one.begins == sorted(one.begins)
    for number, text in enumerate(said):
        piece = one.text[one.begins[number] : one.begins[number + 1]]
        assert text in piece and piece.endswith("<|im_end|>\n")
        assert one.place(one.text.index(text)).message == number


def test_tools_are_rendered_in_the_first_message():
    with_system, without = (rendered(chat("Hello", system=system, tools=TOOLS)).text for system in ("Kind.", ""))
    lines = "".join(f"\n{json.dumps(tool)}" for tool in TOOLS)
    assert with_system.startswith(f"<|im_start|>system\nKind.{lines}<|im_end|>\n<|im_start|>user\nHello")
    assert without.startswith(f"<|im_start|>system\n{lines}<|im_end|>\n<|im_start|>user\nHello")


def test_every_character_has_its_place_in_the_body():
    one = rendered(chat("Hello", {"role": "assistant", "content": "Hi", "reasoning_content": "think"}, tools=TOOLS[:1]))
    at = one.text.index("Hello")
    assert one.place(at + 3)[:2] == ("messages[1].content", 3) and one.place(at + 5)[:2] == ("messages[1].content", 5)
    assert one.place(one.text.index("think\n</think>"))[:2] == ("messages[2].reasoning_content", 0)
    assert one.place(one.text.index("does read") + 5)[:2] == ("tools[0].function.description", 5)
    assert "<think>\nthink\n</think>\n\nHi" in one.text and one.place(0)[:2] == ("messages[0]", 0)


def test_characters_of_a_tool_are_those_of_its_value():
    tool = {"type": "function", "function": {"name": "a", "description": 'x"\n\\y é z'}}
    one = rendered(chat("Hello", tools=[tool]))
    said = tool["function"]["description"]
    for sign in "xyéz":
        assert one.place(one.text.index('x\\"') + json.dumps(said, ensure_ascii=False)[1:].index(sign))[:2] == (
            "tools[0].function.description", said.index(sign))  # fmt: skip


def test_a_raw_prompt_is_unchanged():
    one = rendered({"model": "m", "prompt": "Once upon"})
    assert (one.text, one.history) == ("Once upon", 9) and one.place(5)[:2] == ("prompt", 5)


def test_tool_calls_are_rendered_between_tags():
    call = {"function": {"name": "run", "arguments": '{"a": 1}'}}
    one = rendered(chat("Go", {"role": "assistant", "content": "", "tool_calls": [call]}))
    assert '<tool_call>\n{"name": "run", "arguments": {"a": 1}}\n</tool_call><|im_end|>' in one.text


@pytest.mark.parametrize("value", [{"a": [1, "x\"é", None, True], "b": {}}, [], "x", 7, [[], {"c": [{}]}]])
def test_a_value_is_written_as_json_with_the_path_of_each_piece(value):
    assert "".join(text for _, text in json_pieces(value, "v")) == json.dumps(value, ensure_ascii=False)


def test_paths_lead_into_the_value():
    found = dict((text, path) for path, text in json_pieces({"a": [5, "x"], "b": {"c": "y"}}, "v"))
    assert (found["5"], found["x"], found["y"]) == ("v.a[0]", "v.a[1]", "v.b.c")
    assert canonical({"b": 1, "a": "é"}) == canonical({"a": "é", "b": 1}) == '{"a": "é", "b": 1}'


def test_a_place_belongs_to_the_part_that_contains_it():
    one = rendered(chat("Hello", system=""))
    assert [one.start(at) for at in (0, 16, 17, 18, 21, 22)] == [0, 0, 17, 17, 17, 22]
    assert one.starts == [0, 17, 22, 33] and one.text[17:22] == "Hello"
    assert one._replace(starts=[]).start(5) == 0 and one._replace(starts=[3, 9]).start(2) == 3


def test_an_answer_is_its_reasoning_its_text_and_its_calls():
    parts = BodyText(REASONING, "r", "hm"), BodyText(TEXT, "t", "Yes"), BodyText(CALL, "c", "go()")
    texts = [answer_text(BodyMessage("assistant", "m", parts[:size])) for size in (0, 1, 2, 3)]
    thought = "<think>\nhm\n</think>\n\n"
    assert texts == ["", thought, f"{thought}Yes", f"{thought}Yes<tool_call>\ngo()\n</tool_call>"]
