"""Tests of error messages: a single short line, values cut at 80 characters."""

from __future__ import annotations

import pytest

from cachesim.base.errors import (
    BadInput,
    ProcessAborted,
    Terminated,
    Unfinished,
    Unwritable,
    cut,
    error_data,
    first_of,
    nearest,
    public,
    quoted,
    stdout_errors,
    unfinished,
)


@pytest.mark.parametrize(("text", "shown"), [
    ("", ""), ("a" * 80, "a" * 80), ("a" * 40 + "b" * 41, "a" * 39 + "..." + "b" * 38),
    ("a\nb\x1b[1m", "a\\nb\\x1b[1m"),
    ("\udc80", "\\udc80"), ("·…é", "·…é"),
], ids=["empty", "80", "81", "control", "surrogate", "letters"])  # fmt: skip
def test_cut(text, shown):
    assert cut(text) == shown


@pytest.mark.parametrize(("value", "shown"), [
    ("a'b", '"a\'b"'), (True, "True"), (None, "None"), ([1, "x"], "[1, 'x']"), (10**30, str(10**30)),
    (1 << 20_000, "an integer of 20001 bits"), ([1 << 20_000], "a list"), (float("nan"), "nan"),
    ("a" * 78, f"'{'a' * 78}'"), ("a" * 40 + "b" * 39, f"'{'a' * 38}...{'b' * 37}'"),
], ids=["quote", "bool", "none", "list", "int", "huge", "huge inside", "nan", "78", "79"])  # fmt: skip
def test_quoted(value, shown):
    assert quoted(value) == shown


@pytest.mark.parametrize("value", ["x" * 100_000, ["y" * 10**5] * 100, {"k" * 1000: 1}, list(range(10**6)), b"z" * 999],
                         ids=["text", "list", "dict", "long list", "bytes"])  # fmt: skip
def test_a_long_value_is_short(value):
    assert len(quoted(value)) <= 80


def test_an_error_has_its_line_as_its_argument():
    assert BadInput("no such file", file="a.toml", line=3).args == ("a.toml:3: no such file",)


def test_a_message_is_one_line_whatever_is_in_it():
    line = str(BadInput("x" * 10_000, file="/a\n" + "y" * 10_000, line=3, hint="z" * 10_000))
    assert len(line) < 1_100 and "\n" not in line


@pytest.mark.parametrize(("names", "shown"), [
    ([], ""), (["a", "b"], "a, b"), (["ab", "cd"], "ab, cd"), (["ab", "cde"], "ab and 1 more"),
    (["abc", "def", "ghi"], "abc and 2 more"), (["x" * 30, "y"], "xxx...xx and 1 more"),
])  # fmt: skip
def test_whole_names_and_the_number_of_the_others(names, shown):
    assert first_of(names, 8) == shown


def test_nearest_of_a_very_long_word_is_nothing():
    assert nearest("a" * 100_000, ["a"]) == nearest("a" * 81, ["a" * 80]) == ""
    assert nearest("a" * 80, ["b", "a" * 79]) == f"did you mean '{'a' * 79}'?"


def test_an_error_as_data_has_its_place_and_cause():
    assert error_data("input", 2, BadInput("no such word", file="a.toml", line=3, hint="try b"))["error"] == {
        "kind": "input", "code": 2, "message": "no such word", "file": "a.toml", "line": 3, "hint": "try b",
    }  # fmt: skip
    assert error_data("input", 2, BadInput("no"))["error"] == {
        "kind": "input", "code": 2, "message": "no", "file": None, "line": None, "hint": None,
    }  # fmt: skip
    assert error_data("crash", 3, ZeroDivisionError())["error"]["message"] == "ZeroDivisionError"
    assert error_data("crash", 3, ZeroDivisionError("by 0"))["error"]["message"] == "by 0"


@pytest.mark.parametrize(("raised", "number"), [(KeyboardInterrupt(), None), (Terminated(15), 15)])
def test_an_interrupt_says_what_it_left_unfinished(raised, number):
    with pytest.raises(Unfinished) as error, unfinished("the search was not finished"):
        raise raised
    assert (str(error.value), error.value.number) == ("the search was not finished", number)


def test_errors_pass_a_block_that_may_be_unfinished():
    with pytest.raises(BadInput, match="not a log"), unfinished("the search was not finished"):
        raise BadInput("not a log")


def test_a_place_is_filled_in_where_it_is_missing():
    assert str(BadInput("bad", hint="good").at("a.toml", 3)) == "a.toml:3: bad (good)"
    assert str(BadInput("bad", file="b.toml", line=7).at("a.toml", 3)) == "b.toml:7: bad"
    assert str(BadInput("bad").at("a.toml")) == "a.toml: bad"


def test_the_traceback_of_bad_input_ends_at_the_call_of_a_public_function():
    @public
    def refuse(number: int) -> int:
        if number:
            raise BadInput("no number")
        return 7

    assert refuse(0) == 7 and refuse.__name__ == "refuse"
    with pytest.raises(BadInput) as bad:
        refuse(number=1)
    assert [entry.name for entry in bad.traceback][1:] == ["called"] and bad.value.__suppress_context__


@pytest.mark.parametrize(("raised", "text"), [
    (OSError(28, "No space left on device"), "standard output cannot be written: no space left on device"),
    (OSError("It Broke"), "standard output cannot be written: it broke"),
])  # fmt: skip
def test_output_that_cannot_be_written_is_one_line(raised, text):
    with pytest.raises(Unwritable) as bad, stdout_errors():
        raise raised
    assert str(bad.value) == text
    with pytest.raises(BrokenPipeError), stdout_errors():
        raise BrokenPipeError


def test_the_end_of_a_simulated_process_has_its_kind_and_numbers():
    end = ProcessAborted("no room for 3", "no-room", n=3)
    assert (str(end), end.kind, end.numbers) == ("no room for 3", "no-room", {"n": 3})
    assert (Terminated(15).number, Terminated(15).args) == (15, (15,)) and isinstance(Terminated(15), KeyboardInterrupt)
