"""A running llama-server with its client and log; requests wait until it is idle again."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any, Callable, Iterable, Mapping

from cachesim.base.errors import BadInput
from cachesim.base.http_client import ConnectionLost
from cachesim.engines.llama_cpp.log_events import DECODE, IDLE, ROUND, UPDATE, Entry, read_event, server_facts
from cachesim.tools.live.llama_server.client import Client
from cachesim.tools.live.llama_server.gguf_adapters import with_adapters
from cachesim.tools.live.llama_server.gguf_models import check_build
from cachesim.tools.live.llama_server.gguf_projectors import with_projector
from cachesim.tools.live.llama_server.process import (
    HOST,
    Logbook,
    Process,
    ProcessEnd,
    ServerEnded,
    StoppedAtEnd,
    seconds,
)

# Empty iterations of a llama-server's main loop: they are counted, and omitted from the messages.
#
# If a longer conversation is loaded from the prompt cache over a prompt in progress, the slot has no token to evaluate.
# The server then decodes empty batches forever and logs thousands of equal rounds per second. The simulator runs two of
# them and stops. Source: llama.cpp tools/server/server-context.cpp update_slots, server-queue.cpp start_loop (b10566 to
# b11549).

KEPT = 2                    # empty rounds that are kept, as many as the simulator runs
MANY, LONG = 100, 2.0       # consecutive empty rounds and their duration [seconds] after which the server is stuck

LAUNCHED = "processing task, is_child"
OLDER_LAUNCHED = "processing task"          # the whole message until b7690
DESERTED = 5.0              # seconds of silence of an idle server after which it has forgotten a waiting request

BESIDE = ("cancel", "warn", "error")    # events logged by other threads, or without an effect


class RoundFilter:
    """Filter for messages in log order, which drops surplus empty rounds. ``clock``: returns seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self.empty = 0                  # consecutive empty rounds before the current round
        self._since = 0.0               # time of the first of them
        self._held: list[Entry] = []    # messages of the current round, which may have to be dropped
        self._updates = self._asked = self._works = False

    @property
    def spinning(self) -> bool:
        """True if the server has run only empty rounds for some time."""
        return self.empty >= MANY and self.clock() - self._since >= LONG

    def hear(self, said: Iterable[Entry]) -> list[Entry]:
        """Return the relevant messages. Messages of a possibly surplus round are held back until its kind is known."""
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
        """Update the state of the round; return True for a message that is kept in any case. A round works if it
        decodes, ends a task, or finds all slots idle. A round that only receives a request is kept, but counts as
        empty."""
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
        """End the current round, and count it if it was empty."""
        if self._updates:
            self.empty = 0 if self._works else self.empty + 1
            self._since = self.clock() if self.empty == 1 else self._since
        self._held = []
        self._updates = self._asked = self._works = False


BASE = ("-t", "1", "-tb", "1", "-fa", "off", "-ctk", "f32", "-ctv", "f32", "--no-warmup", "-fit", "off", "-lv", "5")
"""Flags for reproducible arithmetic (one thread, F32 K/V, no flash attention) and full logging."""

MODELS = "MODELS/"
CONTROL = "/v1/chat/completions/control"
MARK = "control reasoning_end on unknown completion id={}, no live slot"
"""Message of the server on a control request for an unknown completion; the request has no effect."""
OURS = MARK.partition("{")[0] + "cachesim-"

_WITHOUT_LEVEL = re.compile(r"(?:error|\w+: error \w+ing model): (.*)")
"""Error line of the program of a wheel, or of a build that logs without levels."""
PORTS, TAKEN = 5, "couldn't bind"          # attempts if another process takes the free port
START_WITHIN = 60.0         # seconds until the model is loaded
IDLE_WITHIN = 120.0         # seconds until all work is done
DEAD_WITHIN = 20.0          # seconds until a server whose connection broke must have ended


@dataclass(frozen=True)
class ServerStart:
    """Command line of a server, and its build name in the recording.

    ``flags`` belong to the workload; in them `MODELS/x.gguf` is a file beside ``gguf``. Adapters and a
    projector are files that are written when the server starts. ``commit``: build name; ``temporary``: folder that is
    removed if this process is killed."""

    binary: Path
    gguf: Path
    flags: tuple[str, ...]
    commit: str
    base_flags: tuple[str, ...] = BASE
    temporary: Path | None = None

    def command(self, port: int, slots: Path) -> list[str]:
        """Return the command line for a port, with a folder of slot files and a unique alias."""
        own = with_projector(with_adapters(self.flags, self.gguf, slots.parent / "adapters"), slots.parent)
        flags = [str(self.gguf.parent / word.removeprefix(MODELS)) if word.startswith(MODELS) else word
                 for word in (*self.base_flags, *own)]  # fmt: skip
        where = ["--host", HOST, "--port", str(port), "--slot-save-path", f"{slots}/", "--alias", alias(port)]
        return [str(self.binary), "-m", str(self.gguf), *where, *flags]


def says(entry: Entry, texts: tuple[str, ...]) -> bool:
    """True if a message begins with one of the texts, or is a launch in its older spelling and one of them is
    ``LAUNCHED``."""
    if entry.text == OLDER_LAUNCHED:
        return LAUNCHED in texts
    return entry.text.startswith(texts)


def alias(port: int) -> str:
    """Return the alias of a server that cachesim starts, which distinguishes it from another on the port."""
    return f"cachesim-{os.getpid()}-{port}"


class ServerStuck(Exception):
    """Raised if the server decodes empty batches forever, so that its busy slots never answer."""


