"""Tests of turns as requests, and of shrinking."""

from __future__ import annotations

from itertools import islice

import pytest

from cachesim.base.errors import BadInput
from cachesim.tools.conformance.client_history import HistoryTurn, TokenDictionary, history_from_turns, parse_history
from cachesim.tools.conformance.corpus import corpus_histories, line_history, scaled
from cachesim.tools.conformance.properties import CompletedSequence, PropertyCheck, relation
from cachesim.tools.conformance.search import attributed, shrink

FIRST = HistoryTurn("new", 0, 0, 5, 2)

LINES = [
    ([FIRST], "A5>2"),
    ([FIRST, HistoryTurn("append", 0, 0, 3, 1)], "A5>a2/A.a.B3"),
    ([FIRST, HistoryTurn("extend", 0, 0, 3, 1)], "A5>2/A.B3"),
    ([FIRST, HistoryTurn("branch", 0, 0, 3, 1)], "A5>a2/A.a[:1].B3"),
    ([FIRST, HistoryTurn("branch", 0, 4, 3, 1)], "A5>2/A[:2].B3"),
    ([FIRST, HistoryTurn("prefix", 0, 99, 3, 4)], "A5>2/A[:1]>4"),
    ([FIRST, HistoryTurn("repeat", 0, 0, 3, 1, cache=False)], "A5>2/A!"),
    ([FIRST, HistoryTurn("repeat", 0, 0, 3, 2, cancel_after=1)], "A5>2/A>2{cancel_after=1}"),
    ([FIRST, HistoryTurn("new", 0, 0, 12, 1, together=True)], "A5>2/B12{together}"),
    ([FIRST, HistoryTurn("new", 0, 0, 1, 1), HistoryTurn("append", 1, 0, 1, 1)], "A5>a2/B1/A.a.C1"),
]


@pytest.mark.parametrize(("turns", "line"), LINES, ids=[line for _, line in LINES])
def test_turns_in_words(turns, line):
    assert history_from_turns(turns, 12).line == line
    assert parse_history(line).line == line


def test_a_prompt_is_cut_to_the_limit():
    assert history_from_turns([FIRST, HistoryTurn("append", 0, 0, 3, 1)], 8).line == "A5>a2/A.a.B3[:1]"


@pytest.mark.parametrize(("line", "told"), [
    ("A5{n_keep=3}", "request 0: n_keep is not supported by conform"), ("A5/{restart}", "request 1: restart is not"),
    ("s:A5", "request 0: chat is not"), ("A5/A{together+1}", "request 1: after is not"),
    ("A5{cancel_after=1}", "column 4, request 0: cancel_after is 1, but the answer ends after 1"),
    ("A5/B", "column 4, request 1: word 'B' has no length"),
])  # fmt: skip
def test_a_line_that_is_none_is_refused(line, told):
    with pytest.raises(BadInput, match=told):
        parse_history(line)


@pytest.mark.parametrize("line", ["A5{lora=0:1}", "A5.I4x1.B1"])
def test_adapters_and_images_are_for_servers(line):
    with pytest.raises(BadInput, match="supported by 'cachesim check' only") as refused:
        line_history(line)
    assert "keys=" in refused.value.hint and line_history(line, keyed=True).is_keyed
    assert line_history(line, keyed=True).line == line and not line_history("A5", keyed=True).is_keyed
    with pytest.raises(BadInput, match="stream is not supported"):
        parse_history("A5{stream=True}")


def test_without_a_special_way_of_asking():
    history = parse_history("A5!/A>2{cancel_after=1 together}")
    assert history.without("cache").line == "A5/A>2{cancel_after=1 together}"
    assert history.without("cancel").line == "A5!/A>2{together}"
    assert history.without("cache", "cancel", "burst").line == "A5/A>2"


SEEN = [CompletedSequence((1, 2, 3, 9), 3, True)]


@pytest.mark.parametrize(("prompt", "name"), [
    ((1, 2, 3), "repeat"), ((1, 2), "prefix"), ((1, 2, 3, 9), "prefix"), ((1, 2, 3, 9, 5), "append"),
    ((1, 2, 3, 5), "branch"), ((1, 5), "branch"), ((5, 2), "new"),
])  # fmt: skip
def test_what_a_prompt_is_to_what_was_held(prompt, name):
    assert relation(prompt, SEEN) == name


def test_words_share_no_token_and_an_answer_is_what_was_said():
    dictionary = TokenDictionary(range(100, 164))
    first, second = dictionary.real((1_000, 1_001, 1_002)), dictionary.real((1_001_000, 1_001_001))
    assert (first, second) == ((100, 132, 100), (101, 133))
    dictionary.bind((2_001_000, 2_001_001), (7,))
    assert dictionary.real((2_001_000, 2_001_001)) == (7, 134)


def test_shrinking_takes_away_what_is_not_needed():
    def breaks(history):
        """The last request shares at least two words with the first, whose client disconnected."""
        first, *_, last = history.line.split("/") if "/" in history.line else ("", "")
        return "cancel_after" in first and first[:1] == last[:1] and "." in last

    start = parse_history("S9.A3>r4{cancel_after=2}/B7!/S.C2>3@1/S[:4].A[1:2].D5>2{together}")
    assert shrink(start, breaks).line == "A1{cancel_after=0}/A.B1"


def test_blame_goes_to_the_first_wrong_request_and_the_plainest_reason():
    found = [
        PropertyCheck("new", True, 0),
        PropertyCheck("append", False, 1),
        PropertyCheck("cancel", False, 1),
        PropertyCheck("repeat", False, 2),
    ]
    replays = (None, lambda *names: [PropertyCheck("append", False, 1)],
               lambda *names: [PropertyCheck("append", True, 1)])  # fmt: skip
    names = [[one.name for one in attributed(found, replay) if not one.ok] for replay in replays]
    assert names == [["append"], ["append"], ["cancel"]]


@pytest.mark.parametrize(("line", "longer"), [
    ("A5/A.B2", "A20/A.B8"), ("A5>a3/A[:2].a.B1", "A20>a3/A[:8].a.B4"),
    ("A5>a3/A[1:2].a[:2]>4!", "A20>a3/A[4:8].a[:2]>4!"),
])  # fmt: skip
def test_a_history_is_scaled_without_its_answers(line, longer):
    assert scaled(parse_history(line), 4).line == longer


@pytest.mark.long
def test_the_corpus_is_scaled_to_the_sizes_with_which_it_fits():
    plain, both = ({one.line for one in corpus_histories(256, near)} for near in ((), (1, 16, 400)))
    assert plain < both and len(both - plain) > 15
    assert all(len(step.request.prompt) <= 256 for line in both for step in parse_history(line).scenario.steps)


def test_the_corpus_has_many_plain_histories():
    found = [*islice(corpus_histories(256), 81)]
    lines = [history.line for history in found]
    assert not any(history.is_keyed for history in found)
    assert len(set(lines)) == len(lines) == 81
    assert not any(sign in line for line in lines for sign in "@|{")
