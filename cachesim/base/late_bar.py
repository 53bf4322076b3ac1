"""Progress bar for work of unknown length that is usually short: it appears after some seconds."""

from __future__ import annotations

from threading import Lock, Timer
from typing import Generator, Iterable, TypeVar

from cachesim.base.console import ProgressBar

T = TypeVar("T")

DELAY = 2.0                  # seconds until the bar appears


class LateBar:
    """Progress bar on stderr while a block runs, if that takes longer than ``DELAY`` seconds and stderr is a terminal.
    A context manager; nothing may be printed within it."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._lock = Lock()
        self._bar: ProgressBar | None = None
        self._is_over = False
        self._timer = Timer(DELAY, self._show)
        self._timer.daemon = True

    def __enter__(self) -> LateBar:
        self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        with self._lock:
            self._is_over = True
            if self._bar is not None:
                self._bar.__exit__()

    def _show(self) -> None:
        """Show the bar unless the block has ended."""
        with self._lock:
            if self._is_over:
                return
            self._bar = ProgressBar()
            self._bar.__enter__()
            self._bar.show(self._what)


def awaited(items: Iterable[T], what: str) -> Generator[T, None, None]:
    """Yield the items; each, whose progress is unknown, has a bar while it is awaited."""
    left = iter(items)
    while True:
        with LateBar(what):
            try:
                item = next(left)
            except StopIteration:
                return
        yield item