class LlamaServer(StoppedAtEnd):
    """A server process with its client and its log. ``facts``: values logged at startup; ``said``: messages since the
    last ``taken``."""

    is_logged = True

    def __init__(self, start: ServerStart, folder: Path, log: Path, listen: bool = True) -> None:
        """Start the server and wait until it is idle; without ``listen`` only until it answers, and ignore its log.
        Raise BadInput if it cannot be started, is not ready in time or would load another model from the file."""
        check_build(start.gguf, start.commit)
        self.process = Process(lambda port: start.command(port, folder), log, folder=start.temporary)
        try:
            self.client = Client(self.process.url)
            self._book, self._rounds, self._marks = Logbook(log), RoundFilter(seconds), 0
            self.said: list[Entry] = []
            self._lock = Lock()                 # several threads read the log
            self._heard = seconds()             # time of the last message
            self.process.wait(partial(self.client.healthy, alias(self.process.port)), START_WITHIN, "loading the model")
            self.facts: dict[str, Any] = self._read_facts() if listen else {}
        except BaseException:
            self.stop()
            raise

    def _read_facts(self) -> dict[str, Any]:
        """Return the values logged at startup. ``levels`` is False if the log has no levels."""
        said = self.settled()
        facts = server_facts(entry.text for entry in said)
        return facts if any(entry.level for entry in said) else {**facts, "levels": False}

    @property
    def one_slot(self) -> bool:
        """True if the server has a single slot."""
        return bool(self.facts.get("n_slots") == 1)

    def listen(self) -> None:
        """Read new messages of the log. Raise Stuck."""
        self._read()
        if self._rounds.spinning:
            raise ServerStuck

    def _read(self) -> None:
        with self._lock:
            said = self._rounds.hear(self._book.read())
            self._heard = seconds() if said else self._heard
            self.said += said

    def await_answers(self) -> None:
        """Read new messages of the log while requests wait. Raise Stuck also if the server is idle: a request that
        waited for a slot is forgotten if the one before it was refused."""
        self.listen()
        last = (entry.text for entry in reversed(self.said) if entry.text == IDLE or says(entry, (LAUNCHED,)))
        if seconds() - self._heard > DESERTED and next(last, "") == IDLE:
            raise ServerStuck

    def taken(self) -> list[Entry]:
        """Return the messages since the last call."""
        self._read()
        said, self.said = self.said, []
        return [entry for entry in said if not entry.text.startswith(OURS)]

    def settled(self) -> list[Entry]:
        """Wait until no slot works; return the messages since the last call. Raise Ended and Stuck.

        A separate thread writes the log, some time after the answers. So a control request for an unknown completion
        is sent, which is queued after all others. When its refusal and then an idle server have been logged, the log
        of everything before is complete."""
        self._marks += 1
        name = f"cachesim-{self._marks}"
        mark = MARK.format(name)
        try:
            reply = self.client.post(CONTROL, {"id": name, "action": "reasoning_end"})
        except ConnectionLost:
            raise ServerEnded(self.died()) from None
        if reply.status == 404:
            raise BadInput(f"the server has no {CONTROL} (needs b10068 or newer)", file=self.process.url)

        def quiet() -> bool:
            self.listen()
            texts = [entry.text for entry in self.said]
            return mark in texts and IDLE in texts[texts.index(mark) :]

        self.process.wait(quiet, IDLE_WITHIN, "finishing the pending work")
        return self.taken()

    def ear(self, texts: tuple[str, ...]) -> Callable[[], None]:
        """Return a function that waits until a message with one of these beginnings is logged after this call. It
        raises Ended and Stuck."""
        before = len(self.said)

        def there() -> bool:
            self.listen()
            return any(says(entry, texts) for entry in self.said[before:])

        return lambda: self.process.wait(there, IDLE_WITHIN, f"waiting for '{texts[0]}'")

    def reported_slots(self) -> list[Mapping[str, Any]]:
        """Return the slots that the server reports. Raise Ended, and BadInput for another reply."""
        try:
            reply = self.client.get("/slots")
        except ConnectionLost:
            raise ServerEnded(self.died()) from None
        if reply.status != 200 or not isinstance(reply.body, list):
            raise BadInput("the server does not report its slots", file=self.process.url)
        return [slot for slot in reply.body if isinstance(slot, Mapping)]

    def died(self) -> ProcessEnd:
        """Wait for the end of the process after its connection broke; return how it ended."""
        self.process.wait(lambda: self.process.returncode is not None, DEAD_WITHIN, "ending")
        return self.process.died()

    def stop(self) -> None:
        """Close the connections and end the process."""
        if hasattr(self, "client"):
            self.client.close()
        self.process.stop()


def run_server(
    start: ServerStart, slots: Path, log: Path, listen: bool = True, kind: type[LlamaServer] = LlamaServer
) -> LlamaServer:
    """Start a server, again if another process took its port. Raise BadInput with the last message of the server."""
    for _ in range(PORTS):
        try:
            return kind(start, slots, log, listen)
        except ServerEnded as error:
            ended = error
            if not any(TAKEN in text for text in _errors_in(log)):
                break
    raise start_error(log, ended, start.binary)


def start_error(log: Path, ended: ServerEnded, binary: Path) -> BadInput:
    """Return the error for a server that ended when it started, with the first message of its log that names one."""
    why = (*_errors_in(log), *ended.died.fatal, str(ended))[0]
    return BadInput(f"the server ended when it started: {why}", file=str(binary))


def _errors_in(log: Path) -> list[str]:
    """Return the errors of a log."""
    return [text for entry in Logbook(log).read() if (text := _error_text(entry))]


def _error_text(entry: Entry) -> str:
    """Return the message of an error, "" for another entry."""
    if entry.level == "E":
        return entry.text
    found = _WITHOUT_LEVEL.match(entry.text) if not entry.level else None
    return found[1] if found else ""
