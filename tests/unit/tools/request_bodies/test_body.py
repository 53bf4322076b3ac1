"""Request bodies: differences of texts and of parameters, and values that clients choose."""

from __future__ import annotations

import pytest

from cachesim.tools.request_bodies.body import (
    AFTER,
    BEFORE,
    CALL,
    FIRST_TOKEN,
    REASONING,
    SHOWN,
    TEXT,
    TOKENS,
    Body,
    BodyMessage,
    BodyText,
    changed,
    common_bytes,
    common_suffix,
    encoded,
    evidence,
    field_change,
    token_character,
)


@pytest.mark.parametrize("a, b, characters, size", [
    ("abc", "abd", 2, 2), ("aé", "aè", 1, 2), ("aé", "ab", 1, 1), ("é", "é", 1, 2), ("a", "ab", 1, 1), ("", "x", 0, 0),
])  # fmt: skip
def test_bytes_in_common_may_end_within_a_character(a, b, characters, size):
    assert common_bytes(a, b, characters) == size


def test_a_lone_surrogate_has_three_bytes():
    assert len(encoded("\ud800")) == 3


@pytest.mark.parametrize("a, b, most, size", [
    ("xabc", "yabc", 9, 3), ("xabc", "yabc", 2, 2), ("abc", "abc", 9, 3), ("abc", "", 9, 0), ("abc", "abd", 9, 0),
    ("abc", "abc", 0, 0), ("xabc", "bc", 9, 2), ("bc", "xabc", 9, 2),
    ("xxabc", "abc", 5, 3), ("abc", "xxabc", 5, 3), ("xxxxabcd", "abcd", 6, 4),
])  # fmt: skip
def test_a_common_suffix_is_limited(a, b, most, size):
    assert common_suffix(a, b, most) == size


def test_evidence_is_the_text_around_the_first_difference():
    same = "0123456789" * 3
    found = evidence(same + "a" * 99, same + "b", 30)
    assert found == (same[30 - BEFORE :], "a" * AFTER, "b") and evidence("xa", "xb", 1) == ("x", "a", "b")


@pytest.mark.parametrize("name, matters", [
    ("temperature", "no"), ("cache_prompt", "yes"), ("id_slot", "yes"), ("reasoning_effort", "perhaps"),
])  # fmt: skip
def test_a_field_that_differs_is_named_with_both_values(name, matters):
    [one] = changed({name: 1, "top_p": 0.5}, {name: "a", "top_p": 0.5})
    assert one == {"name": name, "value_before": "1", "value_after": '"a"', "matters": matters}


def test_a_missing_field_differs():
    assert changed({"a": 1}, {"b": True}) == [
        {"name": "a", "value_before": "1", "value_after": "", "matters": "unknown"},
        {"name": "b", "value_before": "", "value_after": "true", "matters": "unknown"}]  # fmt: skip


def test_bookkeeping_fields_are_ignored():
    assert changed({"user": "a", "stream": True, "metadata": {}}, {"user": "b", "stream": False}) == []


def test_long_names_and_values_are_truncated():
    [one] = changed({"n" * 99: "v" * (SHOWN - 2)}, {"n" * 99: "v" * (SHOWN - 1)})
    assert one["name"] == "n" * SHOWN and one["value_before"] == f'"{"v" * (SHOWN - 2)}"'
    assert one["value_after"] == f'"{"v" * (SHOWN - 4)}...' and len(one["value_after"]) == SHOWN
    assert [value["value_after"] for value in changed({}, {"a": [1], "b": {"c": 1}})] == ["list", "dict"]


def change(name, before, after, matters="perhaps"):
    return {"name": name, "value_before": before, "value_after": after, "matters": matters}


