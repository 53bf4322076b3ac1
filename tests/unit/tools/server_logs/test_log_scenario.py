"""Is no server tried in vain, and is the work bounded?"""

from __future__ import annotations

from cachesim.tools.server_logs import log_scenario
from cachesim.tools.server_logs.log_scenario import Open, solve
from cachesim.tools.server_logs.reconstruction import Rebuild, Rebuilt
from cachesim.tools.server_logs.session import Logged, LogSession

HEAD = "llama_cpp@b11549"


def logged(n_tokens, cache_n, predicted_n=1, task=0):
    return Logged(0, task, (task + 1, task + 1), n_tokens=n_tokens, cache_n=cache_n, predicted_n=predicted_n)


def session(*requests):
    return LogSession("llama_cpp", list(requests))


def known(profiles=(HEAD,), models=("A",), **options):
    return Open(profiles, models, {}, options, {})


def tries(monkeypatch, *args):
    """The servers that were tried, with the requests played of each; and what was found."""
    made = []

    class Builder(log_scenario.Builder):
        def build(self, *more):
            made.append((self.profile, self.out.model, dict(self.out.server)))
            found = super().build(*more)
            made[-1] += (len(found.requests),)
            return found

    monkeypatch.setattr(log_scenario, "Builder", Builder)
    return solve(*args), made


NEVER = logged(40, 40, task=1)                # a token at least is evaluated


def test_no_server_is_tried_twice(monkeypatch):
    open_ = known(models=("A", "GGGA"), cache_reuse=[0, 4])
    found, made = tries(monkeypatch, session(logged(40, 0), NEVER), open_, 10**6)
    named = [(profile, model, str(server)) for profile, model, server, _ in made]
    assert len(set(named)) == len(named) > 2 and found.score[1] < 0 and found.unsought == []


def test_a_server_is_given_up_where_it_cannot_be_better(monkeypatch):
    later = [logged(40, 0, task=2 + i) for i in range(5)]
    found, made = tries(monkeypatch, session(logged(40, 0), NEVER, *later), known(models=("A", "GGGA", "S")), 10**6)
    assert made[0][3] == len(found.requests) == 7
    assert [played for *_, played in made[1:]] == [2, 2]


def test_of_a_log_that_takes_too_long_the_first_requests_are_played(monkeypatch):
    long = [logged(100, 0, 500, task) for task in range(10)]
    found, made = tries(monkeypatch, session(*long), known(), 2_000)
    assert (len(found.requests), made[0][3]) == (4, 4)                # the answer of the last one is not generated
    assert len(solve(session(*long), known(), 10**6).requests) == 10


def test_a_server_that_was_cut_is_named_and_not_taken(monkeypatch):
    requests = session(*[logged(100, 3, 50, task) for task in range(4)])
    found, made = tries(monkeypatch, requests, known(models=("GGGA", "A")), 300)
    assert [model for _, model, *_ in made] == ["GGGA", "A"] and made[1][3] < 4
    assert (found.model, found.unsought) == ("GGGA", ["kinds of model"])


def scored(*agreeing):
    """A rebuild in which these requests agree (True), differ (False), or say nothing (None)."""
    out = Rebuild(HEAD, "A", {})
    out.requests = [Rebuilt(logged(9, None if one is None else 5), step=0, got=5 if one else 4) for one in agreeing]
    return out


def test_whether_it_can_pass_another():
    left = [logged(9, 5), logged(9, None)]
    best = scored(True, True, False, True)
    assert scored(True, True).can_pass(best, left * 2)
    assert scored(True, False).can_pass(best, left * 3)
    assert not scored(True, False).can_pass(best, left * 2)              # it can only be as good
    assert not scored(False, False).can_pass(best, left * 9)             # more differ already


def test_where_everything_agrees_nothing_more_is_tried(monkeypatch):
    open_ = known(models=("A", "GGGA"), profiles=(HEAD, "llama_cpp@head"), cache_reuse=[0, 4])
    found, made = tries(monkeypatch, session(logged(40, 0), logged(40, 39, task=1)), open_, 10**6)
    assert [model for _, model, *_ in made] == ["A"] and [one.agrees for one in found.requests] == [True, True]


def test_a_log_without_lengths_cannot_be_played():
    assert solve(session(logged(None, 0)), known(), 10**6) is None


def test_what_was_not_tried_is_named_where_the_work_is_used_up(monkeypatch):
    open_ = known(models=("A", "GGGA"), cache_reuse=[0])
    one = session(logged(40, 0), NEVER)
    first = log_scenario.Builder(one, HEAD, "A", {})
    first.build(10**6, None)
    found, made = tries(monkeypatch, one, open_, first.work)
    assert [model for _, model, *_ in made] == ["A"] and found.unsought == ["kinds of model", "cache_reuse"]
    assert found.undecided == sum(one.agrees is False for one in found.requests)
