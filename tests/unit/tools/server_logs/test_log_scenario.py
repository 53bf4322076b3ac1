"""Search for the server of a log: no server is tried twice, and the work is bounded."""

from __future__ import annotations

import pytest

from cachesim.base.errors import NotInBuild
from cachesim.base.limits import REBUILT
from cachesim.tools.server_logs import log_scenario
from cachesim.tools.server_logs.log_scenario import SearchSpace, solve
from cachesim.tools.server_logs.logged_requests import LoggedRequest
from cachesim.tools.server_logs.printed_numbers import Contradiction
from cachesim.tools.server_logs.proven_range import ProvenRange
from cachesim.tools.server_logs.reconstruction import ReconstructedRequest, Reconstruction
from cachesim.tools.server_logs.session import LogSession

HEAD = "llama_cpp@b11549"


def logged(n_tokens, cache_n, predicted_n=1, task=0):
    return LoggedRequest(0, task, (task + 1, task + 1), n_tokens=n_tokens, cache_n=cache_n, predicted_n=predicted_n)


def session(*requests):
    return LogSession("llama_cpp", list(requests))


def known(profiles=(HEAD,), models=("A",), **options):
    return SearchSpace(profiles, models, {}, options, {})


def tries(monkeypatch, *args):
    """Return the result of ``solve``, and the servers that it tried, each with its number of simulated requests."""
    made = []

    class ScenarioBuilder(log_scenario.ScenarioBuilder):
        def build(self, *more):
            made.append((self.profile, self.out.model, dict(self.out.server)))
            found = super().build(*more)
            made[-1] += (len(found.requests),)
            return found

    monkeypatch.setattr(log_scenario, "ScenarioBuilder", ScenarioBuilder)
    return solve(*args), made


NEVER = logged(40, 40, task=1)                # impossible: the last token is always evaluated


def test_no_server_is_tried_twice(monkeypatch):
    open_ = known(models=("A", "GGGA"), cache_reuse=[0, 4])
    found, made = tries(monkeypatch, session(logged(40, 0), NEVER), open_, 10**6)
    named = [(profile, model, str(server)) for profile, model, server, _ in made]
    assert len(set(named)) == len(named) > 2 and found.score[1] < 0 and found.untried_settings == []


def test_a_server_is_abandoned_when_it_cannot_be_better(monkeypatch):
    later = [logged(40, 0, task=2 + i) for i in range(5)]
    found, made = tries(monkeypatch, session(logged(40, 0), NEVER, *later), known(models=("A", "GGGA", "S")), 10**6)
    assert made[0][3] == len(found.requests) == 7
    assert [played for *_, played in made[1:]] == [2, 2]


def test_only_the_first_requests_are_simulated_if_the_budget_is_small(monkeypatch):
    long = [logged(100, 0, 500, task) for task in range(10)]
    found, made = tries(monkeypatch, session(*long), known(), 2_000)
    assert (len(found.requests), made[0][3]) == (4, 4)                # the last answer is not generated
    assert len(solve(session(*long), known(), 10**6).requests) == 10


def test_a_server_that_was_not_fully_tried_is_listed_and_not_selected(monkeypatch):
    requests = session(*[logged(100, 3, 50, task) for task in range(4)])
    found, made = tries(monkeypatch, requests, known(models=("GGGA", "A")), 300)
    assert [model for _, model, *_ in made] == ["GGGA", "A"] and made[1][3] < 4
    assert (found.model, found.untried_settings) == ("GGGA", ["kinds of model"])


def scored(*agreeing):
    """Return a reconstruction in which these requests agree (True), differ (False), or are unknown (None)."""
    out = Reconstruction(HEAD, "A", {})
    out.requests = [
        ReconstructedRequest(logged(9, None if agrees is None else 5), step=0, simulated_n=5 if agrees else 4)
        for agrees in agreeing]  # fmt: skip
    return out


def test_can_exceed_compares_the_highest_possible_score():
    left = [logged(9, 5), logged(9, None)]
    best = scored(True, True, False, True)
    assert scored(True, True).can_exceed(best, left * 2)
    assert scored(True, False).can_exceed(best, left * 3)
    assert not scored(True, False).can_exceed(best, left * 2)              # at most equal
    assert not scored(False, False).can_exceed(best, left * 9)             # more differ already


def test_the_search_ends_when_all_requests_agree(monkeypatch):
    open_ = known(models=("A", "GGGA"), profiles=(HEAD, "llama_cpp@b10587"), cache_reuse=[0, 4])
    found, made = tries(monkeypatch, session(logged(40, 0), logged(40, 39, task=1)), open_, 10**6)
    assert [model for _, model, *_ in made] == ["A"] and [one.agrees for one in found.requests] == [True, True]


def test_a_log_without_lengths_cannot_be_simulated(monkeypatch):
    assert tries(monkeypatch, session(logged(None, 0)), known(), 10**6) == (None, [])


