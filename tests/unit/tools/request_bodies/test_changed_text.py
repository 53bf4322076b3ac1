"""Kinds of the text at the first difference of two prompts."""

from __future__ import annotations

import pytest

from cachesim.base.tokens import common_prefix
from cachesim.tools.request_bodies.changed_text import (
    AROUND,
    BILLING,
    CONTEXT,
    COUNTER,
    DATE,
    ID,
    LISTING,
    differs_in_space_only,
    kind_of_change,
)


def kind(a, b, begin=0):
    """Return the kind of change at the first difference of two texts."""
    return kind_of_change(a, b, common_prefix(tuple(a), tuple(b)), begin)


@pytest.mark.parametrize(("a", "b"), [
    ("today is 2026-11-02.", "today is 2026-11-03."), ("at 2026-11-02T10:00:01Z", "at 2026-11-02T10:00:09Z"),
    ("at 2026-11-02 10:00:01,5", "at 2026-11-02 10:00:01,7"), ("on 11/2/2026", "on 11/3/2026"),
    ("on 2.11.2026", "on 3.11.2026"), ("on 2026/11/2.", "on 2026/11/3."), ("on 11/2/26", "on 11/3/26"),
    ("it is 9:05 AM", "it is 9:05 PM"), ("it is 10:01", "it is 10:02"),
    ("on November 2nd, 2026", "on November 3rd, 2026"), ("on 2nd November", "on 3rd November"),
    ("on 2. Nov 2026", "on 3. Nov 2026"), ("2026年11月2日", "2026年11月3日"), ("on Monday", "on Tuesday"),
    ("since 1764064800", "since 1764064801"), ("since 1764064800123", "since 1764064800999"),
])  # fmt: skip
def test_dates_and_times(a, b):
    assert kind(a, b) == DATE


@pytest.mark.parametrize(("a", "b"), [
    ("of 3f2504e0-4f89-41d3-9a0c-0305e82c3301", "of 3f2504e0-4f89-41d3-9a0c-0305e82c3302"),
    ("call_abc4", "call_abc5"), ("session: req-abcde1", "session: req-abcde2"), ("nonce = xyz", "nonce = xyw"),
    ("sessionId: a", "sessionId: b"), ("id 1a", "id 1b"), ("the hash 3fa9", "the hash 3fb9"),
    ("token='a'", "token='b'"), ("random: a", "random: b"),
    ("my_id: a", "my_id: b"), ("cache_bust: q1", "cache_bust: q2"), ("Seed 7", "Seed 8"), ("at 3fa9c", "at 3fa9d"),
    ("tmp-build-7a-x", "tmp-build-7a-y"), ("no 12345678", "no 12345679"),
])  # fmt: skip
def test_names_of_requests_and_random_words(a, b):
    assert kind(a, b) == ID


@pytest.mark.parametrize(("a", "b"), [
    ("she said yes", "she said no"), ("did it run", "did we run"), ("a grid-layout", "a grid-column"),
    ("user-friendly", "user-facing"), ("thread-safe", "thread-local"), ("random words", "random texts"),
    ("random 5", "random 6"), ("the seed grows", "the seed falls"), ("paid: yes", "paid: no"),
    ("a valid one", "a valid two"), ("she said yes on 2026-11-02", "she said no on 2026-11-03"),
    ("version 1.2.3", "version 1.2.4"), ("at 10.0.0.15", "at 10.0.0.16"), ("version 0.33.10", "version 0.33.11"),
    ("section 1.2.3.2024", "section 1.2.3.2025"), ("the files in it are old", "the files in it are new"),
])  # fmt: skip
def test_words_and_versions_are_neither_dates_nor_ids_nor_listings(a, b):
    assert kind(a, b) == ""


