"""Lengths of prompts that a simulation of a log assumes."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from cachesim.tools.server_logs.assumed_lengths import ENDS, MARKED, MOST_ASSUMED, assumed_lengths
from cachesim.tools.server_logs.logged_requests import LoggedRequest
from cachesim.tools.server_logs.proven_range import ProvenRange


@pytest.mark.parametrize(("reused", "assumed"), [(9, [10]), (MOST_ASSUMED - 1, [MOST_ASSUMED]), (MOST_ASSUMED, [])])
def test_a_length_without_an_upper_bound_is_assumed_up_to_a_limit(reused, assumed):
    request = LoggedRequest(0, 1, numbers={"cache_n": ProvenRange(reused, reused)}, cache_n=reused)
    [lengths] = assumed_lengths([request])
    assert [length.n_tokens for length in lengths] == assumed


def chosen(f_sim, f_keep, similar=(), **more):
    """Return a request whose slot was chosen with these shares."""
    words = {"f_sim": f_sim, "f_keep": f_keep}
    numbers = {name: float(word) for name, word in words.items()}
    choice = SimpleNamespace(kind="slot_by_lcp", read=SimpleNamespace(words=words, numbers=numbers))
    return LoggedRequest(0, 2, chosen="lcp", tied=SimpleNamespace(choice=choice, similar=similar), **more)


def lengths_after(end, request):
    """Return the assumed lengths of a request after one that left ``end`` tokens in the slot."""
    before = LoggedRequest(0, 1, n_tokens=5000, end=end, numbers={"end": ProvenRange(end, end)})
    return [length.n_tokens for length in assumed_lengths([before, request])[1]]


def test_the_shares_of_a_slot_with_known_contents_bound_the_length():
    middle, low, high = lengths_after(5106, chosen("0.832", "1.000"))
    assert low < middle < high and round(5106 / high, 3) == 0.832 and round(5106 / (high + 1), 3) < 0.832
    assert round(0.9995 * 5106 / low, 3) == 0.832 and round(0.9995 * 5106 / (low - 2), 3) > 0.832


def test_an_entry_that_was_loaded_has_other_shares():
    assert lengths_after(5106, chosen("0.832", "1.000", is_loaded=True)) == []


def test_a_log_that_prints_the_length_itself_is_not_asked_for_its_shares():
    assert lengths_after(5106, chosen("0.832", "1.000", similar=("a line",))) == []


def counts(**exact):
    """Return a request with these counts."""
    return LoggedRequest(0, **exact, numbers={name: ProvenRange(value, value) for name, value in exact.items()})


def test_a_prompt_is_not_assumed_longer_than_what_it_left_in_its_slot():
    [lengths, _] = assumed_lengths([counts(end=998), counts(n_tokens=21131, cache_n=15127)])
    assert [length.n_tokens for length in lengths] == [998]


def test_the_last_checkpoint_of_a_prompt_shows_its_length():
    later = LoggedRequest(0, checked=((1688, 2711, 0), (1126, 2149, 0)))
    [lengths, _] = assumed_lengths([counts(end=2736), later])
    assert [(length.n_tokens, length.why) for length in lengths] == [(2716, MARKED), (2736, ENDS)]
