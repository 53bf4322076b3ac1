"""Fields of messages beside their text."""

from __future__ import annotations

import json

from cachesim.tools.request_bodies.api_forms import bodies_of
from cachesim.tools.request_bodies.body_files import FoundBody
from cachesim.tools.request_bodies.message_fields import CHANGES, MOST, block_fields, changed_fields, fields_text
from tests.unit.tools.request_bodies.made import chat


def said(text, **fields):
    return {"role": "user", "content": text, **fields}


def names(*bodies):
    a, b = bodies_of([FoundBody("x", one) for one in bodies])
    return [one["name"] for one in changed_fields(a, b)]


def test_fields_of_a_message_its_blocks_and_its_calls_are_kept():
    message = said([{"type": "text", "text": "Hi", "cache_control": {"type": "ephemeral"}}], name="ada", refusal=None,
                   tool_calls=[{"id": "call_1", "function": {"name": "f", "arguments": "{}"}}])  # fmt: skip
    assert json.loads(fields_text(message)) == {
        "name": '"ada"', "content[0].cache_control": '{"type": "ephemeral"}', "tool_calls[0].id": '"call_1"'}
    assert fields_text(said("Hi")) == ""


def test_long_values_and_many_fields_are_shortened_and_still_differ():
    long = [said("Hi", note="x" * 500 + end) for end in "ab"]
    assert max(map(len, map(fields_text, long))) < 100 and fields_text(long[0]) != fields_text(long[1])
    many = [said("Hi", **{f"f{number}": number for number in range(MOST + 9)}, last=end) for end in "ab"]
    assert len(json.loads(fields_text(many[0]))) == MOST + 1 and fields_text(many[0]) != fields_text(many[1])
    other = {**many[0], "f0": "changed"}
    differing = [name for name, value in json.loads(fields_text(other)).items()
                 if json.loads(fields_text(many[0]))[name] != value]  # fmt: skip
    assert differing == ["f0"]                           # and not "...", which stands for the further fields


def test_messages_are_compared_with_their_own_earlier_form_wherever_they_are():
    old = chat(said("Read the file."), "It reads.", said("Sort the names.", name="ada"))
    new = chat(said("Sort the names.", name="bob"), "They are sorted.", said("Thanks.", name="eve"))
    assert names(old, new) == ["messages[1].name"]
    assert names(old, old) == [] and names(chat(said("Hi")), chat(said("Hi"), "Yes?", said("So.", name="x"))) == []


def test_the_number_of_changes_is_bounded():
    bodies = [chat(*(said(f"Question {number}", name=name) for number in range(CHANGES + 5))) for name in "ab"]
    assert len(names(*bodies)) == CHANGES


def test_messages_of_equal_text_are_compared_in_their_order_and_each_once():
    once, twice = chat(said("Hi", name="a")), chat(said("Hi", name="b"), said("Hi", name="c"))
    assert names(once, twice) == ["messages[1].name"]
    assert names(twice, chat(said("Hi", name="b"), said("Hi", name="d"))) == ["messages[2].name"]
    assert names(chat(said("Hi", name="a"), said("Go")), chat(said("Go"), said("Hi", name="b"))) == ["messages[2].name"]


def test_a_message_of_changed_text_is_compared_with_that_of_its_number_and_role():
    assert names(chat(said("Hi", name="a")), chat(said("Hello", name="b"))) == ["messages[1].name"]
    assert names(chat(said("Hi", name="a")), chat({**said("Hello", name="b"), "role": "tool"})) == []


def test_the_fields_of_a_block_are_those_that_are_not_its_text():
    assert block_fields({"type": "text", "text": "a", "id": "\u00e9", "title": None}) == (
        '{"id": "\\"\u00e9\\"", "title": "null"}')  # fmt: skip
    assert block_fields({"type": "text", "text": "a"}) == ""


def test_names_and_values_have_at_most_64_characters():
    assert json.loads(fields_text(said("Hi", **{"k" * 65: "x" * 62}))) == {"k" * 64: f'"{"x" * 62}"'}
    [value] = json.loads(fields_text(said("Hi", key="x" * 63))).values()
    assert value.startswith('"' + "x" * 31 + "... ") and len(value) == 32 + 4 + 16
