"""Work in several processes: how is none of it lost when one of them dies, and none of them left when we do?

Every worker has a pipe of its own and one share at a time, so that the death of a worker costs the share it was at and
nothing else. That share is given to another process once; if that dies too, the result is ``Unfinished``. A worker ends
when its parent does, however that ended, and it does not hear Ctrl-C: the parent does, and ends it.

Why not `concurrent.futures.ProcessPoolExecutor`? A worker that dies breaks the whole pool without a word on which share
it was at, the queue of results is shared (a worker killed while it writes leaves the lock to nobody), and before Python
3.14 there is no public way to end the workers at an interrupt.
"""

from __future__ import annotations

import os
import signal
import threading
import traceback
from collections import deque
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Callable, Generic, Iterable, Iterator, NamedTuple, Sequence, TypeVar

from cachesim.base import limits
from cachesim.base.errors import ENDING, Crash

if TYPE_CHECKING:               # it takes a while to import, and one process does without
    from multiprocessing.connection import Connection
    from multiprocessing.process import BaseProcess

S = TypeVar("S")
R = TypeVar("R")
TRIES = 2                       # processes that may die at a share before it is given up


Beginning = tuple[Callable[..., object], tuple[Any, ...]]
_first: list[Beginning] = []


def begin_with(do: Callable[..., object], *args: Any) -> None:
    """From now on a new worker does this before its first share, where it does not inherit what we did. ``do`` must be
    a function of a module."""
    _first.append((do, args))


class Unfinished(NamedTuple):
    """Instead of a result: the processes that worked on this share ended, the last of them so."""

    how: str


class Done(NamedTuple, Generic[S, R]):
    """A share, its number in the order in which they were given, and what came of it."""

    number: int
    share: S
    result: R | Unfinished


class _Share(NamedTuple):
    number: int
    what: Any
    deaths: int = 0


class _Worker(NamedTuple):
    process: BaseProcess
    link: Connection


class Pool(Generic[S, R]):
    """Up to ``jobs`` processes that do ``work``, which must be a function of a module. A context manager: when it is
    left, for whatever reason, its processes are gone."""

    def __init__(self, work: Callable[[S], R], jobs: int) -> None:
        self.work, self.jobs = work, jobs
        self._idle: list[_Worker] = []
        self._busy: dict[Connection, tuple[_Worker, _Share]] = {}

    def __enter__(self) -> Pool[S, R]:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def each(self, shares: Iterable[S], left: Callable[[], float | None] = lambda: None) -> Iterator[Done[S, R]]:
        """Results as they come. ``left``: seconds until it stops, whatever is not done then; None = it does not. A
        process is started when there is a share for it and not before. What ``work`` raises is raised here, with the
        worker's traceback as a note."""
        from multiprocessing.connection import Connection, wait

        todo = (_Share(i, what) for i, what in enumerate(shares))
        again: deque[_Share] = deque()
        while True:
            while len(self._busy) < self.jobs and not _over(left):
                share = again.popleft() if again else next(todo, None)
                if share is None:
                    break
                yield from self._give(share, again)
            if (not self._busy and not again) or _over(left):
                return
            for link in wait(list(self._busy), left()):
                assert isinstance(link, Connection)
                yield from self._take(link, again)

    def _give(self, share: _Share, again: deque[_Share]) -> Iterator[Done[S, R]]:
        while self._idle and not self._idle[-1].process.is_alive():      # it died while it had nothing to do
            self._bury(self._idle.pop())
        if not self._idle:
            self._start()
        worker = self._idle[-1]               # known in one place at least, whenever an interrupt comes
        self._busy[worker.link] = worker, share
        self._idle.pop()
        try:
            worker.link.send(share.what)
        except OSError:
            yield from self._died(worker, share, again)

    def _take(self, link: Connection, again: deque[_Share]) -> Iterator[Done[S, R]]:
        worker, share = self._busy[link]
        try:
            result, error = link.recv()
        except (EOFError, OSError):
            yield from self._died(worker, share, again)
            return
        self._idle.append(worker)
        del self._busy[link]
        if error is not None:
            raise error
        yield Done(share.number, share.what, result)

    def _died(self, worker: _Worker, share: _Share, again: deque[_Share]) -> Iterator[Done[S, R]]:
        how = self._bury(worker)
        if share.deaths + 1 < TRIES:
            again.append(share._replace(deaths=share.deaths + 1))
        else:
            yield Done(share.number, share.what, Unfinished(how))

    def _start(self) -> None:
        from multiprocessing import get_context

        context = get_context()
        ours, theirs = context.Pipe()
        first = ((limits.lift, (limits.lifted(),)), *_first)
        process = context.Process(target=_serve, args=(self.work, theirs, first), daemon=True)
        with _held(), theirs:
            process.start()
            self._idle.append(_Worker(process, ours))

    def _bury(self, worker: _Worker) -> str:
        """Forget a worker that ended; how it did."""
        self._busy.pop(worker.link, None)
        worker.link.close()
        worker.process.join()
        return told(worker.process.exitcode or 0)

    def close(self) -> None:
        """End all processes, whatever they are doing, and wait until they are gone. May be called again."""
        workers = [*self._idle, *(worker for worker, _ in self._busy.values())]
        self._idle, self._busy = [], {}
        for worker in workers:
            worker.process.kill()
        for worker in workers:
            worker.process.join()
            worker.link.close()


