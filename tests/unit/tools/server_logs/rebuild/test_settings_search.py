"""Search for the server of a log: the first candidate that reproduces the log wins, and the work is bounded."""

from __future__ import annotations

import gc
import tracemalloc

import pytest

from cachesim.base.errors import BadInput, NotInBuild
from cachesim.base.limits import lift
from cachesim.tools.server_logs.facts.log_reader import read_session
from cachesim.tools.server_logs.facts.proven_range import ProvenRange
from cachesim.tools.server_logs.facts.session import LogSession
from cachesim.tools.server_logs.lines.recognise import grammars
from cachesim.tools.server_logs.rebuild.settings_search import SearchSpace, solve
from tests.unit.tools.server_logs.records import logged as request_of
from tests.unit.tools.server_logs.simulated_log import simulated_log

HEAD, OLDER, OLD = "llama_cpp@b11549", "llama_cpp@b9231", "llama_cpp@b1573"
ENOUGH = 10**6               # work units
SIZED = {"ubatch_size": (512, 64)}


def logged(n_tokens, cache_n, predicted_n=1, task=0):
    return request_of(0, task, (task + 1, task + 1), n_tokens=n_tokens, cache_n=cache_n, predicted_n=predicted_n)


NEVER = logged(40, 40, task=1)                # impossible: the last token is always evaluated


def search(requests, most=ENOUGH, profiles=(HEAD,), models=("A",), options=None, joint=None, server=None):
    """Return the best reconstruction of these requests."""
    session = LogSession("llama_cpp", list(requests))
    return solve(session, SearchSpace(profiles, models, server or {}, options or {}, joint or {}), most)


def of_log(text, most=ENOUGH, model="GGGA", **more):
    """Return the best reconstruction of a simulated log."""
    lines = simulated_log(text, model, 4, **more.pop("printed", {})).splitlines()
    session = read_session("llama_cpp", grammars()["llama_cpp"], lines)
    return search(session.requests, most, server={"parallel": 1, "ctx_size": 32768}, **more)


def test_the_search_ends_when_all_requests_agree():
    found = search([logged(40, 0), logged(40, 39, task=1)], models=("A", "GGGA"), options={"cache_reuse": [0, 4]})
    assert (found.candidates, found.model, found.server) == (1, "A", {})
    assert [one.agrees for one in found.requests] == [True, True]


def test_every_value_is_tried_once_with_the_best_so_far_if_a_request_differs():
    found = search([logged(40, 0), NEVER], models=("A", "GGGA"), options={"cache_reuse": [0, 4]})
    assert (found.candidates, found.score[:2], found.untried_settings) == (4, (1, -1), []) and found.is_complete


def memory_of_search(models, options):
    """Return the number of candidates of a search for a log with long prompts, and its peak memory [bytes]."""
    tracemalloc.start()
    try:
        requests = [logged(3_000, 0), logged(3_000, 3_000, task=1)]
        found = search(requests, models=models, options=options, server={"ctx_size": 4_500, "parallel": 1})
        return found.candidates, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_the_memory_of_a_search_does_not_grow_with_the_number_of_candidates():
    memory_of_search(("GGGA",), {})                            # loads what the first search needs
    alone, size = memory_of_search(("GGGA",), {})
    tried, most = memory_of_search(("GGGA", "S", "A"), {"cache_reuse": [0, 4, 8]})
    assert (alone, tried) == (1, 6) and most < 1.5 * size
    assert gc.get_freeze_count() == 0


@pytest.mark.parametrize("values", [{"options": SIZED}, {"joint": SIZED}])
def test_the_value_is_found_under_which_the_simulation_prints_the_numbers_of_the_log(values):
    """A checkpoint is made a micro-batch before the end of a prompt."""
    found = of_log("S900.A700>a40/T2000>t9", models=("A", "GGGA"), printed={"ubatch_size": 64}, **values)
    assert (found.model, found.server["ubatch_size"], found.contradicted, found.unmet) == ("GGGA", 64, [], set())


@pytest.mark.parametrize(("how", "model", "agrees"), [("joint", "GGGA", True), ("options", "A", False)])
def test_joint_values_are_tried_with_every_model_and_others_with_the_best_so_far(how, model, agrees):
    """The second request resumes at the checkpoint; the model without checkpoints differs no more than the other."""
    resumed = request_of(0, 1, (2, 2), n_tokens=1000, cache_n=(932, 940), lcp=950)
    found = search([logged(1000, 0), resumed], models=("A", "GGGA"), server={"parallel": 1}, **{how: SIZED})
    assert (found.model, found.requests[1].agrees) == (model, agrees)


