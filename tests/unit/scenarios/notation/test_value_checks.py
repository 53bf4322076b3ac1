"""Checks of single values: what is valid is returned, what is not is one line without a place."""

from __future__ import annotations

import pytest

from cachesim.base.errors import BadInput
from cachesim.scenarios.notation.value_checks import (
    file_name,
    integer,
    integers,
    items,
    literal,
    one_of,
    share,
    text,
    truth,
)

HIGH = 2_147_483_647


def refusal(check, *values):
    with pytest.raises(BadInput) as caught:
        check(*values)
    return str(caught.value)


def test_valid_values_are_returned():
    assert [integer("n", value, -1) for value in (-1, 0, HIGH)] == [-1, 0, HIGH]
    assert (truth("t", True), truth("t", False), text("s", ""), text("s", "a")) == (True, False, "", "a")
    assert (integers("l", []), integers("l", [0, HIGH])) == ((), (0, HIGH))
    assert (items("l", []), items("l", ["a", 1])) == ([], ["a", 1])
    assert (one_of("w", "b", ("a", "b")), file_name("a"), file_name("A_9" + "x" * 61)) == ("b", "a", "A_9" + "x" * 61)
    assert [share(value) for value in (0, 60, 100)] == [0, 60, 100]


@pytest.mark.parametrize(("value", "message"), [
    (0, "n is 0, it must be at least 1"), (HIGH + 1, "n is 2147483648, it must be at most 2147483647"),
    (True, "n must be an integer"), ("1", "n must be an integer"), (1.0, "n must be an integer"),
    (None, "n must be an integer"),
])  # fmt: skip
def test_an_integer_has_bounds(value, message):
    assert refusal(integer, "n", value, 1) == message


def test_long_names_and_values_are_cut():
    assert len(refusal(integer, "n" * 5000, "x", 0)) < 400 and len(refusal(integers, "n", ["x" * 5000])) < 400
    for check in (truth, text, items):
        assert len(refusal(check, "n" * 5000, None)) < 400


@pytest.mark.parametrize("value", [(1, 2), [1, -1], [HIGH + 1], [True], ["1"], [1.0], "12", None, {1: 2}])
def test_a_list_of_integers_has_only_such(value):
    assert refusal(integers, "l", value).startswith("l: ")
    assert refusal(integers, "l", value).endswith("is not a list of non-negative integers")


def test_a_value_of_another_kind_is_refused():
    assert [refusal(truth, "t", value) for value in (1, "true", None)] == ["t must be true or false"] * 3
    assert [refusal(text, "s", value) for value in (1, ["a"], None)] == ["s must be a string"] * 3
    assert [refusal(items, "l", value) for value in ("ab", (1,), {})] == ["l must be a list"] * 3


def test_an_unknown_word_has_the_nearest_choice_or_all():
    assert refusal(one_of, "task", "embeding", ("embedding", "infill")) == (
        "unknown task 'embeding' (did you mean 'embedding'?)")  # fmt: skip
    assert refusal(one_of, "task", "zzz", ("embedding", "infill")) == "unknown task 'zzz' (embedding, infill)"
    assert refusal(one_of, "task", 3, ("a",)) == "task must be a string"


@pytest.mark.parametrize("name", ["", "a" * 65, "a.b", "../a", "a b", "ä", "a\n"])
def test_a_slot_file_has_a_plain_name(name):
    assert refusal(file_name, name).endswith(": expected 1 to 64 letters, digits and underscores")


def test_a_share_is_at_most_the_whole():
    assert refusal(share, 101) == "percent is 101, it must be at most 100"
    assert refusal(share, -1) == "percent is -1, it must be at least 0"
    assert refusal(share, "60") == "percent must be an integer"


@pytest.mark.parametrize(("written", "value"), [
    ("true", True), ("True", True), ("false", False), ("False", False), ("TRUE", "TRUE"), ("12", 12), ("-3", -3),
    ("0.5", 0.5), (".5", 0.5), ("-.5", -0.5), ("5.", "5."), ("1e3", "1e3"), ("9" * 18, int("9" * 18)),
    ("9" * 19, float("9" * 19)), ("", ""), ("plain", "plain"), ("--1", "--1"), ("1\n", "1\n"),
])  # fmt: skip
def test_a_word_of_a_command_line_is_read_as_it_is_written(written, value):
    assert literal(written) == value and type(literal(written)) is type(value)
