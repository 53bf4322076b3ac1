"""Tests of shrinking: minimal results, the budget of tries, determinism."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from cachesim.base.errors import BadInput
from cachesim.scenarios.notation.canonical_text import spell
from cachesim.scenarios.notation.deletions import simpler
from cachesim.scenarios.notation.normalise import letters
from cachesim.scenarios.notation.parse import parse
from cachesim.scenarios.notation.shrink import AFTER, Shrinking, shrink
from cachesim.scenarios.notation.shrink_vector import ShrinkCase
from cachesim.scenarios.notation.tree import LineRequest, texts
from cachesim.scenarios.notation.word_lengths import longest, normal, size
from tests.unit.scenarios.notation.lines import lines


def text(case):
    """Return a case as a user types it, "" if the notation cannot express it."""
    try:
        return spell(parse(spell(normal(case.line))))
    except BadInput:
        return ""


def asked(case):
    return [step for step in case.line.steps if isinstance(step, LineRequest)]


def any_of(about):
    """True if the condition holds for a request."""
    return lambda case: any(about(step) for step in asked(case))


CASES = [
    ("S40.A60>r4/B80/S.C50>3!@1", lambda case: len(case.line.steps) >= 2, "A1/B1"),
    ("S40.A60>r4/B80/S.C50>3!@1", any_of(lambda one: not one.cache_prompt), "A1!"),
    ("S40/S>9/S>2", any_of(lambda one: (one.n_predict or 1) >= 5), "A1>5"),
    ("S40>r9{cancel_after=7}", any_of(lambda one: one.cancel_after is not None), "A1{cancel_after=0}"),
    ("S40/B3{together+9}", any_of(lambda one: one.after >= 2), "A1/B1{together+2}"),
    ("S9{drafts=3:1,2:2,4:1}", any_of(lambda one: any(d - a >= 2 for d, a in one.drafts)), "A1{drafts=2:0}"),
    ("S9>2{n_cmpl=4 answers=a2/b2}", any_of(lambda one: one.answers), "A1>2{n_cmpl=2 answers=B2}"),
    ("{save@2 f}/S4/{restore@1 f}", lambda case: "restore" in text(case), "{save@0 f}/{restore@0 f}"),
    ("S4/{restart parallel=2 kv_unified=True}/S", lambda case: "kv_unified" in text(case), "{restart kv_unified=True}"),
    ("s:S9+u:A4+a:r2+u:B5", any_of(lambda one: len(one.chat) >= 2), "a:+u:"),
    ("s:S9+u:A4", any_of(lambda one: "user" in dict(one.chat)), "u:"),
    ("|S9/|S.A3", lambda case: "|" in text(case) and len(case.line.steps) == 2, "A1/|A"),
    ("S9[:5].A3[1:]", lambda case: longest(case.line) == 6, "A6"),
    ("S9.|A5.B2", any_of(lambda one: any(piece.user for piece in one.prompt)), "|A1"),
    ("THINK1.S9/S.THINK", lambda case: "THINK" in text(case), "THINK1"),
    ("S9{n_keep=5 n_discard=3 n_cache_reuse=8 task=embedding}", any_of(lambda one: one.n_keep >= 2), "A1{n_keep=2}"),
]


@pytest.mark.parametrize(("line", "happens", "small"), CASES, ids=[small for _, _, small in CASES])
def test_the_smallest_line(line, happens, small):
    assert text(shrink(ShrinkCase(parse(line)), lambda case: bool(text(case)) and happens(case))) == small


def test_options_that_are_not_needed_go():
    case = ShrinkCase(parse("S40"), ("ctx_size", "parallel", "ubatch_size"))
    assert shrink(case, lambda case: "parallel" in case.options) == ShrinkCase(parse("A1"), ("parallel",))


def test_slices_stay_where_words_are_not_split():
    """Of the word that is cut nothing more is left than is needed."""
    def happens(case):
        line = text(case)
        return "[:" in line and line.count("/") == 1

    small = Shrinking(ShrinkCase(parse("S9>r6/S.r[:4].B3")), happens).run((), ())
    assert text(small) == "S1/r2[:1]"


@pytest.mark.long
@settings(max_examples=15, deadline=None)
@given(lines())
def test_nothing_that_is_one_step_smaller_does_it_too(line):
    """As long as the tries last, and for whatever can be typed."""
    def happens(case):
        sizes = [size(one, case.line.words) for step in case.line.steps for one in texts(step)]
        return bool(text(case)) and sum(sizes) >= 3 and len(sizes) >= 1

    start = ShrinkCase(line)
    if happens(start):
        search = Shrinking(start, happens, 20_000)
        small = search.run()
        assert happens(small) and search.tries < 20_000
        assert not any(happens(one) for one in simpler(small) if one != small)


@pytest.mark.parametrize("most", [0, 1, 2, 3, 7, 40, 300])
def test_it_ends_after_so_many_tries_and_asks_nothing_twice(most):
    told = []

    def happens(case):
        told.append(case)
        return longest(case.line) % 7 == 0 and len(case.line.steps) >= 2

    search = Shrinking(ShrinkCase(parse("S40.A30/S.B9.C21>r5!/A.B.C[:9]{together}")), happens, most)
    small = search.run()
    assert len(told) == search.tries <= most
    assert len({spell(normal(one.line)) for one in told if one.line.steps}) >= len(told) - 20
    assert small == search.best and (happens(small) or small.line == parse("S40.A30/S.B9.C21>r5!/A.B.C[:9]{together}"))


@pytest.mark.parametrize(("most", "small"), [(0, "Q9/Q.X3"), (3, "A9/A.B3")])
def test_a_search_without_tries_left_still_renames_its_words(most, small):
    """A try for each change after the search is put aside."""
    assert len(AFTER) == 3
    assert text(shrink(ShrinkCase(parse("Q9/Q.X3")), lambda case: len(case.line.steps) == 2, most)) == small


def test_the_same_case_becomes_the_same_small_one():
    case = ShrinkCase(parse("S40.A60>r4/B80/S.C50>3!@1"), ("a", "b"))
    found = [Shrinking(case, lambda one: longest(one.line) >= 17, 400, seed=5) for _ in range(2)]
    assert found[0].run() == found[1].run()
    assert found[0].tries == found[1].tries
    assert (found[0].seed, Shrinking(case, lambda one: False).seed) == (5, 0)


def test_another_seed_is_another_search():
    told = {}
    for seed in (1, 2):
        told[seed] = []
        Shrinking(ShrinkCase(parse("S40.A60>r4/B80/S.C50")), lambda one: bool(told[seed].append(one)), 400, seed).run()  # noqa: B023
    assert told[1] != told[2]


def test_what_happens_in_no_smaller_case_stays_as_it_is():
    case = ShrinkCase(parse("q4.B2/B"))
    assert shrink(case, lambda one: one == case) == case


@pytest.mark.parametrize("tries", [0, 5])
def test_a_line_of_hundreds_of_words_takes_no_longer_for_what_is_not_asked(tries):
    """Some seconds, if every pair of words were thought about when all tries are used up."""
    names = [f"{letters(i).lower()}3" for i in range(300)]
    line = parse("/".join(".".join(names[i : i + 10]) for i in range(0, 300, 10)))
    search = Shrinking(ShrinkCase(line), lambda case: len(case.line.steps) > 27, tries)
    assert len(search.run().line.steps) > 27 and search.tries <= tries


def test_lengths_that_must_fit_each_other_are_made_small_by_chance():
    """No length can be lowered alone, nor two by the same amount."""
    def happens(case):
        first, second = ([size(step.prompt, case.line.words) for step in asked(case)] + [0, 0])[:2]
        return 0 < first == 2 * second

    assert text(shrink(ShrinkCase(parse("S40/B20")), happens)) == "A2/B1"


def test_one_long_word_may_stand_for_many():
    """Some constants are reached by many requests, or by a text of 248 tokens."""
    def happens(case):
        return longest(case.line) >= 248 or (len(asked(case)) >= 6 and longest(case.line) >= 150)

    small = shrink(ShrinkCase(parse("S150/A150/B150/C150/D150/E150")), happens)
    assert len(small.line.steps) == 1 and longest(small.line) == 248


def test_without_tries_nothing_is_asked_and_the_whole_is_found():
    case = ShrinkCase(parse("S40.A60/B80"), ("a",))
    for most in (0, 1, 2):
        told = []
        assert shrink(case, lambda drawn, told=told: bool(told.append(drawn)), most) == case and len(told) <= most
