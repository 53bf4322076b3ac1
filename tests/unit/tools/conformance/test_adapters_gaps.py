"""Tests of incomplete adapters: half an ability, an unused cache, time-outs, sampling parameters."""

from __future__ import annotations

import signal
from threading import Thread

import pytest

from cachesim.base.errors import BadInput
from cachesim.tools.conformance import conform
from cachesim.tools.conformance.corpus import DrawBounds, histories
from cachesim.tools.conformance.timeouts import TimeBudget
from tests.conformance import caches
from tests.conformance.naive import FixedCache


class NotInPrompt(caches.Complete):
    """Cannot be interrupted while it evaluates a prompt."""

    def complete(self, prompt, n_predict, cache=True, cancel_after=None):
        if cancel_after == 0:
            raise NotImplementedError("a prompt is one call")
        return super().complete(prompt, n_predict, cache, cancel_after)


def test_half_of_cancel_may_be_missing():
    report = conform(NotInPrompt, max_examples=30)
    assert report.state("cancel") == "ok" and report["cancel"].checked > 5
    assert report["cancel"].why == "not while the prompt is evaluated: a prompt is one call"


@pytest.mark.parametrize(("ability", "drawn"), [("cancel_prompt", {"0"}), ("cancel_answer", {"1", "2", "3"})])
def test_only_the_half_that_is_there_is_drawn(ability, drawn):
    lines = "".join(one.line for one in histories(DrawBounds(6, 64, (), frozenset({ability})), 200))
    assert {piece[0] for piece in lines.split("cancel_after=")[1:]} == drawn


class Forgets(FixedCache):
    """Its adapter looks the prefix up but does not pass it on."""

    def complete(self, prompt, n_predict):
        cached = self.find(tuple(prompt))[1]
        _, said = self.toy.feed(self.toy.empty, prompt[cached:])
        self.keep(tuple(prompt), self.toy.feed(self.toy.empty, prompt)[0])
        return {"tokens": [said.token] * n_predict, "fingerprint": said.digest, "cached": cached}


def test_a_cache_that_is_not_passed_on_is_named():
    report = conform(lambda: Forgets("AA"), max_examples=10, check=False)
    assert report["append"].finding.notes == (
        "first wrong token: generated token 0, at position 3",
        "equals a cold run's answer to only the last 2 tokens: "
        "the model read nothing from the cache (does the adapter pass it?)",
    )


class Hangs(FixedCache):
    """Never returns if something is reused."""

    made = 0

    def complete(self, prompt, n_predict):
        reply = super().complete(prompt, n_predict)
        while reply["cached"]:
            try:
                signal.pause()
            except Exception:                        # must not prevent the time-out
                continue
        return reply


def test_an_object_that_hangs_is_a_finding_after_three_time_outs():
    report = conform(Hangs, max_examples=20, timeout=0.2, check=False)
    assert report["answers"].finding.got == "no reply within 0.2 seconds"
    assert signal.getsignal(signal.SIGALRM) is signal.SIG_DFL
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_somebody_elses_alarm_is_left_alone():
    signal.signal(signal.SIGALRM, lambda *_: None)
    try:
        with TimeBudget(0.01).limit():
            assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    finally:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)


def test_in_another_thread_it_is_waited_for():
    reports = []
    worker = Thread(target=lambda: reports.append(conform(FixedCache, max_examples=5)))
    worker.start()
    worker.join()
    assert reports[0].conforms


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), 1e9])
def test_a_limit_that_is_none_is_refused(seconds):
    with pytest.raises(BadInput, match="seconds: expected more than 0"):
        conform(FixedCache, seconds=seconds)


class Remembers:
    """Keeps whole answers by their prompt and ignores other parameters."""

    def __init__(self):
        self.answers = {}

    def complete(self, prompt, n_predict, sampling=None):
        key = tuple(prompt), n_predict
        if key not in self.answers:
            seed = (sampling or {}).get("seed", 0)
            self.answers[key] = [(seed + sum(prompt)) % 1_000] * n_predict
        return {"tokens": self.answers[key]}


def test_sampling_parameters_are_part_of_a_request():
    parameters = [{"temperature": 0.8, "seed": 1}, {"temperature": 0.8, "seed": 2}]
    assert conform(Remembers, max_examples=15).conforms
    assert conform(Remembers, max_examples=15, sampling=parameters[0]).conforms
    report = conform(Remembers, max_examples=15, sampling=parameters, check=False)
    assert report["repeat"].finding.line == "A1/A"
    assert "sampling {'temperature': 0.8, 'seed': 2}" in report["repeat"].finding.notes
    with pytest.raises(BadInput, match=r"sampling needs a way to pass parameters: complete.. has no parameter"):
        conform(FixedCache, sampling={"seed": 1})


def test_the_time_for_all_may_be_limited():
    report = conform(FixedCache, max_examples=200, seconds=1e-9, check=False)
    assert report.histories == 0 and not report.conforms
    assert report.section("drawn") == "undecided" and "drawn" in report.unfinished