def test_an_older_build_is_left_if_its_successor_prints_the_numbers_of_the_log():
    found = of_log("S900.|A700>a40/S.|B90>b9/T2000>t9", profiles=(OLDER, HEAD), models=("GGGA",))
    assert (found.profile, found.candidates, found.contradicted) == (HEAD, 2, [])


def test_a_rule_set_that_does_not_load_the_model_is_followed_by_the_next():
    found = search([logged(40, 0)], profiles=(OLD, HEAD), models=("I2048",))
    assert (found.profile, found.model) == (HEAD, "I2048")
    with pytest.raises(NotInBuild):
        search([logged(40, 0)], profiles=(OLD,), models=("I2048",))


def test_other_refusals_of_a_server_end_the_search():
    with pytest.raises(BadInput):
        search([logged(40, 0)], server={"parallel": 0})


def test_only_the_first_requests_are_simulated_if_the_budget_is_small():
    long = [logged(100, 0, 500, task) for task in range(10)]
    assert len(search(long, 2_000).requests) == 4                        # the last answer is not generated
    assert len(search(long).requests) == 10


def test_a_server_that_was_not_fully_tried_is_listed_and_not_selected():
    found = search([logged(100, 3, 50, task) for task in range(4)], 300, models=("GGGA", "A"))
    assert (found.model, found.candidates, found.untried_settings) == ("GGGA", 2, ["kinds of model"])


@pytest.mark.parametrize(("most", "candidates"), [(200, 1), (400, 2)])
def test_untried_settings_are_listed_when_the_budget_is_exhausted(most, candidates):
    found = search([logged(40, 0), NEVER], most, models=("A", "GGGA", "S"), options={"cache_reuse": [0]})
    assert (found.candidates, found.untried_settings) == (candidates, ["kinds of model", "cache_reuse"])
    assert found.undecided == sum(one.agrees is False for one in found.requests) == 1


@pytest.mark.parametrize(("most", "model", "candidates"), [(500, "A", 1), (2000, "GGGA", 2), (ENOUGH, "GGGA", 4)])
def test_an_eighth_of_the_work_is_for_candidates_that_print_other_numbers(most, model, candidates):
    """Each run takes about 300 work units, and all of them reuse the logged tokens."""
    found = of_log("S900.A700>a40/T2000>t9", most, models=("A", "GGGA"), options=SIZED, printed={"ubatch_size": 64})
    assert (found.model, found.candidates, found.untried_settings == []) == (model, candidates, most == ENOUGH)


@pytest.mark.parametrize(("request_", "is_worth"), [
    (request_of(0, n_tokens=5), True), (request_of(0, numbers={"n_tokens": ProvenRange(5, 6)}), True),
    (request_of(0, numbers={"n_tokens": ProvenRange(5, None)}), False), (request_of(0, cache_n=5), True),
    (request_of(0, cache_n=0), False), (request_of(0, cache_n=0, is_whole=True), True),
    (request_of(0, is_whole=True), False), (request_of(0, numbers={"lcp": ProvenRange(5, 6)}), True),
    (request_of(0, numbers={"cache_n": ProvenRange(0, 6)}), False),
    (request_of(0, numbers={"cache_n": ProvenRange(1, 6)}), True),
])  # fmt: skip
def test_a_log_is_simulated_if_it_bounds_a_number_of_a_request(request_, is_worth):
    assert (search([request_]) is not None) is is_worth


def test_the_first_requests_up_to_the_limit_are_simulated():
    """One of known length is enough."""
    requests = [logged(40, 0), logged(None, None, task=1), logged(50, 0, task=2)]
    assert len(search(requests).requests) == 3
    lift({"rebuilt": 2})
    assert len(search(requests).requests) == 2


def test_requests_are_simulated_in_the_order_of_their_launch():
    """The one whose beginning is not in the log began before the other."""
    whole = request_of(0, 5, (1, 40), n_tokens=40, cache_n=0, is_whole=True)
    begun = request_of(1, 4, (7, 50), n_tokens=50, cache_n=0)
    assert [request.logged.task for request in search([whole, begun]).requests] == [4, 5]
