"""Tests of the bar that appears while a single long run is awaited."""

from __future__ import annotations

import io
import sys
import time

import pytest

from cachesim.base import late_bar
from cachesim.base.console import progress
from cachesim.base.late_bar import LateBar


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


def shows(terminal, text):
    """Wait until a text is shown."""
    end = time.monotonic() + 20
    while text not in terminal.getvalue() and time.monotonic() < end:
        time.sleep(0.01)
    return text in terminal.getvalue()


def test_work_that_ends_before_the_delay_shows_no_bar(monkeypatch):
    terminal = terminal_of(monkeypatch)
    with LateBar("playing"):
        pass
    assert terminal.getvalue() == ""


def test_longer_work_shows_a_bar(monkeypatch):
    monkeypatch.setattr(late_bar, "DELAY", 0.01)
    terminal = terminal_of(monkeypatch)
    with LateBar("playing"):
        assert shows(terminal, "playing")


def test_a_single_item_is_passed_on_after_its_bar_ended(monkeypatch):
    monkeypatch.setattr(late_bar, "DELAY", 0.01)
    terminal = terminal_of(monkeypatch)

    def items():
        assert shows(terminal, "replaying")
        yield 7

    for found in progress(items(), 1, "replaying"):
        shown = terminal.getvalue()
        time.sleep(0.3)                      # longer than a bar takes to be drawn again
        assert found == 7
        assert terminal.getvalue() == shown


@pytest.mark.parametrize("total", [0, 1, 3])
def test_all_items_are_passed_on(total):
    assert list(progress(iter(range(total)), total, "replaying")) == list(range(total))
