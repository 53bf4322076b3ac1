"""Numbers of a prompt that follow from its progress lines, of each generation of builds."""

from __future__ import annotations

import pytest

from cachesim.engines.shared.log_grammar import Line, ParsedLine
from cachesim.tools.server_logs.facts.from_progress import (
    MOST,
    add_least_evaluated,
    add_progress,
    is_within_longer,
    shows_whole_prompt,
)
from cachesim.tools.server_logs.facts.proven_range import FoundNumbers, ProvenRange
from cachesim.tools.server_logs.lines.read_lines import ReadLine
from cachesim.tools.server_logs.lines.tied_requests import TiedRequest


def progress(number, **printed):
    """Return a progress line with these numbers; shares are words such as 0.50."""
    numbers = {name: float(value) if isinstance(value, str) else value for name, value in printed.items()}
    words = {name: value for name, value in printed.items() if isinstance(value, str)}
    return ReadLine(number, ParsedLine(Line("progress", "x"), 0, 7, numbers, words), "x")


def found_in(*lines, more=(), **known):
    """Return the ranges of the numbers that follow from progress lines and from ``known`` ranges."""
    request, found = TiedRequest(0, 7, [*lines, *more]), FoundNumbers()
    for name, (low, high) in known.items():
        found.add(name, ProvenRange(low, high, frozenset({90})))
    add_progress(request, found)
    assert found.clashes == []
    return found


def ranges(*lines, more=(), **known):
    found = found_in(*lines, more=more, **known)
    return {name: (one.low, one.high) for name, one in found.numbers.items()}


@pytest.mark.parametrize(("in_slot", "share", "length"), [
    (100, "0.50", (199, 202)), (100, "1.00", (100, 100)), (100, "0.00", None), (0, "0.50", None),
    (1, "0.01", (67, 200)), (100, "1.10", None),
])  # fmt: skip
def test_a_prompt_is_as_long_as_the_tokens_in_the_slot_and_their_share_say(in_slot, share, length):
    assert ranges(progress(4, n_tokens=in_slot, share=share)) == ({} if length is None else {"n_tokens": length})


@pytest.mark.parametrize(("known", "reused"), [
    ({}, None), ({"n_tokens": (160, 160)}, (20, 20)), ({"n_tokens": (160, 180)}, (10, 20)),
    ({"n_tokens": (160, None)}, None), ({"n_tokens": (198, 198)}, (1, 1)), ({"n_tokens": (200, 200)}, (0, 1)),
    ({"n_tokens": (202, 202)}, (0, 0)), ({"n_tokens": (204, 204)}, None),
])  # fmt: skip
def test_old_builds_print_the_share_of_the_evaluated_tokens(known, reused):
    """100 tokens are in the slot, and half of the prompt is evaluated."""
    found = ranges(progress(4, n_tokens=100, done_share="0.50"), **known)
    assert found.get("cache_n") == reused
    assert found["n_tokens"] == (known["n_tokens"] if known else (100, None))


def test_an_empty_slot_is_that_of_a_prompt_with_a_token():
    assert ranges(progress(4, n_tokens=0, done_share="0.00")) == {"n_tokens": (1, None)}


@pytest.mark.parametrize(("known", "length", "reused"), [
    ({}, (80, None), None), ({"cache_n": (10, 10)}, (100, 101), (10, 10)),
    ({"cache_n": (10, None)}, (100, None), (10, None)), ({"cache_n": (10, 20)}, (100, 121), (10, 20)),
    ({"prompt_n": (90, 90)}, (100, 101), (10, 11)), ({"prompt_n": (90, 95)}, (80, None), None),
    ({"prompt_n": (40, 40)}, (80, None), None), ({"n_tokens": (100, 100)}, (100, 100), (10, 10)),
    ({"n_tokens": (80, 80)}, (80, 80), (0, 0)),
])  # fmt: skip
def test_new_builds_print_the_evaluated_tokens_and_the_share_in_the_slot(known, length, reused):
    """40 tokens are evaluated; with the reused ones they are half of the prompt."""
    found = ranges(progress(4, done=40, share="0.50"), **known)
    assert (found["n_tokens"], found.get("cache_n")) == (length, reused)


