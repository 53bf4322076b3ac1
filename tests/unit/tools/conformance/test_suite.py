"""Arguments of conform that are refused before anything runs."""

from __future__ import annotations

from inspect import signature

import pytest

from cachesim.base.errors import BadInput
from cachesim.tools.conformance import Nonconforming, conform
from cachesim.tools.conformance import suite as module
from cachesim.tools.conformance.client_history import parse_history
from cachesim.tools.conformance.fingerprint import identical
from cachesim.tools.conformance.history_player import SubjectAbilities
from cachesim.tools.conformance.protocol import CacheRequest, RequestKey
from cachesim.tools.conformance.report import Report, Result
from tests.conformance.naive import NaiveCache


@pytest.mark.parametrize(("arguments", "message"), [
    ({"corpus": "all"}, "corpus: expected \"any\" or \"\", found 'all'"),
    ({"accepted": {"prefx": "known"}}, r"accepted: unknown property 'prefx' \(did you mean 'prefix'\?\)"),
    ({"accepted": {"prefix": " "}}, "accepted: the reason for prefix is missing"),
    ({"cold": "warm"}, "cold: expected \"fresh\""), ({"histories": "A1/A"}, "histories: expected a list of"),
    ({"histories": [1]}, "histories: expected a list of"), ({"near": 4}, "near: expected a list of"),
    ({"sampling": [1]}, "sampling: expected a mapping"),
    ({"tokens": range(3)}, "tokens: expected at least"), ({"tokens": [1, 1, *range(40)]}, "tokens: expected at least"),
    ({"max_examples": 0}, "expected max_examples from 1"), ({"max_prompt": 1}, "max_prompt from 2"),
    ({"max_requests": 0}, "max_requests from 1 to"), ({"max_requests": 1000}, "max_requests from 1 to"),
])  # fmt: skip
def test_a_bad_argument_is_refused_at_once(arguments, message):
    def never():
        raise AssertionError("an instance was made")

    with pytest.raises(BadInput, match=message):
        conform(never, **arguments)


@pytest.mark.parametrize("arguments", [{"corpus": ""}, {"corpus": "any"}])
def test_both_values_of_corpus_are_taken(arguments):
    report = conform(NaiveCache, max_examples=1, only=["same"], check=False, **arguments)
    assert report.results


def test_a_report_with_a_failing_property_is_raised_unless_it_is_wanted_as_it_is():
    class Wrong(NaiveCache):
        made = 0

        def complete(self, prompt, n_predict=1):
            Wrong.made += 1
            return {"tokens": [Wrong.made % 7 + 1] * n_predict}

    report = conform(Wrong, max_examples=1, only=["same"], check=False)
    assert report.failing
    with pytest.raises(Nonconforming):
        conform(Wrong, max_examples=1, only=["same"])


@pytest.mark.parametrize(("arguments", "message"), [
    ({"timeout": 0}, "timeout: expected more than 0 and at most 86400 seconds, found 0"),
    ({"timeout": 86_401}, "timeout: expected more than 0"), ({"timeout": "x"}, "timeout: expected more than 0"),
    ({"seconds": 0}, "seconds: expected more than 0"), ({"seconds": -1.5}, "seconds: expected more than 0"),
    ({"keys": "a"}, "keys: expected a list of texts, or pairs of a text and a first token, found 'a'"),
    ({"keys": [("a", -1)]}, "keys: expected"), ({"keys": [("a", "b")]}, "keys: expected"),
    ({"keys": [(1, 2)]}, "keys: expected"), ({"keys": [("a", 1, 2)]}, "keys: expected"),
])  # fmt: skip
def test_limits_and_keys_are_checked(arguments, message):
    with pytest.raises(BadInput, match=message):
        conform(NaiveCache, **arguments)


def test_keys_may_have_a_first_token():
    assert module._read_keys(["a", ("b", 3), "", ("", 3)]) == (
        RequestKey("a", 0), RequestKey("b", 3), RequestKey("", 0), RequestKey("", 0))  # fmt: skip
    assert module._read_keys(("a",)) == (RequestKey("a"),) and module._read_keys(()) == ()
    assert module._read_keys([("a", 0)]) == (RequestKey("a"),)


@pytest.mark.parametrize(("timeout", "seconds"), [(86_400, 86_400), (0.5, None), (3, 0.25)])
def test_time_limits_up_to_a_day_are_taken(timeout, seconds):
    budget = module._budget(timeout, seconds)
    assert (budget.timeout, budget.seconds) == (timeout, seconds)


@pytest.mark.parametrize("factory", ["python x.py", b"python", [], 7, None])
def test_a_factory_is_callable_or_a_list_of_words(factory):
    with pytest.raises(BadInput, match="factory: expected a callable or the words of a command line, found"):
        conform(factory)


