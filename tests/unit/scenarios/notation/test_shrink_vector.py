"""Tests of the encoding of lines as integer vectors."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cachesim.scenarios.notation.canonical_text import spell
from cachesim.scenarios.notation.normalise import check_asked
from cachesim.scenarios.notation.parse import parse
from cachesim.scenarios.notation.shrink_vector import ShrinkCase, reduced, whole
from cachesim.scenarios.notation.tree import LineRequest
from cachesim.scenarios.notation.word_lengths import longest, normal
from tests.unit.scenarios.notation.lines import lines

FULL = "S9.|A5>r4!@1{n_keep=2 cancel_after=1}/u:S+a:b3>7{seed=True}/{save@0 f}/S{together+2}/{restore@0 f}"


@pytest.mark.long
@given(lines())
def test_everything_stays_where_nothing_is_taken_away(line):
    case = ShrinkCase(line, ("parallel", "ctx_size"))
    assert reduced(case, whole(case)) == case
    assert whole(case).like(whole(case).flat) == whole(case)


@pytest.mark.long
@given(lines(), st.data())
def test_less_is_never_longer(line, data):
    case = ShrinkCase(line, ("parallel",))
    row = whole(case)
    small = reduced(case, row.like(tuple(data.draw(st.integers(0, n)) for n in row.flat)))
    assert len(small.line.steps) <= len(line.steps) and set(small.options) <= set(case.options)
    assert longest(small.line) <= longest(line)
    assert set(small.line.words) <= set(line.words)


def test_what_stays_or_goes_is_counted_once():
    row = whole(ShrinkCase(parse(FULL.replace("{together+2}", "")), ("parallel", "ctx_size")))
    assert {*row.steps, *row.pieces, *row.options} == {1} and {*row.flags} == {0, 1}
    assert (len(row.steps), len(row.options), row.rare, row.words) == (5, 2, (1, 7), (9, 5, 4, 3))


@pytest.mark.parametrize(("part", "left"), [
    ("steps", ""),
    ("pieces", "u:+a:>7{seed=True}/{save@0 f}/{restore@0 f}"),
    ("flags", "S9.|A5>r4{n_keep=2}/u:S+a:b3>7/{save@0 f}/S/{restore@0 f}"),
    ("rare", "S9.|A5>r4!@1{cancel_after=1}/u:S+a:b3{seed=True}/{save@0 f}/S/{restore@0 f}"),
    ("words", "u:+a:>7{seed=True}/{save@0 f}/{restore@0 f}"),
])  # fmt: skip
def test_what_goes_with_each_part_of_a_row(part, left):
    case = ShrinkCase(parse(FULL.replace("/S{together+2}", "/S")))
    row = whole(case)
    small = reduced(case, row._replace(**{part: (0,) * len(getattr(row, part))}))
    assert spell(normal(small.line)) == left


def test_numbers_are_lowered_and_options_go():
    case = ShrinkCase(parse("S9>7"), ("a", "b"))
    row = whole(case)._replace(rare=(3,), words=(4,), options=(0, 1))
    assert reduced(case, row) == ShrinkCase(parse("S4>3"), ("b",))


def test_without_further_completions_their_answers_are_dropped():
    case = ShrinkCase(parse("S4>2{n_cmpl=3 answers=a2/b2}"))
    small = reduced(case, whole(case)._replace(flags=(0,) * 8))
    assert spell(normal(small.line)) == "S4>2"


@pytest.mark.parametrize(("text", "gone", "left"), [
    ("S4/{save@0 f}/{restore@0 f}/S", 1, "S4/S"),                    # a file that was not saved
    ("S4/A3{together}/B2{together+1}", 0, "A3/B2{together+1}"),       # the first request is sent alone
    ("S4/{erase@0}/A3/B2{together}", 2, "S4/{erase@0}/B2"),
])  # fmt: skip
def test_what_makes_no_sense_any_more_goes_too(text, gone, left):
    case = ShrinkCase(parse(text))
    row = whole(case)
    steps = tuple(int(i != gone) for i in range(len(row.steps)))
    assert spell(normal(reduced(case, row._replace(steps=steps)).line)) == left


def test_a_hang_up_behind_the_end_of_a_shorter_answer_goes():
    case = ShrinkCase(parse("S4>r5{cancel_after=3}"))
    row = whole(case)
    for length, left in ((4, "S4>r4{cancel_after=3}"), (3, "S4>r3"), (0, "S4")):
        small = reduced(case, row._replace(words=(4, length))).line
        assert spell(normal(small)) == left
        assert all(check_asked(step, small.words) is None for step in small.steps if isinstance(step, LineRequest))
