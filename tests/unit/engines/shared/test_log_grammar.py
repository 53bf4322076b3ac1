"""Templates of log lines: whole lines, beginnings, parts between commas, and the values in them."""

from __future__ import annotations

import pytest

from cachesim.engines.shared.log_grammar import (
    LONGEST,
    Line,
    LogGrammar,
    collapsed,
    pattern,
    value,
)

LINES = (
    Line("load", "loaded the whole prompt, n_past = {n_past}, task {task}"),
    Line("erase", "erased an invalidated checkpoint, slot {slot}, {} old"),
    Line("count", "{slot} slots | total tokens evaluated: {n,} | seconds spent: {t}"),
    Line("other", "another message, n_past = {n_past}, task {task}"),
)
GRAMMAR = LogGrammar(LINES, tasks={"/embedding": "embedding"}, words=("a private note",))


@pytest.mark.parametrize(("word", "number"), [
    ("12", 12), ("-12", -12), ("1,234", 1234), ("1,234,567", 1234567), ("1,23", "1,23"), ("0.5", 0.5), ("2e3", 2000.0),
    ("1.5E-2", 0.015), ("yes", True), ("No", False), ("TRUE", True), ("false", False), ("x12", "x12"), ("-", "-"),
    ("9" * 18, 10**18 - 1), ("9" * 19, "9" * 19), ("a" * 50, "a" * LONGEST),
    ("1,234,567,890,123,456", 1234567890123456), ("1,234,567,890,123,456,789", "1,234,567,890,123,456,789"),
])  # fmt: skip
def test_a_word_is_a_number_if_it_is_written_like_one(word, number):
    found = value(word)
    assert found == number and type(found) is type(number)


def test_a_whole_line_gives_its_numbers_and_the_words_as_printed():
    found = GRAMMAR.read("Loaded  the whole prompt, n_past =  007, task 5")
    assert (found.line.ev, found.slot, found.task) == ("load", None, 5)
    assert (found.numbers, found.words) == ({"n_past": 7}, {"n_past": "007", "task": "5"})


def test_the_prefix_gives_slot_and_task_unless_the_message_has_its_own():
    found = GRAMMAR.read("erased an invalidated checkpoint, slot 3, 5 s old", slot=1, task=9)
    assert (found.line.ev, found.slot, found.task, found.numbers) == ("erase", 3, 9, {})
    assert GRAMMAR.read("another message, n_past = 1, task -1", slot=-1).task is None
    assert GRAMMAR.read("another message, n_past = 1, task -1", slot=-1).slot is None
    assert GRAMMAR.read("another message, n_past = 1, task 0", slot=0)[1:3] == (0, 0)


def test_a_number_may_have_separators_of_thousands_where_the_template_says_so():
    found = GRAMMAR.read("4 slots | total tokens evaluated: 12,345 | seconds spent: 0.5")
    assert (found.line.ev, found.slot, found.numbers) == ("count", 4, {"n": 12345, "t": 0.5})
    assert GRAMMAR.read("another message, n_past = 1,234, task 2") is None
    assert GRAMMAR.read("4 slots | total tokens evaluated: 12 | seconds") is None


def test_a_value_is_cut_to_its_longest_length():
    found = GRAMMAR.read(f"another message, n_past = {'x' * 50}, task 2")
    assert found.numbers["n_past"] == found.words["n_past"] == "x" * LONGEST


def test_a_grammar_of_messages_that_all_begin_with_words_reads_them():
    grammar = LogGrammar((Line("load", "loaded {n} tokens"),))
    assert grammar.read("loaded 3 tokens").numbers == {"n": 3}
    assert grammar.read("3 tokens were loaded") is grammar.read("stored 3 tokens") is None


@pytest.mark.parametrize(("text", "kind"), [
    ("srv  request: POST /embedding 127.0.0.1 200", "embedding"),
    ("request: POST /embedding?x=1 1.1.1.1 200", "embedding"),
    ("request: POST /embedding 127.0.0.1 500", ""), ("request: GET /embedding 127.0.0.1 200", ""),
    ("request: POST /completion 127.0.0.1 200", ""), ("nothing of the kind", ""),
])  # fmt: skip
def test_the_access_line_of_an_answered_request_names_its_task(text, kind):
    assert GRAMMAR.task_of(text) == kind


def test_a_text_begins_like_a_message_if_five_characters_agree():
    assert GRAMMAR.begins("ERASED nothing") and GRAMMAR.begins("  erase   x")
    assert not GRAMMAR.begins("erasing nothing") and not GRAMMAR.begins("4 slots | total")


def test_fixed_words_show_where_messages_begin_after_the_start():
    text = "another message, Another  message, n_past = 1 A PRIVATE NOTE"
    assert [*GRAMMAR.beginnings(text)] == [17, 46]
    assert [*LogGrammar().beginnings(text)] == []


@pytest.mark.parametrize(("text", "events"), [
    ("loaded the whole", ["load"]), ("LOADED  the", ["load"]), ("loaded", []), ("loaded t", ["load"]),
    ("loaded the whole prompt, n_past = 12", ["load"]), ("loaded the whole prompt, n_past = 12, ta", ["load"]),
    ("loaded the whole prompt, n_past = 12, x", []), ("loaded the hole prompt", []),
    ("erased an invalidated checkpoint, slot 3, any text", []),
    ("erased an invalidated checkpoint, slot 3, any text old", ["erase"]),
    ("another message, n_past = 1, task", ["other"]),
])  # fmt: skip
def test_a_cut_line_is_known_by_its_beginning(text, events):
    assert [line.ev for line in GRAMMAR.begun(text)] == events


def test_a_part_between_commas_is_known_if_it_belongs_to_one_kind_of_line():
    found = GRAMMAR.part(" loaded the whole prompt, n_past = 12,")
    assert (found.line.ev, found.slot, found.task, found.numbers) == ("load", None, None, {"n_past": 12})
    found = GRAMMAR.part("Erased an invalidated checkpoint, slot 3.")
    assert (found.line.ev, found.slot, found.numbers) == ("erase", 3, {})
    assert GRAMMAR.part("4 slots | total tokens evaluated: 1,234").numbers == {"n": 1234}
    twice = LogGrammar((Line("a", "evaluated the tokens, {n}"), Line("b", "evaluated the tokens, {n} times")))
    assert twice.part("evaluated the tokens") is None
    assert GRAMMAR.part("n_past = 12") is None


def test_a_template_matches_any_case_and_stops_a_word_at_a_comma():
    assert collapsed("  a \t b\n") == "a b"
    assert pattern("keeps {n}").fullmatch("KEEPS  12")["n"] == "12"
    assert pattern("keeps {n}, or").fullmatch("keeps 12, or")["n"] == "12"
    assert pattern("keeps {n}").fullmatch("keeps 1 2") is None
    assert pattern("keeps {} (all)").fullmatch("keeps 1 of 2 (all)")


def test_a_template_that_begins_with_a_value_is_tried_for_every_text():
    grammar = LogGrammar((Line("load", "loaded {n} tokens"), Line("count", "{n} slots"), Line("share", "of {n} slots")))
    assert [grammar.read(text).line.ev for text in ("loaded 3 tokens", "4 slots", "of 5 slots")] == [
        "load", "count", "share"]  # fmt: skip
    assert grammar.read("no slots at all") is None
