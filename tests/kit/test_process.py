"""Does a process of JSON lines count as an implementation, and is its end a finding?"""

from __future__ import annotations

import sys

import pytest

from cachesim.kit import conform
from tests.house.checks import ROOT

PEER = str(ROOT / "tests" / "kit" / "peer.py")
NAIVE = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(ROOT)!r}); sys.argv = ['', 'lines'];"
         "import runpy; runpy.run_module('tests.kit.naive', run_name='__main__')"]  # fmt: skip

ENDS = [
    ("die", 5.0, "A1/A", "the process ended with status 1: out of cells"),
    ("half", 5.0, "A1", "cold: the process ended with status 3 inside the line b'{\"tokens\": [1'"),
    ("talk", 5.0, "A1", "cold: the line b'loading model\\n' is not JSON (log lines belong to stderr)"),
    ("hang", 0.3, "A1", "cold: no reply within 0.3 seconds"),
]


@pytest.mark.parametrize(("how", "timeout", "line", "came"), ENDS, ids=[how for how, *_ in ENDS])
def test_the_end_of_a_process_is_a_finding(how, timeout, line, came):
    report = conform([sys.executable, PEER, how], max_examples=2, max_requests=2, timeout=timeout, check=False)
    assert (report["answers"].finding.line, report["answers"].finding.came) == (line, came)
    assert report.state("burst") == "unsupported"


def test_a_process_is_found_out_as_an_object_is():
    report = conform(NAIVE, histories=["A2/A"], max_examples=1, max_requests=1, reset=True, check=False)
    assert report["repeat"].finding.line == "A2/A"
    assert report.state("limits") == "holds"


def test_a_command_that_does_not_exist_is_a_finding():
    report = conform(["/nowhere/at/all"], max_examples=1, check=False)
    assert report["answers"].finding.came == "cold: '/nowhere/at/all' cannot be started: No such file or directory"
