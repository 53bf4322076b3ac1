"""Tests of the histories of known faults: lengths, and windows that a server states."""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace

import pytest

from cachesim.tools.conformance.client_history import parse_history
from cachesim.tools.conformance.fingerprint import Difference
from cachesim.tools.conformance.history_player import HistoryRun
from cachesim.tools.conformance.http_check.known_faults import (
    MOST,
    NOISE,
    ROUNDS,
    _cached,
    _confirmed,
    _size,
    _sizes,
    early_lines,
    known_lines,
    look,
    measure,
    windows,
)
from cachesim.tools.conformance.http_check.replies import ScoredAnswer
from cachesim.tools.conformance.properties import PropertyCheck
from cachesim.tools.conformance.protocol import CacheRequest, Failed, Reply


def test_early_histories_are_one_of_each_fault():
    stale, neighbour, sized = early_lines(1_100, (48,))
    assert stale == ("A5/B10/B[:1].C5",) and neighbour == ("S8.A4>3/S.B5>3/S.C600>3/S.C[:2].D2>3",)
    assert sized[:4] == ("A13/A[:8]>8", "B21/B[:16]>8", "C37/C[:32]>8", "D53/D[:48]>8") and len(sized) == 9


def test_histories_fit_the_longest_prompt():
    assert [len(lines) for lines in early_lines(610)] == [1, 7]
    assert [len(lines) for lines in early_lines(611)] == [1, 1, 7]
    assert list(early_lines(21))[1] == ("A13/A[:8]>8", "B21/B[:16]>8")
    assert list(known_lines(21)) == [
        "A5/B10/B[:1].C5", "A5/B10/B[:3].C3", "A13/A[:8]>8", "A21/A[:16]>8", "A17/A[:8]>8"]


def test_sizes_that_a_server_states_are_among_the_windows():
    assert windows((48,)) == [8, 16, 32, 48, 64, 128, 256, 512, 1024]
    assert windows(range(2, 20)) == list(range(2, 12))


def scored(number):
    return Reply((1,), ScoredAnswer((1,), "", ({1: -float(number)},)), cached=3)


class GivenStage:
    """Runner whose answers to the given requests are off by these sizes, in the order of its runs."""

    def __init__(self, *runs, sizes=()):
        self.runs, self.lines, self.server = list(runs), [], SimpleNamespace(sizes=sizes)
        self.http = SimpleNamespace(sent=0, url="http://x", is_spent=False)

    def play(self, history, spare=False):
        self.lines.append((history.line, spare))
        self.http.sent += 10
        off = self.runs.pop(0) if self.runs else {}
        asks = [CacheRequest(step.request.prompt) for step in history.scenario.steps]
        warm = [scored(len(ask.prompt) + off.get(number, 0)) for number, ask in enumerate(asks)]
        cold = [scored(len(ask.prompt)) for ask in asks]
        groups = [range(number, number + 1) for number in range(len(asks))]
        return HistoryRun(history, asks, cold, [None] * len(asks), warm, groups)


STALE = "A5/B10/B[:1].C5"


def test_a_difference_of_another_request_confirms_nothing():
    assert _confirmed(GivenStage(*[{0: 0.5}] * 3), STALE, PropertyCheck("branch", False, 2)) is None


def test_the_window_with_most_reuse_is_confirmed_first():
    windows_line = "A13/A[:8]>8/B21/B[:16]>8"

    class Windows(GivenStage):
        def play(self, history, spare=False):
            played = super().play(history, spare)
            cached = {1: 3, 3: 9}
            played.warm = [replace(one, cached=cached.get(number, 0)) for number, one in enumerate(played.warm)]
            return played

    stage = Windows({}, {1: 0.5, 3: 0.5}, {1: 0.5}, sizes=())
    found = list(look(stage, 24))
    assert stage.lines[1][0] == windows_line and stage.lines[2][0] == "B21/B[:16]>8"
    assert [one.line for one in found] == ["B21/B[:16]>8"] and all(spare for _, spare in stage.lines)


def test_a_sound_server_has_no_known_fault():
    stage = GivenStage()
    assert list(look(stage, 2000)) == []
    assert [line for line, _ in stage.lines] == ["/".join(lines) for lines in early_lines(2000)]


def test_noise_is_the_largest_legal_difference_of_the_histories_that_fit():
    stage = GivenStage({0: 1 / 128}, {0: 1 / 64}, {0: 1 / 16})
    assert measure(stage, 3, ["A6", "A7"]) == 1 / 64
    assert [line for line, _ in stage.lines] == ["A6"] * 3
    stage = GivenStage()
    assert measure(stage, 2000) == 0.0 and [line for line, _ in stage.lines] == [*NOISE] * ROUNDS
    stage.http.is_spent = True
    assert measure(stage, 2000) == 0.0 and len(stage.lines) == len(NOISE) * ROUNDS


@pytest.mark.parametrize(("cached", "sizes"), [(0, [0.5, 0.25]), (None, [0.5, 0.25]), (5, [0.5, 0.25]), (4, [0.25])])
def test_an_answer_with_little_reuse_is_not_compared_as_noise(cached, sizes):
    ask = CacheRequest((1,) * 9)
    warm, cold, again = replace(scored(1.5), cached=cached), scored(1), scored(1.25)
    assert list(_sizes(HistoryRun(parse_history("A9"), [ask], [cold], [again], [warm]))) == sizes
    assert list(_sizes(HistoryRun(parse_history("A9"), [ask], [Failed("x")], [again], [warm]))) == []
    assert list(_sizes(HistoryRun(parse_history("A9"), [ask], [cold], [None], [warm]))) == sizes[:-1]


def test_without_log_probabilities_the_tokens_decide():
    ask, same, other = CacheRequest((1,)), Reply((1,), cached=0), Reply((2,), cached=0)
    found = [list(_sizes(HistoryRun(parse_history("A1"), [ask], [same], [None], [one]))) for one in (same, other)]
    assert found == [[0.0], [math.inf]]


def test_a_request_without_a_reply_reused_nothing():
    run = HistoryRun(parse_history("A1/A"), warm=[Failed("x"), replace(scored(1), cached=None), scored(1)])
    assert [_cached(run, number) for number in range(3)] == [0, 0, 3]


def test_a_difference_without_a_distance_is_a_large_one():
    assert _size(PropertyCheck("branch", False, 1)) == MOST
    assert _size(PropertyCheck("branch", False, 1, apart=Difference(0.25, "x"))) == 0.25
