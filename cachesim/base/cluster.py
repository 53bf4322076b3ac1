"""Jobs on an existing dask.distributed cluster (extra `cluster`).

A job is the name of a function, which the worker imports, and a JSON string; the result is a JSON string. So a job can
be read in a log. The scheduler must be trusted nevertheless: dask sends pickles, so anybody who can connect to the
scheduler can run Python code on its workers, and the scheduler can run Python code here.
"""

from __future__ import annotations

import json
import logging
from contextlib import suppress
from importlib import import_module
from typing import Any, Callable, Iterable, Iterator

from cachesim.base import limits
from cachesim.base.code_version import code_version
from cachesim.base.errors import BadInput, cut, quoted
from cachesim.base.extras import install_command
from cachesim.base.pool import CompletedItem, KilledItem, is_over

SCHEME = "dask://"
SECONDS = 10            # timeout for the scheduler's answer
AHEAD = 3               # jobs in flight per worker thread, so that threads do not idle


class Cluster:
    """Connection to a dask scheduler, ``dask://HOST:PORT``. A context manager: leaving it cancels unfinished jobs.

    Within the context the process logs nothing: the event loop of dask writes tracebacks to the log, for example after
    Ctrl-C during a call, and cachesim prints its own errors.
    """

    def __init__(self, address: str) -> None:
        """Connect. Raise BadInput if the address is invalid, nothing answers, or dask.distributed is missing."""
        self.address, where = address, checked_address(address)
        try:
            self._dask: Any = import_module("distributed")      # an optional dependency, imported on first use
        except ImportError:
            raise BadInput("dask.distributed is not installed", hint=install_command("cluster")) from None
        try:
            self._client = self._dask.Client(where, timeout=SECONDS, set_as_default=False)
        except (OSError, ValueError) as error:
            raise BadInput(f"no dask scheduler answers at {address}: {cut(str(error))}") from None

    def __enter__(self) -> Cluster:
        self._disabled = logging.root.manager.disable
        logging.disable(logging.CRITICAL)
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(Exception):           # the scheduler may be gone
            self._client.close(timeout=SECONDS)
        logging.disable(self._disabled)

    def threads(self) -> int:
        """Return the number of jobs that the current workers run at the same time."""
        return sum(self._client.nthreads().values())

    def each(
        self, function: str, payloads: Iterable[str], left: Callable[[], float | None] = lambda: None
    ) -> Iterator[CompletedItem[str, str]]:
        """Yield the result of each payload once, in order of completion. ``function``: "module:name" in cachesim, from
        JSON string to JSON string. The scheduler repeats a job whose worker ends; after too many workers the result is
        ``KilledItem``. ``left``: remaining seconds, None = unlimited. Raise BadInput if the cluster is lost or a
        worker has another version of cachesim, and every exception of ``function``."""
        todo = enumerate(payloads)
        sent: dict[Any, tuple[int, str]] = {}

        def send() -> list[Any]:
            """Submit the next job; return its future, or an empty list if no job or no time is left."""
            if is_over(left) or (job := next(todo, None)) is None:
                return []
            future = self._client.submit(_call, function, job[1], code_version(), limits.lifted(), pure=False)
            sent[future] = job
            return [future]

        first = [future for _ in range(max(1, AHEAD * self.threads())) for future in send()]
        results = self._dask.as_completed(first, loop=self._client.loop, timeout=left())
        try:
            for future in results:
                number, payload = sent.pop(future)
                yield CompletedItem(number, payload, self._result(future))
                for more in send():
                    results.add(more)
        except (self._dask.TimeoutError, TimeoutError):
            return
        finally:
            with suppress(Exception):
                self._client.cancel(list(sent), force=True)

    def _result(self, future: Any) -> str | KilledItem:
        if future.status == "finished":
            return str(future.result())
        if future.status != "error":
            raise BadInput(f"the cluster at {self.address} abandoned a job: {future.status}")
        error = future.exception()
        if isinstance(error, self._dask.KilledWorker):
            return KilledItem(f"{error.allowed_failures + 1} workers ended")
        if isinstance(error, ImportError):
            raise BadInput(f"a worker cannot import the function of its job: {cut(str(error))}",
                           hint="install the same cachesim on every worker") from None  # fmt: skip
        raise error


def _call(function: str, payload: str, version: str, numbers: dict[str, int]) -> str:
    """Run a job on the worker."""
    if version != code_version():
        raise BadInput(f"a worker has cachesim {code_version()}, expected {version}",
                       hint="install the same cachesim version on every worker")  # fmt: skip
    limits.lift(numbers)
    module, _, name = function.partition(":")
    if not module.startswith("cachesim."):
        raise BadInput(f"not a function of cachesim: {quoted(function)}")
    json.loads(payload)
    return str(getattr(import_module(module), name)(payload))


def checked_address(text: str) -> str:
    """Return the scheduler address in dask's form, ``tcp://HOST:PORT``. Raise BadInput."""
    host, _, port = text.removeprefix(SCHEME).rpartition(":")
    if not text.startswith(SCHEME) or not host or "/" in host or not (port.isascii() and port.isdigit()):
        raise BadInput(f"not a cluster address: {quoted(text)}", hint="expected dask://HOST:PORT of a dask scheduler")
    return f"tcp://{host}:{port}"

