"""``python -m tests.live.watch_soak``: memory of ``cachesim watch --listen`` over 100,000 requests, images among them.

The server is a stand-in in this process, so that neither a model nor a GPU is needed. Clients on kept connections send
conversations of five requests; one in ``EVERY_IMAGE`` conversations begins with an image, and one in ``EVERY_CHANGE``
changes its first message on the way. A client waits while the rows are ``AHEAD`` requests behind. Exit code 1 if a row
is missing, or if the memory of a process has grown by more than ``GROWTH`` per cent since request ``WARM``.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
import os
import random
import signal
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

CLIENTS = 8                  # connections at the same time
TURNS = 5                    # requests of a conversation
EVERY_IMAGE = 10             # conversations of which one has an image
IMAGE = 24_000               # bytes of an image, at most
EVERY_CHANGE = 7             # conversations of which one changes its first message
AHEAD = 500                  # requests that wait for their rows, at most
WARM = 10_000                # request after which memory must not grow
GROWTH = 5.0                 # per cent that a process may grow after that
SAMPLE = 10_000              # requests between two lines of this program
LINE = 1 << 20               # bytes of a row, at most


class Sizes(NamedTuple):
    """Resident memory [KiB] of both processes after a number of requests."""

    requests: int
    relay: int
    analysis: int


class StandIn:
    """Server that states counts for each request, and the connections of its clients. ``images``: requests with an
    image."""

    def __init__(self) -> None:
        self.requests = self.images = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of a connection."""
        while head := await _head(reader):
            body = await reader.readexactly(_length(head))
            self.requests += 1
            self.images += b"image_url" in body
            prompt = len(body) // 4
            timings = {"prompt_n": prompt - prompt // 2, "cache_n": prompt // 2, "predicted_n": 2}
            choice = {"message": {"role": "assistant", "content": "Yes."}}
            reply = json.dumps({"choices": [choice], "timings": timings}).encode()
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(reply), reply))
            await writer.drain()
        writer.close()


async def _head(reader: asyncio.StreamReader) -> bytes:
    """Return the next head of a connection, b"" at its end."""
    try:
        return await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, ConnectionError):
        return b""


