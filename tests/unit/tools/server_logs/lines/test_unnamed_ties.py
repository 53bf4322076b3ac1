"""Ties of lines that name neither slot nor task: which active request a line belongs to."""

from __future__ import annotations

import pytest

from cachesim.engines.shared.log_grammar import Line, ParsedLine
from cachesim.tools.server_logs.lines.read_lines import ReadLine
from cachesim.tools.server_logs.lines.unnamed_ties import WAITING, UnnamedTies


def line(number, kind, **numbers):
    return ReadLine(number, ParsedLine(Line(kind, kind), None, None, numbers), kind)


def fetch(number, prompts=1):
    return line(number, "fetch", prompts=prompts)


def progress(number, done, total):
    return line(number, "progress_of", n_tokens=done, total=total)


def reply(number, prompt, cached, after=4):
    """Return the lines of an answer; the cached tokens stand four lines below those of the prompt."""
    return [line(number, "reply"), line(number + 1, "usage", n_tokens=prompt),
            line(number + 1 + after, "usage", cache_n=cached)]  # fmt: skip


def tied(*lines):
    """Return the numbers of the lines of every request in the order of their beginnings, and those still active."""
    ties = UnnamedTies()
    begun = [one for one in map(ties.add, lines) if one is not None]
    return [[each.number for each in one.lines] for one in begun], [begun.index(one) for one in ties.active]


def test_progress_belongs_to_the_oldest_request_that_fits():
    assert tied(fetch(1), fetch(2), progress(3, 0, 9), progress(4, 9, 9), progress(5, 0, 5)) == (
        [[1, 3, 4], [2, 5]], [0, 1])  # fmt: skip
    assert tied(fetch(1), progress(2, 5, 9), fetch(3), progress(4, 5, 9)) == ([[1, 2], [3, 4]], [0, 1])
    assert tied(fetch(1), progress(2, 5, 9), progress(3, 5, 9), progress(4, 6, 9)) == ([[1, 2, 4]], [0])
    assert tied(progress(1, 5, 9), progress(2, 9, 9), progress(3, 0, 9)) == ([[1, 2], [3]], [0, 1])
    assert tied(fetch(1), progress(2, 9, 9), progress(3, 1, 7)) == ([[1, 2]], [0])


@pytest.mark.parametrize("wrong", [line(2, "progress_of", total=9), line(2, "progress_of", n_tokens=3)])
def test_progress_without_both_numbers_is_left_out(wrong):
    assert tied(fetch(1), wrong) == ([[1]], [0])


@pytest.mark.parametrize(("prompts", "kept"), [((0, 0), [0, 0]), ((1, 2), [1, 2]), ((0, 1), [None, None])])
def test_whose_cache_was_empty_is_unknown_if_progress_fits_several(prompts, kept):
    ties = UnnamedTies()
    begun = [ties.add(fetch(number, each)) for number, each in enumerate(prompts, 1)]
    ties.add(progress(3, 0, 9))
    assert [one.lines[0].number_of("prompts") for one in begun] == kept
    ties = UnnamedTies()
    first = ties.add(fetch(1, 0))
    ties.add(progress(2, 0, 9))
    second = ties.add(fetch(3, 1))
    ties.add(progress(4, 3, 9))
    assert [one.lines[0].number_of("prompts") for one in (first, second)] == [0, 1]


def test_an_answer_belongs_to_the_newest_request_whose_evaluated_tokens_fit():
    open_ = fetch(1), progress(2, 60, 60)
    assert tied(*open_, fetch(3), progress(4, 1, 1), *reply(5, 60, 0)) == ([[1, 2, 6, 10], [3, 4]], [1])
    assert tied(*open_, fetch(3), progress(4, 60, 60), *reply(5, 70, 10)) == ([[1, 2], [3, 4, 6, 10]], [0])
    assert tied(*open_, fetch(3), *reply(5, 60, 0)) == ([[1, 2, 6, 10], [3]], [1])
    assert tied(*open_, fetch(3), *reply(5, 61, 0)) == ([[1, 2], [3, 6, 10]], [0])


def test_an_answer_that_fits_none_begins_a_request_that_is_over():
    assert tied(fetch(1), progress(2, 60, 60), *reply(5, 61, 0)) == ([[1, 2], [6, 10]], [0])
    assert tied(*reply(5, 60, 60)) == ([[6, 10]], [])


@pytest.mark.parametrize("lines", [
    reply(5, 60, 61), reply(5, 60, 0, after=3), reply(5, 60, 0, after=5), reply(5, 60, 0)[1:],
    [reply(5, 60, 0)[0], reply(5, 60, 0)[2]],
])  # fmt: skip
def test_numbers_that_are_not_an_answer_are_left_out(lines):
    assert tied(fetch(1), *lines) == ([[1]], [0])


def test_an_answer_is_read_once():
    assert tied(fetch(1), fetch(2), *reply(5, 60, 0), *reply(5, 60, 0)[1:]) == ([[1], [2, 6, 10]], [0])


def test_the_oldest_of_many_active_requests_are_dropped():
    ties = UnnamedTies()
    begun = [ties.add(fetch(number)) for number in range(WAITING + 3)]
    assert ties.active == begun[2:] and len(ties.active) == WAITING + 1


def test_progress_is_that_of_the_request_that_evaluated_less_so_far():
    assert tied(fetch(1), progress(2, 3, 9), progress(3, 5, 9), progress(4, 4, 9)) == ([[1, 2, 3]], [0])


def test_the_numbers_of_an_answer_are_those_of_its_prompt_and_its_cached_tokens_four_lines_later():
    other = line(2, "usage", total=5), line(6, "usage", cache_n=0)
    assert tied(line(1, "reply"), *other) == ([], [])                            # the prompt is not printed
    assert tied(*reply(1, 9, 0)[:2], line(6, "usage"), line(7, "usage", cache_n=0)) == ([], [])


def test_progress_of_a_single_token_belongs_to_the_request_without_one():
    assert tied(fetch(1), progress(2, 0, 9), fetch(3), progress(4, 1, 9)) == ([[1, 2, 4], [3]], [0, 1])
