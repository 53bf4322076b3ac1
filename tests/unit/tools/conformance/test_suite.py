"""Arguments of conform that are refused before anything runs."""

from __future__ import annotations

import pytest

from cachesim.base.errors import BadInput
from cachesim.tools.conformance import Nonconforming, conform
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
