"""Arguments of conform that are refused before anything runs."""

from __future__ import annotations

from inspect import signature

import pytest

from cachesim.base.errors import BadInput
from cachesim.tools.conformance import Nonconforming, conform
from cachesim.tools.conformance.compare_replies import identical
from tests.conformance.naive import FixedCache, NaiveCache


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


@pytest.mark.parametrize("factory", ["python x.py", b"python", [], 7, None])
def test_a_factory_is_callable_or_a_list_of_words(factory):
    with pytest.raises(BadInput, match="factory: expected a callable or the words of a command line, found"):
        conform(factory)


def test_the_defaults_of_the_arguments_are_those_of_the_page():
    found = {name: one.default for name, one in signature(conform).parameters.items() if name != "factory"}
    assert found == {
        "cold": "fresh", "corpus": "", "histories": (), "max_examples": 200, "max_requests": 6, "max_prompt": 256,
        "near": (), "tokens": range(1_000, 30_000), "same": identical, "sampling": (), "keys": (), "only": (),
        "strict": False, "accepted": None, "reset": False, "timeout": 60.0, "seconds": None, "check": True}  # fmt: skip


class Plain:
    """A cache without any further ability."""

    def __init__(self):
        self.cache = NaiveCache()

    def complete(self, prompt, n_predict):
        return self.cache.complete(prompt, n_predict)


@pytest.mark.parametrize(("arguments", "needs"), [
    ({"cold": "request"}, "cache"), ({"reset": True}, "reset"), ({"sampling": {"temperature": 0}}, "sampling"),
    ({"keys": ["a"]}, "key"),
])  # fmt: skip
def test_an_option_needs_its_ability(arguments, needs):
    with pytest.raises(BadInput, match=needs):
        conform(Plain, max_examples=1, only=["same"], **arguments)
    assert conform(Plain, max_examples=1, only=["same"], check=False).results


@pytest.mark.parametrize(("cold", "is_kept"), [("fresh", False), ("request", True)])
def test_a_cold_run_has_a_new_instance_or_one_whose_cache_is_off(cold, is_kept):
    made, off = [], []

    class Switched(FixedCache):
        def __init__(self):
            super().__init__()
            made.append(self)

        def complete(self, prompt, n_predict=1, cache=True):
            off.append(not cache)
            return super().complete(prompt, n_predict, cache)

    conform(Switched, cold=cold, max_examples=1, only=["same"])
    assert (off.count(True) > len(off) // 2) is is_kept
