"""Worker process of the playground, seen from the server: a case at a time, a bounded queue, a bounded time."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, Mapping, Sequence

from cachesim.base.parser_process import from_line, to_line
from cachesim.tools.playground.case import problem

WORKER = (sys.executable, "-P", str(Path(__file__).with_name("worker.py")))
CPU_SECONDS = 10.0           # CPU time for a case, after which the worker ends
SECONDS = 60.0               # time for a case, after which the worker is replaced: a busy machine gives it less CPU
TIMED_OUT = -getattr(signal, "SIGPROF", 0)       # return code of a worker whose CPU time is over
WAITING = 8                  # cases in the queue, the current case included
REPLY = 1 << 24              # longest result [bytes]
ENDING = 2                   # seconds in which a worker ends after it has closed its pipe
LONGER = "run it on the command line, which has no such limit"
ENDED = "the simulation ended without a result; the terminal of the playground may say why"


class QueueFull(Exception):
    """The queue is full."""


class Simulator:
    """Worker process that answers a request at a time; it is replaced if it ends or exceeds its time. ``cpu``: seconds
    of CPU time, ``seconds``: in all."""

    def __init__(self, worker: Sequence[str] = WORKER, seconds: float = SECONDS, cpu: float = CPU_SECONDS) -> None:
        self._worker, self._seconds, self._cpu = worker, seconds, cpu
        self._process: asyncio.subprocess.Process | None = None
        self._turn, self._waiting = asyncio.Lock(), 0

    async def start(self) -> asyncio.subprocess.Process:
        """Start the worker if it does not run, and return it."""
        if self._process is None:
            pipe = asyncio.subprocess.PIPE
            self._process = await asyncio.create_subprocess_exec(
                *self._worker, str(os.getpid()), str(self._cpu), stdin=pipe, stdout=pipe, limit=REPLY,
                start_new_session=True,
            )  # fmt: skip
        return self._process

    async def ask(self, request: Mapping[str, Any]) -> Any:
        """Return the worker's result for a request. Raise QueueFull if too many requests wait."""
        if self._waiting >= WAITING:
            raise QueueFull
        self._waiting += 1
        try:
            async with self._turn:
                return await self._exchange(to_line(request))
        finally:
            self._waiting -= 1

    async def _exchange(self, line: bytes) -> Any:
        process = await self.start()
        assert process.stdin is not None and process.stdout is not None
        try:
            process.stdin.write(line)
            async with asyncio.timeout(self._seconds):
                reply = await process.stdout.readuntil(b"\n")
            return from_line(reply)
        except TimeoutError:
            await self.close()
            return problem(f"the simulation took longer than {self._seconds:g} s", LONGER)
        except asyncio.LimitOverrunError:
            await self.close()
            return problem(ENDED)
        except (ConnectionError, asyncio.IncompleteReadError):
            if await self._exit_code() == TIMED_OUT:
                return problem(f"the simulation took longer than {self._cpu:g} s of CPU time", LONGER)
            return problem(ENDED)
        except BaseException:                 # the reply would be taken for that of the next request
            await self.close()
            raise

    async def _exit_code(self) -> int | None:
        """End a worker whose pipe is closed; return its code. A worker that ends by itself may need a moment."""
        try:
            if self._process is not None:
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._process.wait(), ENDING)
        finally:
            code = await self.close()
        return code

    async def close(self) -> int | None:
        """End the worker; return its code, None = none ran."""
        process, self._process = self._process, None
        if process is not None:
            with suppress(ProcessLookupError):
                process.kill()
            return await process.wait()
        return None