@pytest.mark.parametrize(("arguments", "needs"), [
    ({"cold": "request"}, 'cold = "request" needs requests without cache: no cache'),
    ({"reset": True}, "reset needs a way to reset: no reset"),
    ({"sampling": {"temperature": 0}}, "sampling needs a way to pass parameters: no sampling"),
    ({"keys": ["a"]}, "keys need a way to pass a key: no key"),
])  # fmt: skip
def test_an_option_needs_its_ability(monkeypatch, arguments, needs):
    lacks = {needs.rpartition(" ")[2]: needs.rpartition(": ")[2]}
    monkeypatch.setattr(module, "probe", lambda *words: SubjectAbilities(lacks))
    monkeypatch.setattr(module, "make_report", lambda *words: Report(()))
    with pytest.raises(BadInput, match=needs):
        conform(NaiveCache, **arguments)


def test_abilities_are_tried_with_the_first_sampling_and_the_key_with_most_room(monkeypatch):
    seen = []

    def probed(make, tokens, sampling, key):
        seen.append((list(tokens)[:2], sampling, key))
        return SubjectAbilities({})

    monkeypatch.setattr(module, "probe", probed)
    monkeypatch.setattr(module, "make_report", lambda *words: Report(()))
    conform(NaiveCache)
    conform(NaiveCache, tokens=range(5, 300), sampling=[{"a": 1}, {"a": 2}], keys=["c", ("a", 3), ("b", 3), ""])
    assert seen == [([1_000, 1_001], {}, RequestKey()), ([5, 6], {"a": 1}, RequestKey("b", 3))]


def test_abilities_that_are_not_asked_for_may_be_missing(monkeypatch):
    monkeypatch.setattr(module, "probe", lambda *words: SubjectAbilities({"cache": "no cache", "reset": "no reset"}))
    monkeypatch.setattr(module, "make_report", lambda *words: Report(()))
    assert conform(NaiveCache) == Report(())


@pytest.mark.parametrize(("cold", "instances"), [("fresh", 3), ("request", 2)])
def test_a_cold_run_has_a_new_instance_or_one_whose_cache_is_off(monkeypatch, cold, instances):
    """Beside those that try the abilities, and that of the warm run."""
    made = []

    class Switched(NaiveCache):
        def __init__(self):
            super().__init__()
            made.append(self)

        def complete(self, prompt, n_predict=1, cache=True):
            return super().complete(prompt, n_predict)

    def played(plan, bench, runs, budget):
        made.clear()
        for _ in range(2):
            runs.answer(CacheRequest((1, 2, 3)))
        with bench.empty():
            return Report(())

    monkeypatch.setattr(module, "_played", played)
    conform(Switched, cold=cold)
    assert len(made) == instances


def test_the_defaults_of_the_arguments_are_those_of_the_page():
    found = {name: one.default for name, one in signature(conform).parameters.items() if name != "factory"}
    assert found == {
        "cold": "fresh", "corpus": "", "histories": (), "max_examples": 200, "max_requests": 6, "max_prompt": 256,
        "near": (), "tokens": range(1_000, 30_000), "same": identical, "sampling": (), "keys": (), "only": (),
        "strict": False, "accepted": None, "reset": False, "timeout": 60.0, "seconds": None, "check": True}  # fmt: skip


def test_a_failure_that_is_accepted_is_marked_and_does_not_raise(monkeypatch):
    monkeypatch.setattr(module, "probe", lambda *words: SubjectAbilities({}))
    failed = Report((Result("prefix", "same", "s", "failed"),))
    monkeypatch.setattr(module, "make_report", lambda *words: failed)
    found = conform(NaiveCache, accepted={"prefix": "known"})
    assert (found["prefix"].state, found["prefix"].why) == ("accepted", "known")
    with pytest.raises(Nonconforming) as raised:
        conform(NaiveCache)
    (shown,) = [entry for entry in raised.traceback if entry.frame.code.name == "conform"]
    assert shown.ishidden(raised), "pytest shows the line of the test instead"


def test_the_requests_of_a_floor_have_the_first_key_that_has_a_name(monkeypatch):
    """Under several keys, the last request would find nothing that it may reuse."""
    class Keyed(NaiveCache):
        def complete(self, prompt, n_predict=1, key="", key_start=0):
            return super().complete(prompt, n_predict)

    keys = []

    def made(plan, abilities, search, cold, play_floor):
        keys.extend([ask.key for ask in play(parse_history("A3/A/A")).asks] for play in (search.play, play_floor))
        return Report(())

    monkeypatch.setattr(module, "make_report", made)
    conform(Keyed, keys=["", "a", "b"])
    a, b = RequestKey("a"), RequestKey("b")
    assert keys == [[RequestKey(), a, b], [a, a, a]]


def test_a_list_of_words_is_the_command_line_of_a_process():
    budget = module._budget(5, None)
    made = module.maker(["python", 7], budget)
    assert (made.func, made.args) == (module.ProcessSubject, (["python", "7"], budget))
    made = module.maker(NaiveCache, budget)
    assert (made.func, made.args) == (module.PythonSubject, (NaiveCache, budget))
