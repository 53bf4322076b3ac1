"""A process that exchanges JSON lines, and the end of what it wrote on stderr."""

from __future__ import annotations

import os
import sys

import pytest

from cachesim.tools.conformance.jsonl_adapter import TAIL, ProcessSubject, StderrTail
from cachesim.tools.conformance.protocol import CacheRequest, Failed, Unsupported
from cachesim.tools.conformance.timeouts import TimeBudget


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


def test_a_process_is_ended_once(answering, monkeypatch):
    subject, ended = answering("{}"), []
    end = subject._end
    monkeypatch.setattr(subject, "_end", lambda: ended.append(end()))
    assert not subject.is_closed
    subject.close()
    subject.close()
    assert (len(ended), subject.is_closed, subject.process.stdout.closed, subject.process.poll() is None) == (
        1, True, True, False)
