"""Progress bars on stderr, if that is a terminal."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from threading import Lock, Timer
from typing import TYPE_CHECKING, Generator, Iterable, Iterator, TypeVar

from cachesim.base.console import OutputOptions
from cachesim.base.escaping import printable_line

if TYPE_CHECKING:
    from rich.progress import Progress

T = TypeVar("T")

DELAY = 2.0                  # seconds until a late bar appears


def _is_wanted() -> bool:
    """True if stderr is a terminal and ``-q`` was not given."""
    return not OutputOptions.quiet and sys.stderr is not None and sys.stderr.isatty()


def progress(items: Iterable[T], total: int | None, what: str) -> Generator[T, None, None]:
    """Yield the items and show a progress bar on stderr if that is a terminal. ``total``: None if unknown. The bar of a
    single item appears after some seconds."""
    if not _is_wanted():
        yield from items
        return
    if total is not None and total < 2:
        yield from _awaited(items, what)
        return
    from rich.console import Console
    from rich.progress import track

    yield from track(items, description=what, total=total, console=Console(stderr=True), transient=True)


def _awaited(items: Iterable[T], what: str) -> Generator[T, None, None]:
    """Yield the items; each, whose progress is unknown, has a bar while it is awaited."""
    left = iter(items)
    while True:
        with LateBar(what):
            try:
                item = next(left)
            except StopIteration:
                return
        yield item


class ProgressBar:
    """Progress bar on stderr, if that is a terminal, for work in stages. A context manager; ``aside`` clears it while
    something else is printed."""

    def __init__(self) -> None:
        self._shown: Progress | None = None
        if _is_wanted():
            from rich.console import Console
            from rich.progress import Progress

            self._shown = Progress(console=Console(stderr=True), transient=True, redirect_stdout=False,
                                   redirect_stderr=False)  # fmt: skip
            self._task = self._shown.add_task("", total=None)

    def __enter__(self) -> ProgressBar:
        if self._shown is not None:
            self._shown.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._shown is not None:
            self._shown.stop()

    @property
    def is_shown(self) -> bool:
        """True if there is a terminal to show it on."""
        return self._shown is not None

    def show(self, what: str, done: int = 0, total: int | None = None) -> None:
        """Show what is done now. ``total``: None if unknown."""
        if self._shown is not None:
            self._shown.update(self._task, description=printable_line(what), completed=done, total=total)

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Clear the bar while the block prints."""
        if self._shown is not None:
            self._shown.stop()
        try:
            yield
        finally:
            if self._shown is not None:
                self._shown.start()


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
        if _is_wanted():
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
