"""A process that exchanges JSON lines, and the end of what it wrote on stderr."""

from __future__ import annotations

import os
import re
import signal
import sys

import pytest

from cachesim.tools.conformance import timeouts
from cachesim.tools.conformance.jsonl_adapter import TAIL, ProcessSubject, PythonSubject, StderrTail
from cachesim.tools.conformance.protocol import CacheRequest, Failed, RequestKey, TimedOut, Unsupported
from cachesim.tools.conformance.timeouts import TimeBudget, TimeoutsExhausted


def tail_of(data: bytes) -> StderrTail:
    reader, writer = os.pipe()
    tail = StderrTail(os.fdopen(reader, "rb"))
    with os.fdopen(writer, "wb") as stream:
        stream.write(data)
    tail.thread.join()
    return tail


@pytest.mark.parametrize(("data", "line"), [
    (b"", ""), (b"one", "one"), (b"one\ntwo\n\n", "two"), (b"\xff", "\ufffd"),
    (b"x" * (TAIL - 4) + b"\nend", "end"),
    (b"x" * (TAIL - 3) + b"\nend", f"end (the end of {TAIL + 1} bytes on stderr)"),
    (b"ab\n" * TAIL, f"ab (the end of {3 * TAIL} bytes on stderr)"),
])  # fmt: skip
def test_the_last_line_says_how_much_came_before_the_kept_end(data: bytes, line: str) -> None:
    tail = tail_of(data)
    assert tail.last_line() == line
    assert tail.kept == data[-TAIL:] and tail.thread.daemon


@pytest.fixture
def answering():
    """Return a function that starts a process which prints these lines, one for each line that it reads."""
    started = []

    def start(*replies):
        program = f"import sys\nfor reply in {replies!r}:\n  sys.stdin.readline(); print(reply, flush=True)\n" \
                  "print('last words', file=sys.stderr)\nsys.exit(3)"  # fmt: skip
        started.append(ProcessSubject([sys.executable, "-S", "-E", "-c", program], TimeBudget(60)))
        return started[-1]

    yield start
    for subject in started:
        subject.close()


def test_each_question_has_the_answer_of_its_line(answering):
    subject = answering('{"limits": {"context": 64}}', "{}", '{"tokens": [7], "cached": 2}')
    assert subject.limits() == {"context": 64}
    subject.reset()
    reply = subject.complete(CacheRequest((1, 2, 3), 1))
    assert (list(reply.tokens), reply.cached) == ([7], 2)
    assert subject.talk.daemon, "a process that never replies does not keep Python from ending"
    with pytest.raises(Failed, match="the process ended with status 3: last words"):
        subject.reset()
    with pytest.raises(Failed, match="the process ended with status 3: last words"):      # and stays dead
        subject.reset()


@pytest.mark.parametrize(("reply", "kind", "message"), [
    ('{"unsupported": "no reset"}', Unsupported, "no reset"), ("[1]", Failed, "expected a JSON object, found the line"),
    ("a log line", Failed, r"found the line b'a log line\\n' \(write log lines to stderr\)"),
])  # fmt: skip
def test_a_line_that_is_not_an_answer_is_reported(answering, reply, kind, message):
    with pytest.raises(kind, match=message):
        answering(reply).reset()


def started(program, timeout=60):
    """Return a process that runs a program."""
    return ProcessSubject([sys.executable, "-S", "-E", "-c", program], TimeBudget(timeout))


def test_a_process_ends_by_itself_when_its_input_ends():
    subject = started("import sys; sys.stdin.read(); sys.exit(4)")
    subject.close()
    assert (subject.process.returncode, subject.budget.killed) == (4, 0)
    assert subject.process.stdin.closed and subject.process.stdout.closed


def test_a_process_that_does_not_end_is_killed_with_its_children(monkeypatch):
    """The children hold stderr: its reader ends with the last of them."""
    monkeypatch.setattr(timeouts, "GRACE", 0.1)
    subject = started("import os, time\nos.fork()\nos.write(1, b'x')\ntime.sleep(60)")
    assert os.read(subject.process.stdout.fileno(), 1) == os.read(subject.process.stdout.fileno(), 1) == b"x"
    subject.close()
    subject.errors.thread.join(30)
    assert subject.process.returncode == -signal.SIGKILL and not subject.errors.thread.is_alive()
    assert subject.budget.killed


def test_a_child_that_left_the_group_may_hold_the_pipes(monkeypatch):
    """The exchange outlives the process and counts; the pipes stay open for the thread that reads them."""
    monkeypatch.setattr(timeouts, "GRACE", 0.1)
    subject = started("import os, time\nif os.fork() == 0:\n  os.setsid(); time.sleep(2)\nelse: time.sleep(60)", 0.5)
    with pytest.raises(TimedOut):
        subject.reset()
    subject.close()
    assert subject.process.returncode == -signal.SIGKILL and subject.budget.killed
    assert not subject.process.stdout.closed and subject.talk.is_alive()
    subject.talk.join(30)
    assert subject.process.stdout.closed and subject.process.stdin.closed