def test_untried_settings_are_listed_when_the_budget_is_exhausted(monkeypatch):
    open_ = known(models=("A", "GGGA"), cache_reuse=[0])
    one = session(logged(40, 0), NEVER)
    first = log_scenario.ScenarioBuilder(one, HEAD, "A", {})
    first.build(10**6, None)
    found, made = tries(monkeypatch, one, open_, first.work)
    assert [model for _, model, *_ in made] == ["A"] and found.untried_settings == ["kinds of model", "cache_reuse"]
    assert found.undecided == sum(one.agrees is False for one in found.requests)


class Tried:
    """Builder of prepared reconstructions, by the values of a server; ``tried`` are the candidates."""

    tried, found = None, None

    def __init__(self, read, profile, model, server):
        self.read, self.key = read, (profile, model, *server.values())
        if self.found.get(self.key) == "refused":
            raise NotInBuild(f"{model} is not in {profile}")
        self.work, self.stopped_early, self.server = 10, False, server

    def build(self, most, best):
        self.tried.append((self.key, most))
        self.stopped_early = self.found.get(self.key) == "stops"
        return made(self.read, self.key, self.server, self.found.get(self.key, "differs"))


def made(read, key, server, how):
    """Return a reconstruction that reuses other tokens, or the logged ones but prints other numbers, or agrees."""
    found = Reconstruction(key[0], key[1], server, line="A9")
    found.requests = [ReconstructedRequest(one, step=0, simulated_n=one.cache_n if how != "differs" else 1)
                      for one in read.requests]  # fmt: skip
    if how == "prints":
        found.requests[0].contradicted = [Contradiction(1, "batch", {}, None)]
    return found


@pytest.fixture
def search(monkeypatch):
    """Return a function that searches with prepared results, and returns the candidates and the result."""
    read = session(logged(9, 5))

    def searched(space, most=1000, **results):
        Tried.tried, Tried.found = [], {tuple(name.split("_")): how for name, how in results.items()}
        monkeypatch.setattr(log_scenario, "ScenarioBuilder", Tried)
        found = solve(read, space, most)
        return Tried.tried, found

    return searched


def space(profiles="p", models="a", options=(), joint=()):
    values = {name: [f"{name}{number}" for number in (1, 2)] for name in (*options, *joint)}
    return SearchSpace(tuple(profiles), tuple(models), {}, {name: values[name] for name in options},
                       {name: values[name] for name in joint})  # fmt: skip


def keys(tried):
    return ["_".join(key) for key, _ in tried]


def test_each_value_is_tried_with_the_best_so_far_in_turn(search):
    tried, found = search(space("pq", "ab", "x"))
    assert keys(tried) == ["p_a", "p_b", "p_a_x1", "p_a_x2", "q_a"]
    assert (found.profile, found.candidates, found.untried_settings, found.unmet) == ("p", 5, [], set())


def test_joint_values_are_tried_with_every_model(search):
    tried, found = search(space("pq", "ab", (), "j"), p_b_j2="agrees")
    assert keys(tried) == ["p_a", "p_b", "p_a_j1", "p_a_j2", "p_b_j1", "p_b_j2"]
    assert (found.model, found.candidates) == ("b", 6)


def test_a_rule_set_that_does_not_load_the_model_is_followed_by_the_next(search):
    tried, found = search(space("pq", "ab"), p_a="refused", p_b="refused", q_b="agrees")
    assert keys(tried) == ["q_a", "q_b"] and found.profile == "q"


def test_the_last_refusal_is_raised_if_every_rule_set_refuses(search):
    with pytest.raises(NotInBuild, match="b is not in q"):
        search(space("pq", "ab"), p_a="refused", p_b="refused", q_a="refused", q_b="refused")


def test_another_build_is_tried_first_if_the_best_prints_other_numbers(search):
    tried, found = search(space("pqr", "ab", "x"), p_a="prints", r_a="agrees")
    assert keys(tried) == ["p_a", "p_b", "q_a", "r_a"] and found.profile == "r"


def test_a_line_that_every_candidate_contradicts_is_reported(search):
    _, found = search(space("pq"), p_a="prints", q_a="prints")
    assert found.unmet == {1}
    _, found = search(space("pq"), p_a="prints", q_a="agrees")
    assert found.unmet == set()


def test_an_eighth_of_the_work_is_for_candidates_that_print_other_numbers(search):
    """Each candidate does 10 units of work."""
    tried, found = search(space("p", "abcd", "x"), most=160, p_a="prints")
    assert tried == [(("p", "a"), 160), (("p", "b"), 20), (("p", "c"), 10)]
    assert found.untried_settings == ["kinds of model", "x"]


def test_the_search_ends_with_its_work(search):
    tried, found = search(space("p", "abcd", "x"), most=25)
    assert tried == [(("p", "a"), 25), (("p", "b"), 15), (("p", "c"), 5)]
    assert found.untried_settings == ["kinds of model", "x"]
    assert keys(search(space("p", "abcd"), most=20)[0]) == ["p_a", "p_b"]


