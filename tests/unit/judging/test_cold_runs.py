"""Tests that every cold run is made once, and not before it is needed."""

from __future__ import annotations

from cachesim.judging import compare_answer as module
from cachesim.judging.compare_answer import AHEAD, RECENT, ColdRunCache
from cachesim.model import make_model, parse

PROMPT = tuple(range(100, 110))
HELD = (*PROMPT, 201, 202)


def model(exact=False):
    return make_model(parse("GA"), exact=exact)


def test_a_prefix_of_what_was_run_needs_no_run_of_its_own():
    cold_runs, long = ColdRunCache(make_model(parse("AA"), exact=False)), tuple(range(40))
    first = cold_runs.covering(long)
    assert cold_runs.covering(long[:7]) is first and cold_runs.covering(long) is first
    assert cold_runs.covering((*long, 1)) is not first


def test_only_the_latest_cold_runs_are_kept(monkeypatch):
    monkeypatch.setattr(module, "RECENT", 3)
    cold_runs = ColdRunCache(make_model(parse("AA"), exact=False))
    runs = [cold_runs.covering((number, 9, 9)) for number in (0, 1, 2, 3, 1, 0, 3, 0)]
    assert runs[4] is runs[1] and runs[5] is not runs[0] and runs[6] is runs[3] and runs[7] is runs[5]


def test_of_a_long_prompt_so_much_is_run_as_was_evaluated():
    cold_runs, long = ColdRunCache(make_model(parse("AA"), exact=False)), tuple(range(10 * AHEAD))
    cold_runs.expect(long)
    runs = [cold_runs.covering(long[:n]) for n in range(1, len(long) + 1, 128)]
    assert len(runs[0].digests) == AHEAD and len({id(run) for run in runs}) == 3
    assert (runs[-1].digests == cold_runs.digests(long).digests).all()


def test_a_cold_run_is_made_once_for_every_speaker():
    cold_runs = ColdRunCache(model())
    assert cold_runs.speaking(HELD, (9,)) is cold_runs.speaking(HELD, (), (4,))
    assert cold_runs.speaking(PROMPT) is cold_runs.speaking(HELD), "a prefix does not depend on what follows"


def test_an_exact_cold_run_is_made_again_only_for_positions_that_it_did_not_speak_at():
    cold_runs = ColdRunCache(model(exact=True))
    first = cold_runs.speaking(HELD, (9, 10), (4,))
    assert cold_runs.speaking(HELD, (10,)) is first
    again = cold_runs.speaking(HELD, (11,))
    assert again is not first and 11 in again.logits
    assert cold_runs.speaking(HELD, (9,), ()) is first


def test_an_exact_cold_run_is_made_again_only_for_states_that_it_did_not_keep():
    cold_runs = ColdRunCache(model(exact=True))
    first = cold_runs.speaking(HELD, (), (4, 7))
    assert cold_runs.speaking(HELD, (), (7,)) is first and cold_runs.speaking(HELD, (), (7, 4)) is first
    again = cold_runs.speaking(HELD, (), (4, 9))
    assert again is not first and again.state_at(0, 9).h is not None and first.state_at(0, 9).h is None
    assert cold_runs.speaking(HELD, (), (9,)) is again and cold_runs.speaking(HELD, (), (4,)) is first


def test_a_run_covers_what_goes_on_as_it_does():
    cold_runs, long = ColdRunCache(make_model(parse("AA"), exact=False)), tuple(range(40))
    run = cold_runs.covering(long)
    assert cold_runs.covers(run, long[5:7], 5) and cold_runs.covers(run, long, 0)
    assert not cold_runs.covers(run, (99,), 7) and not cold_runs.covers(run, long[5:7], 6)
    assert not cold_runs.covers(run, (40,), 40) and not cold_runs.covers(run, (39, 40), 39)
    assert not cold_runs.covers(cold_runs.digests(long), (), 40)


def test_digests_have_no_numbers():
    found = ColdRunCache(model(exact=True)).digests(HELD)
    assert len(found.digests) == len(HELD) and not found.logits
    assert found.rows(1).k is None and found.rows(1).v is None


def test_only_the_latest_lists_are_expected():
    """A cold run continues an expected list, or ends with the prompt."""
    cold_runs = ColdRunCache(make_model(parse("AA"), exact=False))
    lists = [tuple(range(100 * number, 100 * number + 9)) for number in range(RECENT + 1)]
    for tokens in lists:
        cold_runs.expect(tokens)
    latest, oldest = cold_runs.covering(lists[1][:2]), cold_runs.covering(lists[0][:2])
    assert cold_runs.covers(latest, lists[1], 0) and not cold_runs.covers(oldest, lists[0], 0)