def finished(work: Callable[[S], R], shares: Iterable[S], jobs: int) -> Iterator[Done[S, R]]:
    """Results as they come; in this process if ``jobs`` is 1."""
    if jobs < 2:
        yield from (Done(i, share, work(share)) for i, share in enumerate(shares))
        return
    with Pool(work, jobs) as pool:
        yield from pool.each(shares)


def spread(work: Callable[[S], R], shares: Iterable[S], jobs: int) -> Iterator[R | Unfinished]:
    """Results in the order of the shares; in this process if ``jobs`` is 1."""
    kept: dict[int, R | Unfinished] = {}
    following = 0
    for done in finished(work, shares, jobs):
        kept[done.number] = done.result
        while following in kept:
            yield kept.pop(following)
            following += 1


def whole(results: Iterable[R | Unfinished]) -> list[R]:
    """All results, where none may be missing. Raises Crash."""
    out = []
    for one in results:
        if isinstance(one, Unfinished):
            raise Crash(f"a process ended twice at the same work: {one.how}")
        out.append(one)
    return out


def cores() -> int:
    """Processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def told(exitcode: int) -> str:
    """How a process ended, for a reader."""
    if exitcode >= 0:
        return f"exit code {exitcode}"
    try:
        return f"killed by {signal.Signals(-exitcode).name}"
    except ValueError:
        return f"killed by signal {-exitcode}"


def _over(left: Callable[[], float | None]) -> bool:
    seconds = left()
    return seconds is not None and seconds <= 0


@contextmanager
def _held() -> Iterator[None]:
    """Signals wait while a process starts: the new one does not know yet what to do with them."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM))
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


# In the worker


def _serve(work: Callable[[Any], Any], link: Connection, first: Sequence[Beginning]) -> None:
    """Share after share, until the pipe is closed or the parent is gone. ``first``: what makes this process what its
    parent is."""
    for do, args in first:
        do(*args)
    signal.signal(signal.SIGINT, lambda *_: None)    # not SIG_IGN, which programs started by the work would inherit
    for name in ENDING:
        signal.signal(getattr(signal, name), signal.SIG_DFL)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGINT, signal.SIGTERM))
    threading.Thread(target=_end_with_parent, daemon=True).start()
    with suppress(EOFError, OSError):
        while True:
            what = link.recv()
            reply: tuple[Any, Exception | None]
            try:
                reply = (work(what), None)
            except Exception as error:
                error.add_note("in a worker process:\n" + "".join(traceback.format_exception(error)))
                reply = (None, error)
            _send(link, reply)


def _send(link: Connection, reply: tuple[Any, Exception | None]) -> None:
    try:
        link.send(reply)
    except (TypeError, AttributeError, ValueError) as error:     # what cannot be pickled
        link.send((None, Crash(f"a result cannot be sent: {error}; {reply[1] or type(reply[0]).__name__}")))


def _end_with_parent() -> None:
    """The pipe that every child has from its parent breaks when that is gone, however it ended."""
    from multiprocessing import parent_process

    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
