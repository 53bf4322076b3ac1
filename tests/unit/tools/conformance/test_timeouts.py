"""Time limits: remaining seconds, counted time-outs, and the sentences of a run that ends early."""

from __future__ import annotations

import signal
import threading
import time

import pytest

from cachesim.tools.conformance.protocol import TimedOut
from cachesim.tools.conformance.timeouts import TimeBudget, TimeoutsExhausted


@pytest.mark.parametrize(("missed", "is_low", "is_gone", "why"), [
    (0, False, False, "not run: stopped after 9.5 seconds"), (1, False, False, "not run: stopped after 9.5 seconds"),
    (2, True, False, "not run: 2 replies timed out"), (3, True, True, "not run: 3 replies timed out"),
])  # fmt: skip
def test_three_missed_replies_are_all(missed, is_low, is_gone, why):
    budget = TimeBudget(2.0, 9.5)
    budget.missed = missed
    assert (budget.is_low, budget.is_gone, budget.why) == (is_low, is_gone, why)
    assert (budget.missed_reply, budget.stopped) == ("no reply within 2 seconds", "stopped after 9.5 seconds")
    if is_gone:
        with pytest.raises(TimeoutsExhausted, match=why):
            budget.check()
        with pytest.raises(TimeoutsExhausted, match=why), budget.limit():
            raise AssertionError("the body ran")
    else:
        budget.check()


@pytest.mark.parametrize(("killed", "grace"), [(0, 2.0), (2, 2.0), (3, 0.02)])
def test_a_process_has_little_time_to_end_after_several_were_killed(killed, grace):
    budget = TimeBudget(1)
    budget.killed = killed
    assert budget.grace == grace


def test_a_body_is_interrupted_and_the_signal_given_back():
    budget = TimeBudget(0.01)
    with pytest.raises(TimedOut, match=r"^no reply within 0.01 seconds$"), budget.limit():
        while True:
            try:
                time.sleep(1)
            except Exception:
                raise AssertionError("foreign code could catch it") from None
    assert budget.missed == 1 and signal.getsignal(signal.SIGALRM) is signal.SIG_DFL
    with budget.limit():
        assert signal.getsignal(signal.SIGALRM) is not signal.SIG_DFL
    assert budget.missed == 1 and signal.getitimer(signal.ITIMER_REAL) == (0, 0)


def test_a_used_signal_and_another_thread_have_no_alarm():
    handlers = []
    before = signal.signal(signal.SIGALRM, signal.SIG_IGN)
    try:
        with TimeBudget(60).limit():
            handlers.append(signal.getsignal(signal.SIGALRM))
    finally:
        signal.signal(signal.SIGALRM, before)

    def work():
        with TimeBudget(60).limit():
            handlers.append(signal.getsignal(signal.SIGALRM))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert handlers == [signal.SIG_IGN, signal.SIG_DFL]


@pytest.mark.parametrize(("passed", "left", "is_spent"), [(0, 4, False), (17, 3, False), (19.5, 0.5, False),
                                                          (20, 0, True), (21, 0, True)])  # fmt: skip
def test_a_reply_has_no_more_time_than_the_run(passed, left, is_spent):
    budget = TimeBudget(4, 20)
    budget.end -= passed
    assert (budget.left, budget.is_spent) == (pytest.approx(left, abs=0.4), is_spent)
    assert (TimeBudget(4).left, TimeBudget(4).is_spent, budget.requests) == (4, False, 0)
