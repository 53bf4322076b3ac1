"""Tests of progress bars: on a terminal, at once or after some seconds."""

from __future__ import annotations

import io
import sys
import time

import pytest

from cachesim.base import progress_bar
from cachesim.base.progress_bar import LateBar, ProgressBar, progress


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


@pytest.mark.parametrize(("stderr", "total", "shown"), [
    (Terminal(), 3, True), (Terminal(), 2, True), (Terminal(), 1, False), (Terminal(), None, True),
    (io.StringIO(), 3, False), (None, 3, False),
])  # fmt: skip
def test_progress_is_shown_on_a_terminal_if_there_is_enough_work(monkeypatch, stderr, total, shown):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", stderr)
    items = list(range(total or 3))
    assert list(progress(iter(items), total, "playing")) == items
    assert bool(stderr is not None and "playing" in stderr.getvalue()) is shown


def test_a_bar_shows_what_is_done_and_makes_way_for_other_output(monkeypatch):
    stderr, stdout = Terminal(), sys.stdout
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", stderr)
    with ProgressBar() as bar:
        bar.show("reading\nfiles", done=1, total=2)
        assert (sys.stderr, sys.stdout) == (stderr, stdout)          # what others print is not redirected
        with bar.aside():
            before = stderr.getvalue()
            stderr.write("found")
        bar.show("reading files", done=2, total=2)
    assert bar.is_shown
    assert "reading\\nfiles" in before and "100%" not in before
    assert "100%" in stderr.getvalue().partition("found")[2]


@pytest.mark.parametrize("stderr", [io.StringIO(), None])
def test_without_a_terminal_a_bar_shows_nothing(monkeypatch, stderr):
    monkeypatch.setattr(sys, "stderr", stderr)
    with ProgressBar() as bar, bar.aside():
        bar.show("reading", done=1, total=2)
    assert not bar.is_shown and (stderr is None or stderr.getvalue() == "")


def test_a_bar_begins_empty_and_has_its_text_in_one_line(monkeypatch):
    stderr = Terminal()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", stderr)
    with ProgressBar() as bar:
        bar.show("reading\nfiles", total=4)
        with bar.aside():
            shown = stderr.getvalue()
    assert "reading\\nfiles" in shown and "0%" in shown


def test_work_that_ends_before_the_delay_shows_no_bar(monkeypatch):
    terminal = terminal_of(monkeypatch)
    with LateBar("playing"):
        pass
    assert terminal.getvalue() == ""


def test_longer_work_shows_a_bar(monkeypatch):
    monkeypatch.setattr(progress_bar, "DELAY", 0.01)
    terminal = terminal_of(monkeypatch)
    with LateBar("playing"):
        assert shows(terminal, "playing")


def test_a_single_item_is_passed_on_after_its_bar_ended(monkeypatch):
    monkeypatch.setattr(progress_bar, "DELAY", 0.01)
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
