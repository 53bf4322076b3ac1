"""A real llama-server under way: started, asked, and heard until it is idle again."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any, Callable, Iterable

from cachesim.base.errors import BadInput
from cachesim.engines.llama_cpp.log_events import DECODE, IDLE, ROUND, UPDATE, Entry, read_event, server_facts
from cachesim.tools.live.llama_server.client import Client, ConnectionLost
from cachesim.tools.live.llama_server.gguf_models import check_build
from cachesim.tools.live.llama_server.process import HOST, Died, Ended, Logbook, Process, StoppedAtEnd, seconds

# Rounds of a llama-server's main loop in which nothing happens: they are counted, and left out of what was heard.
#
# A conversation that is loaded from the prompt cache over a prompt in progress, and is longer, leaves the slot without
# tokens to evaluate: the server then fills empty batches for ever and writes thousands of rounds a second, all alike.
# Ours does two of them and stops. Source: llama.cpp tools/server/server-context.cpp update_slots, server-queue.cpp
# start_loop (b10566 to b11549).

KEPT = 2                    # empty rounds that are heard, as many as ours does
MANY, LONG = 100, 2.0       # so many empty rounds in sequence, for so many seconds: nothing else will come

BESIDE = ("cancel", "warn", "error")    # said by other threads, or of what changes nothing


class Rounds:
    """Hears messages in the order of the log. ``clock`` gives seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self.empty = 0                  # in sequence, before the present round
        self._since = 0.0               # when the first of them was heard
        self._held: list[Entry] = []    # of the present round, which may turn out to be one too many
        self._updates = self._asked = self._works = False

    @property
    def spinning(self) -> bool:
        """Does the server work on nothing, and has it for some time?"""
        return self.empty >= MANY and self.clock() - self._since >= LONG

    def hear(self, said: Iterable[Entry]) -> list[Entry]:
        """The messages that count. Those of a round that may be one too many come as soon as it is known not to be."""
        out: list[Entry] = []
        for entry in said:
            if entry.text == ROUND:
                self._end()
            (out if self._look(entry) else self._held).append(entry)
            if self._works or self._asked or self.empty < KEPT:
                out += self._held
                self._held = []
        return out

    def _look(self, entry: Entry) -> bool:
        """A round works if it decodes, ends a task, or finds all slots idle. One that was only asked for something is
        heard, and is empty all the same. Is this message heard whatever becomes of its round?"""
        event = read_event(entry)
        if entry.text == UPDATE:
            self._updates = True
        elif entry.text == IDLE or entry.text.startswith(DECODE):
            self._works = True
        elif event is not None:
            self._works |= self._updates and event["ev"] == "release"
            self._asked |= not self._updates and event["ev"] not in BESIDE
        return event is not None and event["ev"] in BESIDE

    def _end(self) -> None:
        """The round is over. Had it anything to do?"""
        if self._updates:
            self.empty = 0 if self._works else self.empty + 1
            self._since = self.clock() if self.empty == 1 else self._since
        self._held = []
        self._updates = self._asked = self._works = False


BASE = ("-t", "1", "-tb", "1", "-fa", "off", "-ctk", "f32", "-ctv", "f32", "--no-warmup", "-fit", "off", "-lv", "5")
"""One thread, F32 K/V without flash attention: the arithmetic repeats exactly. Everything is logged."""

MODELS = "MODELS/"
CONTROL = "/v1/chat/completions/control"
MARK = "control reasoning_end on unknown completion id={}, no live slot"
"""What a server says when a completion is to be controlled that does not exist; nothing changes by it."""
OURS = MARK.partition("{")[0] + "cachesim-"

PORTS, TAKEN = 5, "couldn't bind"          # tries, if somebody else takes the port that was free
START_WITHIN = 60.0         # seconds until the model is loaded
IDLE_WITHIN = 120.0         # seconds until all work is done
DEAD_WITHIN = 20.0          # seconds until a server whose connection broke must have ended


@dataclass(frozen=True)
class ServerStart:
    """What is started: a server's binary and model, its flags and what the recording calls it.

    ``flags`` belong to the workload; in them `MODELS/x.gguf` is a file beside ``gguf``. ``commit`` names the build."""

    binary: Path
    gguf: Path
    flags: tuple[str, ...]
    commit: str
    base_flags: tuple[str, ...] = BASE

    def command(self, port: int, slots: Path) -> list[str]:
        """The command line on a port, with a folder of slot files and a name of its own."""
        flags = [str(self.gguf.parent / word.removeprefix(MODELS)) if word.startswith(MODELS) else word
                 for word in (*self.base_flags, *self.flags)]  # fmt: skip
        where = ["--host", HOST, "--port", str(port), "--slot-save-path", f"{slots}/", "--alias", alias(port)]
        return [str(self.binary), "-m", str(self.gguf), *where, *flags]


