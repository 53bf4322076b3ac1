"""Process pool that survives the death of a worker and leaves no process behind.

A share is an item of work: one argument of the pool's function. Each worker has its own pipe and a single share at a
time, so a dying worker loses only that share. Another process repeats the share once; if that process dies too, the
result is ``KilledItem``. A worker ends when its parent ends, for whatever reason. It ignores Ctrl-C: the parent handles
it and ends the workers.

`concurrent.futures.ProcessPoolExecutor` does not suffice: a dying worker breaks the pool without naming the share, all
workers share a result queue (a worker killed while writing never releases its lock), and before Python 3.14 it has no
public way to end the workers at an interrupt.
"""

from __future__ import annotations

import os
import signal
import threading
import traceback
from collections import deque
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Callable, Generic, Iterable, Iterator, NamedTuple, Sequence, TypeVar

from cachesim.base import limits
from cachesim.base.errors import ENDING, Crash

if TYPE_CHECKING:               # slow to import and not needed with a single process
    from multiprocessing.connection import Connection
    from multiprocessing.process import BaseProcess

S = TypeVar("S")
R = TypeVar("R")
TRIES = 2                       # processes that may die at a share before it counts as unfinished


InitCall = tuple[Callable[..., object], tuple[Any, ...]]
_init_calls: list[InitCall] = []


def begin_with(function: Callable[..., object], *args: Any) -> None:
    """Call ``function(*args)`` in every new worker before its first item of work, because a spawned worker does not
    inherit the parent's state. ``function`` must be a module-level function."""
    _init_calls.append((function, args))


class KilledItem(NamedTuple):
    """Result of an item of work whose processes all died. ``how``: end of the last process, "killed by SIGKILL"."""

    how: str


class CompletedItem(NamedTuple, Generic[S, R]):
    """An item of work (``share``) with its result. ``number``: position of the item in the input, from 0."""

    number: int
    share: S
    result: R | KilledItem


class _Share(NamedTuple):
    number: int
    what: Any
    deaths: int = 0


class _Worker(NamedTuple):
    process: BaseProcess
    link: Connection


class Pool(Generic[S, R]):
    """Pool of up to ``jobs`` processes that run ``work``, a module-level function. A context manager: leaving it, also
    by an exception, ends its processes."""

    def __init__(self, work: Callable[[S], R], jobs: int) -> None:
        self.work, self.jobs = work, jobs
        self._idle: list[_Worker] = []
        self._busy: dict[Connection, tuple[_Worker, _Share]] = {}

    def __enter__(self) -> Pool[S, R]:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def each(
        self, shares: Iterable[S], left: Callable[[], float | None] = lambda: None
    ) -> Iterator[CompletedItem[S, R]]:
        """Run ``work`` on every share and yield the results in order of completion. ``left``: remaining seconds, None =
        unlimited; shares that are not done by then are dropped. A process is started only when there is a share for it.
        Raise every exception of ``work``, with the worker's traceback as a note."""
        from multiprocessing.connection import Connection, wait

        todo = (_Share(i, what) for i, what in enumerate(shares))
        again: deque[_Share] = deque()
        while True:
            while len(self._busy) < self.jobs and not is_over(left):
                share = again.popleft() if again else next(todo, None)
                if share is None:
                    break
                yield from self._give(share, again)
            if (not self._busy and not again) or is_over(left):
                return
            for link in wait(list(self._busy), left()):
                assert isinstance(link, Connection)
                yield from self._take(link, again)

    def _give(self, share: _Share, again: deque[_Share]) -> Iterator[CompletedItem[S, R]]:
        while self._idle and not self._idle[-1].process.is_alive():      # died while idle
            self._bury(self._idle.pop())
        if not self._idle:
            self._start()
        worker = self._idle[-1]               # always in _idle or _busy, so that close() finds it after an interrupt
        self._busy[worker.link] = worker, share
        self._idle.pop()
        try:
            worker.link.send(share.what)
        except OSError:
            yield from self._died(worker, share, again)

    def _take(self, link: Connection, again: deque[_Share]) -> Iterator[CompletedItem[S, R]]:
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
        yield CompletedItem(share.number, share.what, result)

    def _died(self, worker: _Worker, share: _Share, again: deque[_Share]) -> Iterator[CompletedItem[S, R]]:
        how = self._bury(worker)
        if share.deaths + 1 < TRIES:
            again.append(share._replace(deaths=share.deaths + 1))
        else:
            yield CompletedItem(share.number, share.what, KilledItem(how))

    def _start(self) -> None:
        from multiprocessing import get_context

        context = get_context()
        ours, theirs = context.Pipe()
        calls = ((limits.lift, (limits.lifted(),)), *_init_calls)
        process = context.Process(target=_serve, args=(self.work, theirs, calls), daemon=True)
        is_forked = context.get_start_method() == "fork"
        with blocked_signals(), theirs, nullcontext() if is_forked else _without_current_folder():
            process.start()
            self._idle.append(_Worker(process, ours))

    def _bury(self, worker: _Worker) -> str:
        """Remove a worker that ended and return how it ended."""
        self._busy.pop(worker.link, None)
        worker.link.close()
        worker.process.join()
        return exit_text(worker.process.exitcode or 0)

    def close(self) -> None:
        """Kill all processes and wait until they have ended. May be called again."""
        workers = [*self._idle, *(worker for worker, _ in self._busy.values())]
        self._idle, self._busy = [], {}
        for worker in workers:
            worker.process.kill()
        for worker in workers:
            worker.process.join()
            worker.link.close()


