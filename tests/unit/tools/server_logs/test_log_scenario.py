"""Search for the server of a log: no server is tried twice, and the work is bounded."""

from __future__ import annotations

from cachesim.tools.server_logs import log_scenario
from cachesim.tools.server_logs.log_scenario import SearchSpace, solve
from cachesim.tools.server_logs.logged_requests import LoggedRequest
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


def test_a_log_without_lengths_cannot_be_simulated():
    assert solve(session(logged(None, 0)), known(), 10**6) is None


def test_untried_settings_are_listed_when_the_budget_is_exhausted(monkeypatch):
    open_ = known(models=("A", "GGGA"), cache_reuse=[0])
    one = session(logged(40, 0), NEVER)
    first = log_scenario.ScenarioBuilder(one, HEAD, "A", {})
    first.build(10**6, None)
    found, made = tries(monkeypatch, one, open_, first.work)
    assert [model for _, model, *_ in made] == ["A"] and found.untried_settings == ["kinds of model", "cache_reuse"]
    assert found.undecided == sum(one.agrees is False for one in found.requests)
