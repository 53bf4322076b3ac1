"""Tests of Python objects as implementations, and of the report about their exceptions."""

from __future__ import annotations

import pytest

from cachesim.tools.conformance.jsonl_adapter import PythonSubject
from cachesim.tools.conformance.protocol import CacheRequest, Failed, Unsupported
from cachesim.tools.conformance.timeouts import TimeBudget


class Fails:
    """Raise two calls deep."""

    def complete(self, prompt, n_predict):
        return self.look_up(prompt)

    def look_up(self, prompt):
        return {}[prompt[0]]

    def reset(self):
        raise NotImplementedError


def test_the_place_of_a_failure_is_the_line_that_raised():
    with pytest.raises(Failed) as failed:
        PythonSubject(Fails, TimeBudget(60.0)).complete(CacheRequest((7,)))
    line = Fails.look_up.__code__.co_firstlineno + 1
    assert str(failed.value) == f"KeyError: 7 ({__file__}:{line})"


def test_a_stub_says_what_is_missing():
    subject = PythonSubject(Fails, TimeBudget(60.0))
    with pytest.raises(Unsupported, match="reset is not implemented"):
        subject.reset()
    with pytest.raises(Unsupported, match=r"complete.. has no parameter cancel_after"):
        subject.complete(CacheRequest((7,), cancel_after=0))


@pytest.mark.parametrize("replies", [[], [{"tokens": [1]}], [{"tokens": [1]}] * 3, {}, None])
def test_a_burst_has_a_reply_for_each_request(replies):
    class Loses(Fails):
        def burst(self, requests):
            return replies

    with pytest.raises(Failed, match=r"burst\(\) of 2 requests: expected a list of 2 replies"):
        PythonSubject(Loses, TimeBudget(60.0)).burst([CacheRequest((1,)), CacheRequest((2,))])
