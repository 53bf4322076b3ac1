"""Request fields in braces: values from lines and from files, those that engines declare, and their text."""

from __future__ import annotations

import pytest

from cachesim.base.errors import BadInput
from cachesim.scenarios.notation.flags import FLAGS, check_after, check_flag, declared_fields, given, parse_value
from cachesim.scenarios.notation.tree import PLAIN


def refusal(check, *values):
    with pytest.raises(BadInput) as caught:
        check(*values)
    return str(caught.value)


@pytest.mark.parametrize(("text", "value"), [
    ("True", True), ("False", False), ("true", "true"), ("7", 7), ("-1", -1), ("9" * 10, int("9" * 10)),
    ("9" * 11, "9" * 11), ("", ""), ("1.5", "1.5"),
])  # fmt: skip
def test_a_value_is_an_integer_a_truth_value_or_a_text(text, value):
    assert parse_value(text) == value and type(parse_value(text)) is type(value)


@pytest.mark.parametrize(("name", "text", "value"), [
    ("task", "infill", "infill"), ("n_keep", "-1", -1), ("n_discard", "0", 0), ("n_cache_reuse", "8", 8),
    ("n_cmpl", "2", 2), ("cancel_after", "0", 0), ("draft_else", "3", 3), ("seed", "True", True),
    ("drafts", "3:1,2:2,4:0", ((3, 1), (2, 2), (4, 0))), ("together", "True", True), ("after", "2", 2),
])  # fmt: skip
def test_a_field_is_read_checked_and_written(name, text, value):
    found = check_flag(name, FLAGS[name].read(text))
    assert found == value and FLAGS[name].write(found) == text


@pytest.mark.parametrize(("name", "value", "message"), [
    ("n_keep", -2, "n_keep is -2, it must be at least -1"),
    ("after", -1, "after is -1, it must be at least 0"), ("n_cmpl", -1, "n_cmpl is -1, it must be at least 0"),
    ("n_cache_reuse", -1, "n_cache_reuse is -1, it must be at least 0"), ("cancel_after", -1, "at least 0"),
    ("draft_else", -1, "at least 0"), ("seed", 1, "seed must be true or false"),
    ("together", "yes", "together must be true or false"), ("task", "chat", "unknown task 'chat'"),
    ("drafts", "3:1", "drafts must be a list"), ("drafts", [[1, -1]], "is not a list of non-negative integers"),
    ("drafts", [[2, 3]], "drafts: [2, 3] must be [drafted, accepted] with accepted <= drafted"),
    ("drafts", [[2]], "must be [drafted, accepted]"), ("drafts", [[2, 1], [3, 2, 1]], "must be [drafted, accepted]"),
    ("n_kep", 1, "unknown key 'n_kep' (did you mean 'n_keep'?)"),
    ("answer", [], "unknown key 'answer' (did you mean 'answers'?)"),
])  # fmt: skip
def test_an_invalid_value_is_one_line(name, value, message):
    assert message in refusal(check_flag, name, value)


def test_a_draft_may_be_accepted_whole_or_not_at_all():
    assert check_flag("drafts", [[2, 2], [1, 0], [0, 0]]) == ((2, 2), (1, 0), (0, 0)) and check_flag("drafts", []) == ()


def test_fields_that_an_engine_declares_are_checked_by_it():
    assert "priority" in declared_fields() and not set(FLAGS) & set(declared_fields())
    assert check_flag("priority", 3) == 3
    assert refusal(check_flag, "priority", "x") and refusal(check_flag, "prioriti", 3) == (
        "unknown key 'prioriti' (did you mean 'priority'?)")  # fmt: skip


def test_rounds_are_counted_only_between_requests_sent_together():
    for flags in ({}, {"together": True}, {"after": 0}, {"after": 2, "together": True}):
        check_after(flags)
    assert refusal(check_after, {"after": 1}) == (
        "after counts from the previous request, so it needs together = true")  # fmt: skip
    assert refusal(check_after, {"after": 1, "together": False})


def test_fields_with_other_values_than_the_default_are_given_in_the_order_of_their_names():
    step = PLAIN._replace(n_cmpl=2, n_keep=0, seed=True, id_slot=1, extra=(("priority", 3), ("b", "x")))
    assert list(given(step)) == [("n_cmpl", 2), ("seed", True), ("priority", 3), ("b", "x")]
    assert list(given(step, ("seed", "id_slot", "n_cmpl"))) == [
        ("seed", True), ("id_slot", 1), ("n_cmpl", 2), ("priority", 3), ("b", "x")]  # fmt: skip
    assert list(given(PLAIN)) == []
