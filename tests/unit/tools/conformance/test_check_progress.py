"""Tests of the progress of a check: faults at once on stdout, stages on stderr, a bar on a terminal."""

from __future__ import annotations

import io
import sys

import pytest

from cachesim.base.progress_bar import ProgressBar
from cachesim.tools.conformance.check_progress import CheckProgress
from cachesim.tools.conformance.http_check.listener import FoundFault


def test_the_bar_shows_the_stage_the_requests_and_the_histories_that_are_done():
    class Bar:
        is_shown = True

        def __init__(self):
            self.shown = []

        def show(self, *what):
            self.shown.append(what)

    bar = Bar()
    progress = CheckProgress(bar, as_json=False)
    progress.history()
    progress.stage("rules")
    progress.stage("section drawn", 30)
    progress.request(16)
    progress.history()
    progress.history()
    progress.request(17)
    progress.stage("section paths")
    assert bar.shown == [
        (" (0 requests)", 1, None), ("rules (0 requests)", 0, None), ("section drawn (0 requests)", 0, 30),
        ("section drawn (16 requests)", 0, 30),
        ("section drawn (16 requests)", 1, 30), ("section drawn (16 requests)", 2, 30),
        ("section drawn (17 requests)", 2, 30), ("section paths (17 requests)", 0, None)]  # fmt: skip


class Stream(io.StringIO):
    """A stream that may be a terminal."""

    def __init__(self, terminal=False):
        super().__init__()
        self.terminal = terminal

    def isatty(self):
        return self.terminal


@pytest.mark.parametrize("as_json", [False, True])
@pytest.mark.parametrize("terminal", [False, True])
def test_a_fault_is_printed_when_it_is_found_and_json_has_stdout_for_itself(monkeypatch, as_json, terminal):
    out, err = Stream(), Stream(terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", err)
    with ProgressBar() as bar:
        progress = CheckProgress(bar, as_json)
        progress.stage("section drawn", 30)
        progress.request(17)
        progress.fault(FoundFault("branch", "Wash5/A5/A", 3, 17, "expected x, got \x1b[31m"))
        first = (err if as_json else out).getvalue()
        progress.rule("llama_cpp@x: R decided")
    assert "branch: Wash5/A5/A" in first and r"\x1b[31m" in first and "\x1b[31m" not in first
    assert "R decided" in (err if as_json else out).getvalue() and (out.getvalue() == "") is as_json
    assert "section drawn" in err.getvalue()