def alias(port: int) -> str:
    """The name under which we start a server, so that another on the same port is not taken for it."""
    return f"cachesim-{os.getpid()}-{port}"


class Stuck(Exception):
    """The server works on empty batches for ever: its busy slots will not be answered."""


class LlamaServer(StoppedAtEnd):
    """One process with its client and its log. ``facts`` is what it said of itself when it started; ``said`` what was
    heard since the last ``taken``."""

    def __init__(self, start: ServerStart, folder: Path, log: Path, listen: bool = True) -> None:
        """Start it and wait until it is idle; without ``listen`` until it answers, and ``settled`` hears nothing.
        Raises BadInput if it cannot be started, does not come up or would load another model from the file."""
        check_build(start.gguf, start.commit)
        self.process = Process(lambda port: start.command(port, folder), log)
        try:
            self.client = Client(self.process.url)
            self._book, self._rounds, self._marks = Logbook(log), Rounds(seconds), 0
            self.said: list[Entry] = []
            self._lock = Lock()                 # several threads listen
            self.process.wait(partial(self.client.healthy, alias(self.process.port)), START_WITHIN, "loading the model")
            self.facts: dict[str, Any] = server_facts(entry.text for entry in self.settled()) if listen else {}
        except BaseException:
            self.stop()
            raise

    @property
    def one_slot(self) -> bool:
        """Has it a single slot?"""
        return bool(self.facts.get("n_slots") == 1)

    def listen(self) -> None:
        """Read on in the log. Raises Stuck."""
        self._read()
        if self._rounds.spinning:
            raise Stuck

    def _read(self) -> None:
        with self._lock:
            self.said += self._rounds.hear(self._book.read())

    def taken(self) -> list[Entry]:
        """What was said since the last call."""
        self._read()
        said, self.said = self.said, []
        return [entry for entry in said if not entry.text.startswith(OURS)]

    def settled(self) -> list[Entry]:
        """Everything said since the last call, as soon as no slot works any more. Raises Ended and Stuck.

        The log is written by a thread of its own, some time after the answers. So a completion that does not exist is
        asked for: that question waits behind everything else, and when its refusal and then an idle server have been
        logged, so has everything before."""
        self._marks += 1
        name = f"cachesim-{self._marks}"
        mark = MARK.format(name)
        try:
            reply = self.client.post(CONTROL, {"id": name, "action": "reasoning_end"})
        except ConnectionLost:
            raise Ended(self.died()) from None
        if reply.status == 404:
            raise BadInput(f"no {CONTROL}: needs a llama-server like b10566 or newer", file=self.process.url)

        def quiet() -> bool:
            self.listen()
            texts = [entry.text for entry in self.said]
            return mark in texts and IDLE in texts[texts.index(mark) :]

        self.process.wait(quiet, IDLE_WITHIN, "the work in hand")
        return self.taken()

    def ear(self, text: str) -> Callable[[], None]:
        """A function that waits until a message that begins so has been logged after this call. It raises Ended and
        Stuck."""
        before = len(self.said)

        def there() -> bool:
            self.listen()
            return any(entry.text.startswith(text) for entry in self.said[before:])

        return lambda: self.process.wait(there, IDLE_WITHIN, f"waiting for '{text}'")

    def died(self) -> Died:
        """How it ended, waiting for its end if the connection broke just now."""
        self.process.wait(lambda: self.process.returncode is not None, DEAD_WITHIN, "ending")
        return self.process.died()

    def stop(self) -> None:
        """End it."""
        if hasattr(self, "client"):
            self.client.close()
        self.process.stop()


def run_server(start: ServerStart, slots: Path, log: Path, listen: bool = True) -> LlamaServer:
    """Start a server; again, if somebody else took its port meanwhile. Raises BadInput with what it said last."""
    for _ in range(PORTS):
        try:
            return LlamaServer(start, slots, log, listen)
        except Ended as error:
            errors = [entry.text for entry in Logbook(log).read() if entry.level == "E"]
            why = (*errors[:1], *error.died.fatal, str(error))[0]
            if not any(TAKEN in text for text in errors):
                break
    raise BadInput(f"the server ended when it started: {why}", file=str(start.binary))
