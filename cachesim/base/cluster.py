"""Work on other machines, through dask.distributed (extra `cluster`), on a cluster that exists.

What is sent is the name of a function, which the worker imports, and a JSON string; what comes back is a JSON string.
So a job is data that can be read in a log. The scheduler must be trusted all the same: whoever can connect to it can
run any Python code on its workers, and it can do so here, because dask itself sends pickles.
"""

from __future__ import annotations

import json
from contextlib import suppress
from importlib import import_module
from typing import Any, Callable, Iterable, Iterator

from cachesim import __version__
from cachesim.base import limits
from cachesim.base.errors import BadInput, cut, quoted
from cachesim.base.extras import install_command
from cachesim.base.pool import Done, Unfinished

SCHEME = "dask://"
SECONDS = 10            # for the scheduler to answer
AHEAD = 3               # jobs that are sent for every thread of the workers, so that none of them waits for us


class Cluster:
    """A scheduler, ``dask://HOST:PORT``, and its workers. A context manager: when it is left, what was sent and is not
    done is cancelled."""

    def __init__(self, address: str) -> None:
        """Connect. Raises BadInput where the address is none, nobody answers, or the package is missing."""
        self.address, where = address, checked_address(address)
        try:
            self._dask: Any = import_module("distributed")      # by its name, because nothing else needs it
        except ImportError:
            raise BadInput("dask.distributed is not installed", hint=install_command("cluster")) from None
        try:
            self._client = self._dask.Client(where, timeout=SECONDS, set_as_default=False)
        except (OSError, ValueError) as error:
            raise BadInput(f"no dask scheduler answers at {address}: {cut(str(error))}") from None

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(Exception):           # the scheduler may be gone
            self._client.close(timeout=SECONDS)

    def threads(self) -> int:
        """Jobs that the workers there are now do at the same time."""
        return sum(self._client.nthreads().values())

    def each(
        self, function: str, payloads: Iterable[str], left: Callable[[], float | None] = lambda: None
    ) -> Iterator[Done[str, str]]:
        """Results as they come, each payload's once. ``function``: "module:name" in cachesim, from string to string.
        A job whose worker ends is given to another one, by the scheduler; if that happens too often the result is
        ``Unfinished``. ``left``: seconds until it stops; None = it does not. Raises BadInput if the cluster is lost, or
        the workers have no cachesim of this version; what ``function`` raises."""
        todo = enumerate(payloads)
        sent: dict[Any, tuple[int, str]] = {}

        def send() -> list[Any]:
            """The next job, if there is one."""
            if (left() or 1) <= 0 or (one := next(todo, None)) is None:
                return []
            future = self._client.submit(_call, function, one[1], __version__, limits.lifted(), pure=False)
            sent[future] = one
            return [future]

        first = [future for _ in range(max(1, AHEAD * self.threads())) for future in send()]
        results = self._dask.as_completed(first, loop=self._client.loop, timeout=left())
        try:
            for future in results:
                number, payload = sent.pop(future)
                yield Done(number, payload, self._result(future))
                for more in send():
                    results.add(more)
        except (self._dask.TimeoutError, TimeoutError):
            return
        finally:
            with suppress(Exception):
                self._client.cancel(list(sent), force=True)

    def _result(self, future: Any) -> str | Unfinished:
        if future.status == "finished":
            return str(future.result())
        if future.status != "error":
            raise BadInput(f"the cluster at {self.address} gave up a job: {future.status}")
        error = future.exception()
        if isinstance(error, self._dask.KilledWorker):
            return Unfinished(f"{error.allowed_failures + 1} workers ended")
        if isinstance(error, ImportError):
            raise BadInput(f"a worker cannot import what it is asked to do: {cut(str(error))}",
                           hint="install the same cachesim on every worker") from None  # fmt: skip
        raise error


def _call(function: str, payload: str, version: str, numbers: dict[str, int]) -> str:
    """On the worker."""
    if version != __version__:
        raise BadInput(f"a worker has cachesim {__version__}, this is {version}", hint="install the same everywhere")
    limits.lift(numbers)
    module, _, name = function.partition(":")
    if not module.startswith("cachesim."):
        raise BadInput(f"{quoted(function)} is no function of cachesim")
    json.loads(payload)
    return str(getattr(import_module(module), name)(payload))


def checked_address(text: str) -> str:
    """The address of a scheduler as dask wants it. Raises BadInput."""
    host, _, port = text.removeprefix(SCHEME).rpartition(":")
    if not text.startswith(SCHEME) or not host or "/" in host or not (port.isascii() and port.isdigit()):
        raise BadInput(f"{quoted(text)} is no address of a cluster", hint="dask://HOST:PORT of a dask scheduler")
    return f"tcp://{host}:{port}"

