"""Tests of processes that exchange JSON lines as implementations; their crashes are findings."""

from __future__ import annotations

import os
import select
import signal
import sys

import pytest

from cachesim.base.errors import BadInput
from cachesim.tools.conformance import conform
from cachesim.tools.conformance.jsonl_adapter import TAIL, ProcessSubject
from cachesim.tools.conformance.protocol import CacheRequest, Failed, TimedOut
from cachesim.tools.conformance.timeouts import TIMEOUTS, TimeBudget, TimeoutsExhausted
from tests.house.checks import ROOT

pytestmark = pytest.mark.long
PEER = str(ROOT / "tests" / "conformance" / "peer.py")
NAIVE = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(ROOT)!r}); sys.argv = ['', 'lines'];"
         "import runpy; runpy.run_module('tests.conformance.naive', run_name='__main__')"]  # fmt: skip

ENDS = [
    ("die", 5.0, "A1/A", "the process ended with status 1: out of cells"),
    ("half", 5.0, "A1", "cold: the process ended with status 3 inside the line b'{\"tokens\": [1'"),
    ("talk", 5.0, "A1", "cold: expected a JSON object, found the line b'loading model\\n' (write log lines to stderr)"),
    ("hang", 0.3, "A1", "cold: no reply within 0.3 seconds"),
    ("noise", 5.0, "A1", "cold: the process ended with status 1: too loud (the end of 19660809 bytes on stderr)"),
]


@pytest.mark.parametrize(("how", "timeout", "line", "came"), ENDS, ids=[how for how, *_ in ENDS])
def test_the_end_of_a_process_is_a_finding(how, timeout, line, came):
    report = conform([sys.executable, PEER, how], max_examples=2, max_requests=2, timeout=timeout, check=False)
    assert (report["answers"].finding.line, report["answers"].finding.got) == (line, came)
    assert report.state("burst") == "unsupported"


def test_a_process_is_found_out_as_an_object_is():
    report = conform(NAIVE, histories=["A2/A"], max_examples=1, max_requests=1, reset=True, check=False)
    assert report["repeat"].finding.line == "A2/A"
    assert report.state("limits") == "ok"


def test_a_command_that_does_not_exist_is_a_finding():
    report = conform(["/nowhere/at/all"], max_examples=1, check=False)
    assert report["answers"].finding.got == "cold: '/nowhere/at/all' cannot be started: No such file or directory"


@pytest.fixture
def fifo(tmp_path):
    """A FIFO for ``peer.py``, open for reading."""
    path = tmp_path / "fifo"
    os.mkfifo(path)
    stream = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    os.close(os.open(path, os.O_WRONLY))             # from here on "no writer" is readable
    yield path, stream
    os.close(stream)


def stderr_of(stream):
    """Return the process numbers that were written; all these processes have ended."""
    said = b""
    while True:
        ready, _, _ = select.select([stream], [], [], 20)
        assert ready, "a process is left"
        data = os.read(stream, 4096)
        if not data:
            return [int(line) for line in said.split()]
        said += data


def test_children_of_a_process_end_with_it_however_it_ends(fifo):
    path, stream = fifo
    report = conform([sys.executable, PEER, "fork", str(path)], max_examples=2, max_requests=2, check=False)
    assert report.state("answers") == "ok"
    assert len(stderr_of(stream)) >= 2 * report.histories


@pytest.mark.parametrize(("how", "timeout"), [("hang", 0.5), ("second", 2.0), ("burst", 2.0)])
def test_one_that_hangs_is_waited_for_three_times_at_most(fifo, how, timeout):
    path, stream = fifo
    report = conform([sys.executable, PEER, how, str(path)], histories=["A1/B2{together}"], max_examples=30,
                     timeout=timeout, check=False)  # fmt: skip
    assert len(stderr_of(stream)) <= TIMEOUTS
    found = report["answers"]
    assert found.state == "failed" and found.finding.got.endswith(f"no reply within {timeout:g} seconds")
    assert found.finding.line == "A1" or how != "hang"
    assert found.finding.prompts and not report.conforms


def test_what_a_silent_process_kept_from_being_played_is_undecided():
    report = conform([sys.executable, PEER, "hang"], max_examples=30, timeout=0.3, check=False)
    assert {one.state for one in report.results} == {"failed", "undecided", "unsupported"}
    assert "timed out" in report["repeat"].why


def test_no_instance_is_made_when_patience_is_at_an_end():
    budget = TimeBudget(0.2)
    for _ in range(TIMEOUTS):
        subject = ProcessSubject([sys.executable, PEER, "hang"], budget)
        with pytest.raises(TimedOut):
            subject.complete(CacheRequest((1, 2)))
        with pytest.raises(Failed, match="no reply"):
            subject.complete(CacheRequest((1, 2)))
        subject.close()
    with pytest.raises(TimeoutsExhausted, match="3 replies"):
        ProcessSubject(["/nowhere"], budget)


def test_one_that_does_not_end_by_itself_is_given_little_time_after_a_while(fifo):
    path, stream = fifo
    budget = TimeBudget(20.0)
    given = []
    for _ in range(TIMEOUTS + 1):
        given.append(budget.grace)
        subject = ProcessSubject([sys.executable, PEER, "deaf", str(path)], budget)
        assert subject.complete(CacheRequest((1, 2))).tokens == (2,)
        subject.close()
        subject.close()
    assert given == [2.0, 2.0, 2.0, 0.02]
    assert len(stderr_of(stream)) <= TIMEOUTS + 1


def test_stderr_is_kept_only_to_its_end():
    subject = ProcessSubject([sys.executable, PEER, "noise"], TimeBudget(20.0))
    with pytest.raises(Failed, match="too loud"):
        subject.complete(CacheRequest((1, 2)))
    subject.close()
    assert (len(subject.errors.kept), subject.errors.size) == (TAIL, 300 * 65_536 + len("too loud\n"))


def test_a_child_that_left_the_group_and_holds_the_pipes_does_not_block_closing(fifo):
    """The suite must not kill it, but closing must not wait for it."""
    path, stream = fifo
    subject = ProcessSubject([sys.executable, PEER, "escape", str(path)], TimeBudget(0.5))
    with pytest.raises(TimedOut):
        subject.complete(CacheRequest((1, 2)))
    subject.close()
    os.kill(int(os.read(stream, 100)), signal.SIGKILL)
    assert stderr_of(stream) == []


@pytest.mark.parametrize("timeout", [0, -1, float("nan"), float("inf")])
def test_a_timeout_that_is_none_is_refused(timeout):
    with pytest.raises(BadInput, match="timeout: expected more than 0"):
        conform(["/nowhere"], timeout=timeout)