def test_no_process_is_started_after_the_last_time_out():
    budget = TimeBudget(60)
    budget.missed = timeouts.TIMEOUTS
    with pytest.raises(TimeoutsExhausted):
        ProcessSubject(["/no/such/program"], budget)


def test_a_missed_reply_kills_the_process_and_counts():
    subject = started("import time; time.sleep(60)", timeout=0.01)
    with pytest.raises(TimedOut) as missed:
        subject.reset()
    assert (subject.process.poll(), subject.budget.missed) == (-signal.SIGKILL, 1)
    assert str(missed.value) == subject.dead == "no reply within 0.01 seconds"
    with pytest.raises(Failed, match=re.escape(str(missed.value))):
        subject.reset()
    assert subject.budget.missed == 1
    subject.close()


def test_a_burst_has_a_reply_for_each_request(answering):
    asks = [CacheRequest((1,), 1), CacheRequest((2,), 1)]
    subject = answering('{"replies": [{"tokens": [7]}, {"tokens": [8], "cached": 1}]}', '{"replies": [{}]}', "{}")
    assert [(list(one.tokens), one.cached) for one in subject.burst(asks)] == [([7], None), ([8], 1)]
    for _ in range(2):
        with pytest.raises(Failed, match="burst of 2 requests: expected a list of 2 replies"):
            subject.burst(asks)


@pytest.mark.parametrize(("command", "why"), [
    (["/no/such/program"], "'/no/such/program' cannot be started: No such file or directory"),
    (["a\0b"], r"'a\\x00b' cannot be started: embedded null byte"),
])  # fmt: skip
def test_a_program_that_cannot_be_started_is_named(command, why):
    with pytest.raises(Failed, match=why):
        ProcessSubject(command, TimeBudget(60))


class Cache:
    """An implementation with every ability."""

    def complete(self, prompt, n_predict, cache=True, cancel_after=None):
        return {"tokens": [len(prompt) + n_predict], "cached": int(cache)}

    def burst(self, requests):
        return [self.complete(**one) for one in requests]

    def limits(self):
        return {"entries": 2}

    def reset(self):
        raise NotImplementedError


def test_an_object_has_the_abilities_of_its_methods_and_parameters():
    subject = PythonSubject(Cache, TimeBudget(60))
    assert list(subject.complete(CacheRequest((1, 2), 3)).tokens) == [5]
    assert subject.complete(CacheRequest((1, 2), 3, cache=False)).cached == 0
    assert [list(one.tokens) for one in subject.burst([CacheRequest((1,), 1), CacheRequest((1, 2), 1)])] == [[2], [3]]
    assert subject.limits() == {"entries": 2}
    with pytest.raises(Unsupported, match=r"complete\(\) has no parameter key"):
        subject.complete(CacheRequest((1, 2), 3, key=RequestKey("k")))
    with pytest.raises(Unsupported, match="reset is not implemented"):
        subject.reset()


def test_an_object_without_methods_and_one_that_raises():
    with pytest.raises(Failed, match=r"dict has no method complete\(prompt, n_predict\)"):
        PythonSubject(dict, TimeBudget(60))

    class Raising:
        def complete(self, *args, **options):
            raise ValueError("full")

    subject = PythonSubject(Raising, TimeBudget(60))
    with pytest.raises(Failed, match=r"ValueError: full \(.*test_jsonl_adapter\.py:\d+\)"):
        subject.complete(CacheRequest((1,), 1, key=RequestKey("k")))
    for method in (subject.limits, subject.reset):
        with pytest.raises(Unsupported, match=rf"no method {method.__name__}\(\)"):
            method()
    with pytest.raises(Unsupported, match=r"no method burst\(\)"):
        subject.burst([])


@pytest.mark.parametrize("replies", [[], [{"tokens": []}] * 2, "ab", None])
def test_a_burst_of_an_object_has_a_reply_for_each_request(replies):
    class Bursting(Cache):
        def burst(self, requests):
            return replies

    with pytest.raises(Failed, match=r"burst\(\) of 1 requests: expected a list of 1 replies"):
        PythonSubject(Bursting, TimeBudget(60)).burst([CacheRequest((1,), 1)])


def test_an_object_is_not_made_after_the_end_of_the_time():
    made, budget = [], TimeBudget(60, 60)
    budget.missed = 3
    with pytest.raises(TimeoutsExhausted, match="3 replies timed out"):
        PythonSubject(lambda: made.append(1), budget)
    assert made == []


def test_a_process_that_had_to_be_killed_counts_once(monkeypatch):
    monkeypatch.setattr(timeouts, "GRACE", 0.01)
    subject = started("import os, time\nos.close(2)\nos.write(1, b'x')\ntime.sleep(60)")
    assert os.read(subject.process.stdout.fileno(), 1) == b"x"
    subject.errors.thread.join(30)
    subject.close()
    assert subject.budget.killed == 1


def test_after_the_last_time_out_a_running_process_is_not_asked(answering):
    subject = answering("{}")
    subject.budget.missed = 3
    with pytest.raises(TimeoutsExhausted, match="3 replies timed out"):
        subject.reset()
    assert subject.talk is None
