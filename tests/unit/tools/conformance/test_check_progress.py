"""Tests of the progress of a check: faults at once on stdout, stages on stderr, a bar on a terminal."""

from __future__ import annotations

import io
import sys

import pytest

from cachesim.base.console import OutputOptions, ProgressBar
from cachesim.tools.conformance.check_progress import CheckProgress
from cachesim.tools.conformance.http_check.listener import FoundFault

FAULT = FoundFault("branch", "Wash5/A5/B10/B[:1].C5", 3, 17, "expected x,\ngot \x1b[31m")
SHOWN = "found after 17 requests: branch: Wash5/A5/B10/B[:1].C5, request 3: expected x,"


class Stream(io.StringIO):
    """A stream that records whether it was flushed after the last write. ``terminal``: it is a terminal."""

    def __init__(self, terminal=False):
        super().__init__()
        self.terminal, self.waiting = terminal, False

    def isatty(self):
        return self.terminal

    def write(self, text):
        self.waiting = True
        return super().write(text)

    def flush(self):
        self.waiting = False


def reported(monkeypatch, as_json=False, terminal=False):
    """Return stdout after each step of a check, and stderr at its end."""
    out, err = Stream(), Stream(terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", err)
    monkeypatch.setattr(OutputOptions, "quiet", False)
    with ProgressBar() as bar:
        progress = CheckProgress(bar, as_json)
        progress.stage("section drawn", 30)
        progress.request(16)
        progress.history()
        progress.fault(FAULT)
        written = out.getvalue()
        assert not out.waiting
        progress.rule("llama_cpp@x: R decided")
        progress.stage("rules")
    return written, out.getvalue(), err.getvalue()


def test_a_fault_is_written_when_it_is_found(monkeypatch):
    first, out, err = reported(monkeypatch)
    assert first.startswith(SHOWN) and out.splitlines()[-1] == "  llama_cpp@x: R decided"
    assert err == "cachesim: section drawn: 30\ncachesim: rules\n"


def test_stdout_is_left_to_the_json(monkeypatch):
    first, out, err = reported(monkeypatch, as_json=True)
    assert first == out == "" and f"cachesim: {SHOWN}" in err and "cachesim: llama_cpp@x: R decided\n" in err


def test_a_terminal_shows_a_bar_with_the_stage_and_the_requests(monkeypatch):
    first, _, err = reported(monkeypatch, terminal=True)
    assert first.startswith(SHOWN) and "section drawn (16 requests)" in err and "rules (16 requests)" in err
    assert "cachesim: " not in err


@pytest.mark.parametrize("terminal", [False, True])
def test_a_fault_moves_no_cursor(monkeypatch, terminal):
    first, *_ = reported(monkeypatch, terminal=terminal)
    assert "\x1b" not in first and r"\x1b[31m" in first


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