def test_entries_of_a_nested_parameter_are_compared_one_by_one():
    name = "chat_template_kwargs"
    a, b = {name: {"a": 1, "b": [2], "c": 3}}, {name: {"b": [2, 4], "c": 3, "d": "x"}}
    assert changed(a, b) == [change(f"{name}.a", "1", ""), change(f"{name}.b", "[2]", "[2, 4]"),
                             change(f"{name}.d", "", '"x"')]  # fmt: skip
    assert changed({}, {"thinking": {"a": 1}}) == [change("thinking.a", "", "1")]
    assert changed({"thinking": {"a": 1}}, {}) == [change("thinking.a", "1", "")]


def test_a_nested_parameter_without_a_different_entry_or_of_another_type_is_one_field():
    assert changed({"thinking": {}}, {}) == [change("thinking", "{}", "{}")]
    assert changed({"thinking": {"a": 1}}, {"thinking": True}) == [change("thinking", '{"a": 1}', "true")]
    assert changed({"thinking": 1}, {"thinking": 2}) == [change("thinking", "1", "2")]
    assert changed({"text": {"a": 1}}, {"text": {"a": 2}}) == [change("text", '{"a": 1}', '{"a": 2}')]
    assert changed({"stop": {"a": 1}}, {"stop": ["é"]}) == [change("stop", "dict", "list", "no")]
    assert changed({"stop": "é"}, {"stop": 0.5}) == [change("stop", '"é"', "0.5", "no")]


def test_a_changed_field_is_cut_to_its_length():
    exact, longer = "v" * SHOWN, "v" * (SHOWN + 1)
    assert field_change("n", exact, longer, "no") == change("n", exact, f"{'v' * (SHOWN - 3)}...", "no")


@pytest.mark.parametrize(("value", "character"), [
    (0, chr(FIRST_TOKEN)), (0x10FFFF - FIRST_TOKEN, chr(0x10FFFF)), (0x10FFFF - FIRST_TOKEN + 1, ""), (-1, ""),
    (True, ""), (1.0, ""), ("1", ""), (None, ""),
])  # fmt: skip
def test_a_token_of_a_client_is_a_character(value, character):
    assert token_character(value) == character


@pytest.mark.parametrize(("lora", "scales"), [
    ([{"id": 1_000_000, "scale": 1_000_000}], {1_000_000: 1e6}), ([{"id": 1_000_001, "scale": 1}], {}),
    ([{"id": 0, "scale": -1_000_000}], {0: -1e6}), ([{"id": 0, "scale": 1_000_001}], {0: 0.0}),
    ([{"id": 0.5, "scale": 1}], {}), ([{"id": 2.0, "scale": 1}, {"id": 2, "scale": 3}], {2: 3.0}),
])  # fmt: skip
def test_ids_and_scales_of_adapters_are_bounded(lora, scales):
    assert Body("", parameters={"lora": lora}).adapters == scales


def test_a_message_is_an_instruction_by_its_role_and_its_text_leaves_kinds_out():
    parts = BodyText(REASONING, "r", "hm "), BodyText(TEXT, "t", "Yes"), BodyText(CALL, "c", "go()")
    message = BodyMessage("assistant", "m", parts)
    assert [message.text_without(), message.text_without(REASONING), message.text_without(TEXT, CALL)] == [
        "hm Yesgo()", "Yesgo()", "hm "]  # fmt: skip
    roles = ("system", "developer", "user", "tool", "")
    assert [BodyMessage(role, "m", ()).is_system for role in roles] == [True, True, False, False, False]


def test_a_prompt_is_raw_without_a_chat_and_of_tokens_with_a_part_of_tokens():
    tokens = [BodyMessage("user", "m", (BodyText(TEXT, "t", "a"), BodyText(TOKENS, "t", "b")))]
    text = [BodyMessage("user", "m", (BodyText(TEXT, "t", "a"),))]
    raw, listed, chat = Body("", messages=text), Body("", messages=tokens), Body("", messages=text, chat=[])
    assert [body.is_raw for body in (raw, listed, chat)] == [True, True, False]
    assert [body.of_tokens for body in (raw, listed, chat)] == [False, True, False]