def finished(work: Callable[[S], R], shares: Iterable[S], jobs: int) -> Iterator[CompletedItem[S, R]]:
    """Run ``work`` on every share and yield the results in order of completion; in this process if ``jobs`` is 1."""
    if jobs < 2:
        yield from (CompletedItem(i, share, work(share)) for i, share in enumerate(shares))
        return
    with Pool(work, jobs) as pool:
        yield from pool.each(shares)


def finished_in_order(work: Callable[[S], R], shares: Iterable[S], jobs: int) -> Iterator[CompletedItem[S, R]]:
    """Like ``finished``, but yield the results in the order of the input. An interrupt leaves the first results, as
    with one process."""
    kept: dict[int, CompletedItem[S, R]] = {}
    following = 0
    for done in finished(work, shares, jobs):
        kept[done.number] = done
        while following in kept:
            yield kept.pop(following)
            following += 1


def spread(work: Callable[[S], R], shares: Iterable[S], jobs: int) -> Iterator[R | KilledItem]:
    """Run ``work`` on every share and yield the results in the order of the input; in this process if ``jobs`` is 1."""
    for done in finished_in_order(work, shares, jobs):
        yield done.result


def whole(results: Iterable[R | KilledItem]) -> list[R]:
    """Return all results as a list. Raise Crash if one is ``KilledItem``."""
    out = []
    for result in results:
        if isinstance(result, KilledItem):
            raise Crash(f"two worker processes ended while doing the same part of the work: {result.how}")
        out.append(result)
    return out


def results_in_order(work: Callable[[S], R], shares: Iterable[S], jobs: int) -> Iterator[R]:
    """Yield the results of ``work`` in the order of the input. Raise the error of the first share that fails, as one
    process does: this process repeats that share. Raise Crash if two processes ended while doing the same share."""
    if jobs < 2:
        yield from map(work, shares)
        return
    for done in finished_in_order(partial(_attempted, work), shares, jobs):
        (attempt,) = whole([done.result])
        yield work(done.share) if attempt is None else attempt.result


class _Attempt(NamedTuple, Generic[R]):
    result: R


def _attempted(work: Callable[[S], R], share: S) -> _Attempt[R] | None:
    """Return the result of ``work``, None if it raises an exception."""
    try:
        return _Attempt(work(share))
    except Exception:
        return None


def cores() -> int:
    """Return the number of CPUs that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@contextmanager
def _without_current_folder() -> Iterator[None]:
    """Let interpreters that start meanwhile import no module from the current folder."""
    name = "PYTHONSAFEPATH"
    before = os.environ.get(name)
    os.environ[name] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


def exit_text(exitcode: int) -> str:
    """Return how a process ended, for a message. ``exitcode``: negative for a signal, as in multiprocessing."""
    if exitcode >= 0:
        return f"exit code {exitcode}"
    try:
        return f"killed by {signal.Signals(-exitcode).name}"
    except ValueError:
        return f"killed by signal {-exitcode}"


def is_over(left: Callable[[], float | None]) -> bool:
    """True if the time is over. ``left``: remaining seconds, None = unlimited."""
    seconds = left()
    return seconds is not None and seconds <= 0


@contextmanager
def blocked_signals() -> Iterator[None]:
    """Block the signals that end a command while a process starts or is asked for its end.

    A process that starts installs its handlers, and calls ``unblock_signals``. `Popen.poll` takes a lock; an interrupt
    that arrives then would leave it locked, and the process would never be seen to end.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _interrupts())
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def unblock_signals() -> None:
    """Receive the signals that ``blocked_signals`` blocked when this process started."""
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _interrupts())


def _interrupts() -> list[signal.Signals]:
    """Return the signals that end a command."""
    return [getattr(signal, name) for name in ("SIGINT", *ENDING)]


# --- Worker side ---------------------------------------------------------------------------------------------


def _serve(work: Callable[[Any], Any], link: Connection, calls: Sequence[InitCall]) -> None:
    """Main loop of a worker process: receive an argument from the pipe, call ``work`` with it and send the result,
    until the pipe is closed or the parent ends. ``calls`` are executed first: they set up the parent's state."""
    for function, args in calls:
        function(*args)
    signal.signal(signal.SIGINT, lambda *_: None)    # not SIG_IGN: programs started by ``work`` would inherit it
    for name in ENDING:
        signal.signal(getattr(signal, name), signal.SIG_DFL)
    unblock_signals()
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
    except (TypeError, AttributeError, ValueError) as error:     # cannot be pickled
        link.send((None, Crash(f"a result cannot be sent: {error}; {reply[1] or type(reply[0]).__name__}")))


def _end_with_parent() -> None:
    """Wait for the end of the parent process, for whatever reason, and exit. Uses the pipe that multiprocessing opens
    between parent and child."""
    from multiprocessing import parent_process

    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
