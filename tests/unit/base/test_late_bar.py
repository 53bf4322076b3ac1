"""Tests of the bar that appears while a single long run is awaited."""

from __future__ import annotations

import io
import sys
import time

import pytest

from cachesim.base.late_bar import DELAY, LateBar, late_progress


class Terminal(io.StringIO):
    """A stream that claims to be a terminal."""

    def isatty(self):
        return True


def terminal_of(monkeypatch):
    """Return a terminal in the place of standard error."""
    terminal = Terminal()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", terminal)
    return terminal


def test_long_work_shows_a_bar_and_short_work_none(monkeypatch):
    terminal = terminal_of(monkeypatch)
    with LateBar("playing"):
        pass
    assert terminal.getvalue() == ""
    with LateBar("playing"):
        time.sleep(DELAY + 1)
    assert "playing" in terminal.getvalue()


def test_a_single_item_is_passed_on_after_its_bar_ended(monkeypatch):
    terminal = terminal_of(monkeypatch)

    def items():
        time.sleep(DELAY + 1)
        yield 7

    for found in late_progress(items(), 1, "replaying"):
        shown = terminal.getvalue()
        time.sleep(0.5)
        assert found == 7
        assert "replaying" in shown
        assert terminal.getvalue() == shown


@pytest.mark.parametrize("total", [0, 1, 3])
def test_all_items_are_passed_on(total):
    assert list(late_progress(iter(range(total)), total, "replaying")) == list(range(total))