@pytest.mark.parametrize(("a", "b", "found"), [
    ("12 tokens used", "13 tokens used", COUNTER), ("cost: $1", "cost: $2", COUNTER), ("step 3", "step 4", COUNTER),
    ("75% of the context", "76% of the context", COUNTER), ("1,200k remaining", "1,300k remaining", COUNTER),
    ("page 3", "page 4", ""), ("tokens\n3", "tokens\n4", ""),                       # another line
    ("tokens " + 60 * "-" + "3", "tokens " + 60 * "-" + "4", ""),
    ("3" + 31 * " " + "tokens", "4" + 31 * " " + "tokens", ""),
    ("used: a few", "used: a lot", ""),
])  # fmt: skip
def test_numbers_are_counters_beside_what_they_count(a, b, found):
    assert kind(a, b) == found


@pytest.mark.parametrize(("a", "b", "found"), [
    ("x-anthropic-billing-header: cc=1;", "x-anthropic-billing-header: cc=2;", BILLING),
    ("a; cch=3fa9c", "a; cch=3fb9c", BILLING), ("x-anthropic-: a\n2026-11-02", "x-anthropic-: a\n2026-11-03", DATE),
    ("cch=3fa9c then 10:01", "cch=3fa9c then 10:02", DATE),
])  # fmt: skip
def test_a_billing_header_ends_with_its_line(a, b, found):
    assert kind(a, b) == found


LISTED = "Files in the folder:\n"


@pytest.mark.parametrize(("a", "b", "begin", "found"), [
    (LISTED + "a.py", LISTED + "b.py", 0, LISTING), (LISTED + "a.py", LISTED + "b.py", 3, ""),
    ("git status: clean", "git status: dirty", 0, LISTING), ("<env> a", "<env> b", 0, LISTING),
    ("a: open tabs", "b: open tabs", 0, LISTING), ("hello a", "hello b", 0, ""),
    (LISTED + "-" * (CONTEXT - len(LISTED)) + "a", LISTED + "-" * (CONTEXT - len(LISTED)) + "b", 0, LISTING),
    (LISTED + "-" * CONTEXT + "a", LISTED + "-" * CONTEXT + "b", 0, ""),
])  # fmt: skip
def test_a_listing_has_a_heading_in_its_message(a, b, begin, found):
    assert kind(a, b, begin) == found


def test_a_date_comes_before_an_id_and_a_counter_before_a_listing():
    assert kind("id: 2026-11-02", "id: 2026-11-03") == DATE
    assert kind("git status: 3 tokens", "git status: 4 tokens") == COUNTER


@pytest.mark.parametrize(("a", "b", "found"), [
    ("2026-11-02 a", "2026-11-02 b", ""), ("on Monday", "on a day", ""), ("2026-11-02", "2026-11-02T10:00", DATE),
    ("2026-11-02 is today", "2026-11-02 was today", ""),
])  # fmt: skip
def test_both_texts_have_another_match_at_the_difference(a, b, found):
    assert kind(a, b) == found


def test_a_difference_far_from_the_beginning_is_read_with_the_characters_around_it():
    for before in (0, AROUND - 4, AROUND, AROUND + 1, 10 * AROUND):
        assert kind("x" * before + " 10:01", "x" * before + " 10:02") == DATE
    assert kind(f"of 7{' ' * AROUND}", f"of 8{' ' * AROUND}2026-11-02") == ""


@pytest.mark.parametrize(("a", "b", "differs"), [
    ("a b", "a  b", True), ("a b", "ab", True), ("a\n", "a", True), ("a b", "a b", False), ("a b", "a c", False),
    ("", " ", True), ("", "", False),
])  # fmt: skip
def test_texts_that_differ_in_space_only(a, b, differs):
    assert differs_in_space_only(a, b) is differs


def test_a_heading_may_be_the_beginning_of_the_text():
    assert kind_of_change("<env> one", "<env> two", 6) == kind_of_change("<env> one", "<env> two", 6, 0) == LISTING
    assert kind_of_change("<env> one", "<env> two", 6, 1) == ""