def test_a_candidate_that_stopped_early_is_followed_by_the_next(search):
    tried, found = search(space("p", "abc"), p_b="stops", p_c="agrees")
    assert keys(tried) == ["p_a", "p_b", "p_c"] and found.model == "c"
    assert found.untried_settings == ["kinds of model"]


def test_a_better_value_begins_a_second_round(search):
    tried, found = search(space("pq", "ab", "xy"), p_a_x2="prints")
    first = ["p_a", "p_b", "p_a_x1", "p_a_x2"]
    assert keys(tried) == [*first, "p_a_x2_y1", "p_a_x2_y2", "p_b_x2", "q_a_x2"]
    assert found.score[1] == 0 and found.server == {"x": "x2"}


@pytest.mark.parametrize(("request_", "is_worth"), [
    (LoggedRequest(0, n_tokens=5), True), (LoggedRequest(0, numbers={"n_tokens": ProvenRange(5, 6)}), True),
    (LoggedRequest(0, numbers={"n_tokens": ProvenRange(5, None)}), False), (LoggedRequest(0, cache_n=5), True),
    (LoggedRequest(0, cache_n=0), False), (LoggedRequest(0, cache_n=0, is_whole=True), True),
    (LoggedRequest(0, is_whole=True), False), (LoggedRequest(0, numbers={"lcp": ProvenRange(5, 6)}), True),
    (LoggedRequest(0, numbers={"lcp": ProvenRange(5, None)}), False),
    (LoggedRequest(0, numbers={"cache_n": ProvenRange(0, 6)}), False),
    (LoggedRequest(0, numbers={"cache_n": ProvenRange(1, 6)}), True),
])  # fmt: skip
def test_a_request_is_worth_a_run_if_the_log_bounds_a_number(request_, is_worth):
    assert log_scenario._is_worth_a_run(request_) is is_worth


def contradicting(*numbers, requests=1):
    """Return a reconstruction of these requests whose first contradicts these lines."""
    found = Reconstruction(HEAD, "A", {})
    found.requests = [ReconstructedRequest(logged(9, 5, task=task)) for task in range(requests)]
    found.requests[0].contradicted = [Contradiction(number, "batch", {}, None) for number in numbers]
    return found


def test_lines_that_every_candidate_contradicts_are_kept():
    """The last request of an abandoned candidate, whose lines begin with line 3, is not compared completely."""
    one = log_scenario._Search(session(*(logged(9, 5, task=task) for task in range(3))), known(), 9)
    one._note_unmet(contradicting(1, 2, 3, requests=3))
    assert one.unmet == {1, 2, 3}
    one._note_unmet(contradicting(2, requests=3))
    assert one.unmet == {2}
    one.unmet = {1, 2, 3, 9}
    one._note_unmet(contradicting(2, requests=2))
    assert one.unmet == {2, 3, 9}                                         # only line 1 is compared
    one._note_unmet(contradicting(requests=1))
    assert one.unmet == {2, 3, 9}
    one._note_unmet(contradicting(requests=2))
    assert one.unmet == {2, 3, 9}
    one._note_unmet(contradicting(requests=3))
    assert one.unmet == {9}
    one.unmet = {1, 2}
    one._note_unmet(contradicting(requests=1))
    assert one.unmet == {1, 2}                                            # not even line 1 is compared


def test_values_after_an_abandoned_candidate_are_tried_with_every_model(search):
    tried, found = search(space("p", "ab", (), "j"), p_a_j1="stops", p_b_j2="agrees")
    assert keys(tried) == ["p_a", "p_b", "p_a_j1", "p_a_j2", "p_b_j1", "p_b_j2"] and found.model == "b"


def test_a_single_unit_of_work_is_enough_for_another_candidate(search):
    assert search(space("p", "abcd"), most=21)[0] == [(("p", "a"), 21), (("p", "b"), 11), (("p", "c"), 1)]
    tried, _ = search(space("p", "abcd"), most=88, p_a="prints")
    assert tried == [(("p", "a"), 88), (("p", "b"), 11), (("p", "c"), 1)]


def test_the_first_requests_up_to_the_limit_are_simulated(monkeypatch):
    """One of known length is enough."""
    requests = session(logged(40, 0), logged(None, None, task=1), logged(50, 0, task=2))
    assert len(solve(requests, known(), 10**6).requests) == 3
    monkeypatch.setattr(REBUILT, "now", 2)
    assert len(solve(requests, known(), 10**6).requests) == 2


def test_requests_are_simulated_in_the_order_of_their_launch():
    """The one whose beginning is not in the log began before the other."""
    whole = LoggedRequest(0, 5, (1, 40), n_tokens=40, cache_n=0, is_whole=True)
    begun = LoggedRequest(1, 4, (7, 50), n_tokens=50, cache_n=0)
    found = solve(session(whole, begun), known(), 10**6)
    assert [request.logged.task for request in found.requests] == [4, 5]
