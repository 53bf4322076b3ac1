"""Ends a command when a signal arrives: at the first signal with its results so far, at a second signal at once.

A signal raises KeyboardInterrupt or Terminated in the main thread, so that a command prints what it has found. A
program that sends a signal to a process and to its group, as `timeout` does, sends it twice: a signal within ``SAME``
seconds of the first counts as the same.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Iterator, NoReturn

from cachesim.base.errors import ENDING, Terminated

if TYPE_CHECKING:
    from types import FrameType

SAME = 0.1              # seconds in which a further signal counts as the first
SENT_AGAIN = 0.01       # seconds after which a lost signal is sent again
_SHOW_CURSOR = b"\x1b[?25h"
_DEFAULT = (signal.SIG_DFL, signal.default_int_handler)
_children: set[int] = set()


@contextmanager
def killed_at_second_signal(child: int) -> Iterator[None]:
    """Kill a process, too, if a second signal ends this process in the block."""
    _children.add(child)
    try:
        yield
    finally:
        _children.discard(child)


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """Let the first signal in the block raise an interrupt, and the second end this process. A signal that the parent
    process had ignored stays ignored. Has no effect outside the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = [getattr(signal, name) for name in ("SIGINT", *ENDING)]
    known = {number: signal.getsignal(number) for number in numbers}
    handled = {number: known[number] for number in numbers if known[number] in _DEFAULT}
    handler = _Handler()
    hook = sys.unraisablehook
    sys.unraisablehook = handler.report_unraisable
    for number in handled:
        signal.signal(number, handler.receive)
    try:
        yield
    finally:
        for number, before in handled.items():
            signal.signal(number, before)
        sys.unraisablehook = hook


@contextmanager
def interrupt_ignored() -> Iterator[None]:
    """Leave Ctrl-C in the block to a program that shares the terminal. That program does not inherit this. Has no
    effect outside the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


class _Handler:
    """Handler of the signals of a command."""

    def __init__(self) -> None:
        self._first: float | None = None         # time of the first signal
        self._hook = sys.unraisablehook

    def receive(self, number: int, frame: FrameType | None) -> None:
        """Raise an interrupt at the first signal; end this process at a second signal."""
        now = time.monotonic()
        if self._first is None:
            self._first = now
            raise KeyboardInterrupt if number == signal.SIGINT else Terminated(number)
        if now - self._first > SAME:
            _end_at_once(number)

    def report_unraisable(self, found: Any) -> None:
        """Send a signal again whose interrupt was lost: raised while the interpreter freed an object, it ends nothing.
        Report other exceptions as before."""
        error = found.exc_value
        if not isinstance(error, KeyboardInterrupt):
            self._hook(found)
            return
        self._first = None
        number = getattr(error, "number", None) or signal.SIGINT
        timer = threading.Timer(SENT_AGAIN, os.kill, (os.getpid(), number))
        timer.daemon = True
        timer.start()


def _end_at_once(number: int) -> NoReturn:
    """End this process and its noted children. Workers and servers end with this process by themselves."""
    for child in _children:
        with suppress(OSError):
            os.kill(child, signal.SIGKILL)
    cursor = _SHOW_CURSOR if sys.stderr is not None and sys.stderr.isatty() else b""
    with suppress(OSError):
        os.write(2, cursor + b"cachesim: a second signal; results are incomplete\n")
    os._exit(128 + number)
