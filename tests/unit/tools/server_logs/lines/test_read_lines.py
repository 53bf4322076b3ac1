"""A recognised line with its numbers, and the words that all lines of a log share."""

from __future__ import annotations

import pytest

from cachesim.engines.shared.log_grammar import Line, ParsedLine
from cachesim.tools.server_logs.lines.read_lines import LineSieve, ReadLine, head_of


def line(**numbers):
    return ReadLine(4, ParsedLine(Line("batch", "x"), 3, 7, numbers), "text")


def test_a_line_has_kind_slot_and_task():
    assert (line().kind, line().slot, line().task) == ("batch", 3, 7)


@pytest.mark.parametrize(("value", "count"), [
    (0, 0), (1, 1), ((1 << 31) - 1, (1 << 31) - 1), (1 << 31, None), (-1, None), (True, None), (2.0, None),
    ("2", None),
])  # fmt: skip
def test_a_count_is_a_whole_number_from_0_to_2_to_the_31(value, count):
    assert line(p0=value).number_of("p0") == count
    assert line(p0=value).number_of("n_past", "p0") == count
    assert line(n_past=5, p0=value).number_of("n_past", "p0") == 5
    assert line(p0=value, n_past=5).number_of("p0", "n_past") == (5 if count is None else count)


def test_a_number_is_removed_from_a_copy():
    whole = line(p0=5, n_past=6)
    assert whole.without("p0") == line(n_past=6) and whole.without("end") == whole == line(p0=5, n_past=6)


@pytest.mark.parametrize(("raw", "text", "head"), [
    ("0.01 I slot f: text", "text", "0.01 I slot f:"), ("text", "text", ""), ("other", "text", ""), ("other", "", ""),
    ("x" * 130 + "text", "text", "x" * 120), ("\x1b[32mI text", "text", "I"), ("atext", "text", "a"),
])  # fmt: skip
def test_the_head_of_a_line_is_its_text_before_the_message(raw, text, head):
    assert head_of(raw, text) == head


def sieve(*lines):
    made = LineSieve()
    for text in lines:
        made.add(text)
    return made


@pytest.mark.parametrize(("lines", "text", "hides"), [
    ((), "any", True), (("",), "any", True), (("slot 0",), "slot 0", False), (("slot 0",), "slot 1", True),
    (("slot 0", "slot 1"), "slot 2", False), (("slot 0", " ", "slot 1"), "slot 2", False),
    (("slot 0", "slot 1", "task"), "other", False), (("Slot 0",), "sLOT 0", False), (("ab",), "x", False),
    (("abc",), "abc", False), (("abc",), "ab", True), (("abc", "xabc"), "ABCD", False),
    (("a" * 4_000 + "bcd",), "a" * 9, False), (("abc", "x" * 3_997 + "abc"), "x", True),
    (("abc", "x" * 3_998 + "abc"), "x", False),
])  # fmt: skip
def test_a_search_hides_a_line_without_a_word_that_all_others_share(lines, text, hides):
    assert sieve(*lines).hides([text]) is hides


def test_a_search_hides_a_line_if_one_of_its_texts_lacks_the_word():
    one = sieve("slot 0", "slot 1")
    assert one.hides(["slot 2", "task 2"]) and not one.hides(["slot 2", "slot 3"]) and not one.hides([])