def _length(head: bytes) -> int:
    [value] = [line.partition(b":")[2] for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
    return int(value)


class Watched:
    """A running relay. ``rows``: rows that it has printed; ``with_cause``: those whose body was compared."""

    def __init__(self, process: asyncio.subprocess.Process, url: str) -> None:
        self.process, self.port = process, int(url.rstrip("/").rpartition(":")[2])
        self.rows = self.with_cause = 0
        self.totals: dict[str, Any] = {}
        self.has_new = asyncio.Event()

    async def read(self) -> None:
        """Count the rows until the end."""
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            said = json.loads(line)
            row = said.get("request")
            if row is not None:
                self.rows += 1
                self.with_cause += "cause" in row and row["prompt"] is not None
                self.has_new.set()
            self.totals = said.get("totals", self.totals)

    def sizes(self, requests: int) -> Sizes:
        """Return the memory of the relay and of the analysis."""
        pid = self.process.pid
        [child] = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return Sizes(requests=requests, relay=_resident(pid), analysis=_resident(int(child)))


def _resident(pid: int) -> int:
    line = next(one for one in Path(f"/proc/{pid}/status").read_text().splitlines() if one.startswith("VmRSS"))
    return int(line.split()[1])


def conversation(number: int) -> list[dict[str, Any]]:
    """Return the bodies of a conversation; the same number gives the same bodies."""
    draw = random.Random(number)
    words = " ".join(draw.choices(("river", "stone", "amber", "quiet", "lantern", "signal"), k=draw.randrange(20, 120)))
    content: Any = f"Case {number}: {words}"
    if number % EVERY_IMAGE == 0:
        image = base64.b64encode(draw.randbytes(draw.randrange(IMAGE // 4, IMAGE))).decode()
        content = [{"type": "text", "text": content},
                   {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{image}"}}]  # fmt: skip
    system = {"role": "system", "content": "You are a helpful assistant. Now it is 09:15."}
    messages = [system, {"role": "user", "content": content}]
    bodies = []
    for turn in range(TURNS):
        if turn == 3 and number % EVERY_CHANGE == 0:
            messages = [{**system, "content": "You are a helpful assistant. Now it is 09:42."}, *messages[1:]]
        bodies.append({"model": "m", "messages": messages, "max_tokens": 2})
        messages = [*messages, {"role": "assistant", "content": "Yes."},
                    {"role": "user", "content": f"Question {turn} of case {number}?"}]  # fmt: skip
    return bodies


class Soak:
    """Requests of all clients. ``sizes``: memory after every ``SAMPLE`` requests."""

    def __init__(self, watched: Watched, number: int) -> None:
        self._watched, self._number = watched, number
        self._next = self.sent = 0
        self.sizes: list[Sizes] = []
        self._start = time.monotonic()

    async def client(self) -> None:
        """Send whole conversations over one connection until enough requests were sent."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self._watched.port)
        while self._next * TURNS < self._number:
            number, self._next = self._next, self._next + 1
            for body in conversation(number):
                raw = json.dumps(body).encode()
                writer.write(b"POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
                             b"Content-Length: %d\r\n\r\n%s" % (len(raw), raw))  # fmt: skip
                await reader.readexactly(_length(await _head(reader)))
                self.sent += 1
                if self.sent % SAMPLE == 0:
                    self._sample()
                await self._room()
        writer.close()

    async def _room(self) -> None:
        """Wait for rows, if too many are missing."""
        while self.sent - self._watched.rows > AHEAD:
            self._watched.has_new.clear()
            await self._watched.has_new.wait()

    def _sample(self) -> None:
        """Store and print the memory."""
        found = self._watched.sizes(self.sent)
        self.sizes.append(found)
        print(f"{found.requests:,} requests in {time.monotonic() - self._start:.0f} s: relay {found.relay:,} KiB, "
              f"analysis {found.analysis:,} KiB", flush=True)  # fmt: skip

    async def all_rows(self, seconds: float) -> None:
        """Wait until all rows are there, for so many seconds at most."""
        end = time.monotonic() + seconds
        while self._watched.rows < self.sent and time.monotonic() < end:
            await asyncio.sleep(0.1)


async def soak(number: int) -> bool:
    """Run the soak; print its result, and return whether it meets its demands."""
    stand_in = StandIn()
    server = await asyncio.start_server(stand_in.serve, "127.0.0.1", 0)
    to = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    words = ["-m", "cachesim", "watch", "--listen", "127.0.0.1:0", "--to", to, "--json", "-q"]
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)         # background jobs ignore SIGINT
    process = await asyncio.create_subprocess_exec(sys.executable, *words, stdout=asyncio.subprocess.PIPE, limit=LINE)
    signal.signal(signal.SIGINT, handler)
    assert process.stdout is not None
    watched = Watched(process, json.loads(await process.stdout.readline())["url"])
    rows = asyncio.create_task(watched.read())
    run = Soak(watched, number)
    await asyncio.gather(*(run.client() for _ in range(CLIENTS)))
    await run.all_rows(60)
    os.kill(process.pid, signal.SIGINT)
    await rows
    await process.wait()
    server.close()
    return _judge(run, stand_in, watched)


def _judge(run: Soak, stand_in: StandIn, watched: Watched) -> bool:
    """Print the result; return whether all rows are there and memory has not grown."""
    totals = watched.totals
    lost = run.sent - watched.with_cause
    print(f"{run.sent:,} requests, {stand_in.images:,} with an image: {lost} rows lost, "
          f"{totals['dropped_bytes']} bytes dropped, left out {totals['left_out']}, "
          f"{totals['unread_connections']} connections not read")  # fmt: skip
    warm = next((one for one in run.sizes if one.requests >= WARM), run.sizes[0])
    last = run.sizes[-1]
    grown = [100 * (after / before - 1) for before, after in zip(warm[1:], last[1:], strict=True)]
    print(f"memory at request {last.requests:,} against request {warm.requests:,}: relay {grown[0]:+.1f} %, "
          f"analysis {grown[1]:+.1f} % (at most +{GROWTH:g} %)")  # fmt: skip
    return lost == 0 == totals["dropped_bytes"] and run.sent == totals["requests"] and max(grown) <= GROWTH


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.live.watch_soak", description=__doc__)
    parser.add_argument("--number", "-n", type=int, default=100_000, help="requests")
    args = parser.parse_args(argv)
    return 0 if asyncio.run(soak(max(args.number, SAMPLE))) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