def test_a_share_near_nothing_bounds_a_length_from_below_only():
    assert ranges(progress(4, done=1, share="0.00"), cache_n=(0, 0))["n_tokens"] == (200, None)
    assert ranges(progress(4, done=9, share="1.00"), prompt_n=(10, 10))["n_tokens"] == (200, None)


@pytest.mark.parametrize(("first", "second", "length"), [
    ((40, "0.50"), (60, "0.70"), (97, 105)), ((40, "0.50"), (60, "0.51"), (1000, None)),
    ((40, "0.50"), (40, "0.70"), (80, None)), ((60, "0.70"), (40, "0.50"), (86, None)),
    ((40, "0.70"), (60, "0.50"), (119, None)), ((0, "0.10"), (20, "0.30"), (99, 105)),
])  # fmt: skip
def test_two_lines_show_the_length_by_the_tokens_and_shares_between_them(first, second, length):
    lines = [progress(4 + at, done=done, share=share) for at, (done, share) in enumerate((first, second))]
    assert ranges(*lines)["n_tokens"] == length


def test_the_first_and_the_last_lines_of_a_long_prompt_are_compared():
    lines = [progress(at, done=at, share=f"{at / 1000:.3f}") for at in range(1, MOST + 40)]
    few, every = ranges(*lines[: MOST // 2], *lines[-MOST // 2 :]), ranges(*lines)
    assert few["n_tokens"] == every["n_tokens"] == (996, 1004)
    assert ranges(*lines[:2])["n_tokens"] == (800, None)


@pytest.mark.parametrize(("known", "shifts", "reused"), [
    ({"end": (120, 120)}, False, (0, 60)), ({"end": (120, 130)}, False, (0, 70)), ({"end": (60, 60)}, False, (0, 0)),
    ({"end": (59, 59)}, False, None), ({"end": (120, None)}, False, None), ({}, False, None),
    ({"end": (120, 120)}, True, None),
])  # fmt: skip
def test_at_most_the_tokens_at_the_end_that_were_not_evaluated_are_reused(known, shifts, reused):
    lines = [progress(4, done=40, share="0.10"), progress(5, done=60, share="0.10")]
    more = [ReadLine(6, ParsedLine(Line("ctx_shift", "x"), 0, 7, {}), "x")] * shifts
    assert ranges(*lines, more=more, **known).get("cache_n") == reused


def test_numbers_name_the_lines_that_prove_them_and_how():
    found = found_in(progress(4, done=40, share="0.50"), progress(5, done=60, share="0.70"), cache_n=(10, 10))
    length = found.get("n_tokens")
    assert (length.low, length.high, length.lines) == (100, 100, {5, 90})
    assert length.how == "10 + 60 tokens are 0.70 of it"
    pair = found_in(progress(4, done=40, share="0.50"), progress(5, done=60, share="0.70"), n_tokens=(98, None))
    assert pair.get("n_tokens").high == 105 and pair.get("n_tokens").lines == {4, 5, 90}
    assert "20 tokens between 0.50 and 0.70 of it" in pair.get("n_tokens").how


@pytest.mark.parametrize(("printed", "known", "least"), [
    ([{"done": 40}, {"done": 60}], None, (60, None)), ([{"done": 60}, {}], None, None), ([{"done": 0}], None, None),
    ([{"done": 60}], (59, 59), "clash"), ([{"done": 60}], (59, None), (60, None)), ([{"done": 60}], (60, 80), (60, 80)),
    ([{"done": 60}], (10, 80), (60, 80)), ([], None, None),
])  # fmt: skip
def test_at_least_the_tokens_of_the_last_line_are_evaluated(printed, known, least):
    found = FoundNumbers()
    if known is not None:
        found.add("prompt_n", ProvenRange(*known))
    lines = [progress(at, **numbers) for at, numbers in enumerate(printed, 4)]
    add_least_evaluated(TiedRequest(0, 7, lines), found)
    number = found.get("prompt_n")
    assert (bool(found.clashes), number and not found.clashes and (number.low, number.high)) == (
        (True, False) if least == "clash" else (False, least))  # fmt: skip


@pytest.mark.parametrize(("length", "shown"), [((100, 100), [5]), ((100, 101), []), (None, []), ((99, 99), [])])
def test_a_line_with_all_tokens_shows_the_whole_prompt(length, shown):
    found = FoundNumbers()
    if length is not None:
        found.add("n_tokens", ProvenRange(*length))
    request = TiedRequest(0, 7, [progress(4, n_tokens=50), progress(5, n_tokens=100), progress(6)])
    assert [line.number for line in shows_whole_prompt(request, found)] == shown


@pytest.mark.parametrize(("printed", "n_past", "is_longer"), [
    ({"done": 50, "share": "0.50"}, 100, False), ({"done": 50, "share": "0.50"}, 98, True),
    ({"done": 50, "share": "0.50"}, 99, True), ({"done": 50, "share": "0.50"}, 101, False),
    ({"done": 50, "share": "0.50"}, 102, True), ({"done": 1, "share": "0.50"}, 98, False),
    ({"done": 2, "share": "0.50"}, 98, True), ({"done": 50, "share": "0.50"}, 0, False),
    ({"done": 50, "share": "0.50"}, 1, True), ({"n_tokens": 50, "share": "0.50"}, 98, False), ({"done": 50}, 98, False),
    ({"share": "0.50"}, 98, False), ({"done": 100, "share": "1.00"}, 100, False),
    ({"done": 9_949_997, "share": "1.00"}, 10_000_000, False),                   # the least share that prints as 1.00
])  # fmt: skip
def test_another_share_than_that_of_the_restored_tokens_shows_a_longer_prompt(printed, n_past, is_longer):
    assert is_within_longer(progress(4, **printed), n_past) is is_longer


def test_a_share_of_the_evaluated_tokens_alone_shows_nothing():
    assert ranges(progress(4, done=40, done_share="0.50")) == {}


def test_reused_tokens_follow_from_the_length_that_a_line_of_progress_leaves_possible():
    """Of a prompt of 36 to 38 tokens, of which 23 were evaluated after 4 that were reused, 0.73 is done."""
    found = found_in(progress(4, done=23, share="0.73"), n_tokens=(33, 39), cache_n=(2, 7))
    assert [(name, one.low, one.high) for name, one in found.numbers.items()] == [
        ("n_tokens", 36, 38), ("cache_n", 4, 4)]  # fmt: skip
    assert found.get("cache_n").lines == {4, 90}


def test_only_the_first_and_the_last_lines_are_compared_with_each_other():
    """Two lines show the length; between the halves of those that are compared they do not."""
    coarse = [progress(at, done=0, share="0.0") for at in range(MOST)]
    sure = [progress(at, done=at, share=f"0.{at}") for at in (400, 500)]
    half = MOST // 2
    assert ranges(*coarse[:half], *sure, *coarse[half:])["n_tokens"] == (1000, None)
    for lines in ([*coarse[1:half], *sure, *coarse[half:]], [*coarse[:half], *sure, *coarse[half + 1 :]]):
        assert ranges(*lines)["n_tokens"][1] is not None


def test_what_a_single_line_of_progress_shows():
    assert ranges(progress(4, done=60, share="0.10"), end=(120, 120))["cache_n"] == (0, 60)
    assert ranges(progress(4, done=0, share="0.00")) == {"n_tokens": (1, None)}
    assert ranges(progress(4, done=0, share="0.50"), prompt_n=(10, 10))["n_tokens"] == (20, 20)


def test_lines_without_an_evaluated_token_show_no_length_together():
    assert ranges(progress(4, done=0, share="0.50"), progress(5, done=0, share="0.70")) == {"n_tokens": (1, None)}
