"""Adapters: an implementation in another process, which exchanges a JSON object per line, or a Python object.

    {"do": "complete", "prompt": [5, 6, 7], "n_predict": 2}     and, sometimes, "cache": false, "cancel_after": 0,
                                                                "sampling": {"temperature": 0.8, "seed": 1},
                                                                "key": "image 1", "key_start": 8
    {"cached": 2, "evaluated": 1, "tokens": [8, 9], ...}        the keys of ``Reply``
    {..., "stored": [{"tokens": [5, 6, 7, 8], "length": 4}], "used": {"entries": 1}}
    {"do": "burst", "requests": [{"prompt": ..., ...}, ...]}    {"replies": [{...}, ...]}
    {"do": "limits"}  {"limits": {"entries": 4}}                {"do": "reset"}  {}
    {"unsupported": "why"}                                      reply to any request

End of file on stdin asks the process to end. A line has at most ``LINE`` bytes and is parsed as JSON. A process that
ends, writes anything else, or does not reply within ``timeout`` seconds has failed. After three missed replies nothing
more is sent (timeouts.py). However an instance ends, its process group is killed afterwards; a child that must survive
has to leave the group. stderr is read all the time; only its last ``TAIL`` bytes are kept.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from contextlib import suppress
from inspect import Parameter, signature
from queue import Empty, SimpleQueue
from threading import Thread
from traceback import extract_tb
from typing import IO, Any, Callable, Mapping, Sequence

from cachesim.tools.conformance.protocol import CacheRequest, Failed, Reply, TimedOut, Unsupported, counts, read_reply
from cachesim.tools.conformance.timeouts import TimeBudget

LINE = 2**24                 # longest line in bytes; logits of a position in a large vocabulary take about 2**22
TAIL = 400                   # bytes of stderr that are kept for the message about a dead process


class ProcessSubject:
    """A process that exchanges JSON lines. Raise GaveUp if the time-outs of ``budget`` are used up."""

    def __init__(self, command: Sequence[str], budget: TimeBudget) -> None:
        budget.check()
        self.budget = budget
        self.dead = ""
        self.is_closed = False
        try:
            self.process = subprocess.Popen(list(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                            stderr=subprocess.PIPE, start_new_session=True)  # fmt: skip
        except (OSError, ValueError) as error:        # ValueError: a NUL in a word
            raise Failed(f"{command[0]!r} cannot be started: {getattr(error, 'strerror', error)}") from None
        self.errors = StderrTail(self.process.stderr)    # type: ignore[arg-type]
        self.talk: Thread | None = None

    def complete(self, ask: CacheRequest) -> Reply:
        said = self._exchange({"do": "complete", **_request(ask)})
        return read_reply(said, ask.cancel_after is not None)

    def burst(self, asks: Sequence[CacheRequest]) -> list[Reply]:
        said = self._exchange({"do": "burst", "requests": [_request(ask) for ask in asks]}).get("replies")
        if not isinstance(said, list) or len(said) != len(asks):
            raise Failed(f"burst of {len(asks)} requests: expected a list of {len(asks)} replies")
        return [read_reply(one, ask.cancel_after is not None) for one, ask in zip(said, asks, strict=True)]

    def limits(self) -> Mapping[str, int]:
        return counts("limits", self._exchange({"do": "limits"}).get("limits"))

    def reset(self) -> None:
        self._exchange({"do": "reset"})

    def close(self) -> None:
        """Ask the process to end, then kill it and the rest of its process group."""
        if self.is_closed:
            return
        self.is_closed = True
        if self._talking():                           # interrupted during an exchange: closing stdin could block
            self._kill()
        else:
            with suppress(OSError):
                self.process.stdin.close()            # type: ignore[union-attr]
        self._end()
        if not self._talking():                       # otherwise a child that left the group still holds the pipes
            with suppress(OSError):
                self.process.stdin.close()            # type: ignore[union-attr]
            self.process.stdout.close()               # type: ignore[union-attr]

    def _end(self) -> None:
        """Wait briefly for the process to end, then kill it; its children may still be running."""
        try:
            self.process.wait(self.budget.grace)
        except subprocess.TimeoutExpired:
            self.budget.killed += 1
        self._kill()
        for thread in filter(None, (self.talk, self.errors.thread)):
            thread.join(self.budget.grace)          # the group is dead; only a child that left it holds the pipes
            self.budget.killed += thread.is_alive()

    def _kill(self) -> None:
        with suppress(OSError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def _talking(self) -> bool:
        return self.talk is not None and self.talk.is_alive()

    def _exchange(self, question: Mapping[str, Any]) -> dict[str, Any]:
        """Send a line, wait for a reply. A thread does the I/O, so neither direction can block the caller."""
        if self.dead:
            raise Failed(self.dead)
        self.budget.check()
        answer: SimpleQueue[bytes] = SimpleQueue()
        line = json.dumps(question).encode() + b"\n"
        self.talk = Thread(target=self._talk, args=(line, answer), daemon=True)
        self.talk.start()
        try:
            return self._read(answer.get(timeout=self.budget.timeout))
        except Empty:
            self._kill()
            self.budget.missed += 1
            self.dead = self.budget.missed_reply
            raise TimedOut(self.dead) from None

    def _talk(self, line: bytes, answer: SimpleQueue[bytes]) -> None:
        said = b""
        with suppress(OSError, ValueError):
            self.process.stdin.write(line)            # type: ignore[union-attr]
            self.process.stdin.flush()                # type: ignore[union-attr]
        with suppress(OSError, ValueError):
            said = self.process.stdout.readline(LINE + 1)    # type: ignore[union-attr]
        answer.put(said)
        if self.is_closed:                               # a child that left the group held the pipes; close them here
            for stream in (self.process.stdin, self.process.stdout):
                with suppress(OSError):
                    stream.close()                    # type: ignore[union-attr]

    def _read(self, line: bytes) -> dict[str, Any]:
        if not line.endswith(b"\n"):
            self.dead = f"a line of more than {LINE} bytes" if len(line) > LINE else self._ended(line)
            raise Failed(self.dead)
        try:
            said = json.loads(line.decode("utf-8"))   # given bytes, json would guess the encoding
        except (ValueError, RecursionError):
            self.dead = f"expected a JSON object, found the line {line[:60]!r} (write log lines to stderr)"
            raise Failed(self.dead) from None
        if not isinstance(said, dict):
            raise Failed(f"expected a JSON object, found the line {line[:60]!r}")
        if "unsupported" in said:
            raise Unsupported(str(said["unsupported"]))
        return said

    def _ended(self, line: bytes) -> str:
        """Describe how the process ended, with its last line on stderr."""
        self._end()
        last = self.errors.last_line()
        cut = f" inside the line {line[:60]!r}" if line else ""
        return f"the process ended with status {self.process.returncode}{cut}{': ' if last else ''}{last}"


class StderrTail:
    """The stderr of a process, read by a thread so that the process never blocks on writing."""

    def __init__(self, stream: IO[bytes]) -> None:
        self.kept, self.size = b"", 0
        self.thread = Thread(target=self._read, args=(stream,), daemon=True)
        self.thread.start()

    def _read(self, stream: IO[bytes]) -> None:
        with stream, suppress(OSError):
            while chunk := os.read(stream.fileno(), 1 << 16):
                self.kept = (self.kept + chunk)[-TAIL:]
                self.size += len(chunk)

    def last_line(self) -> str:
        """Return the last kept line, with the total size of stderr if that exceeds ``TAIL``."""
        last = self.kept.decode("utf-8", "replace").strip().rpartition("\n")[2]
        return f"{last} (the end of {self.size} bytes on stderr)" if self.size > TAIL else last


def _request(ask: CacheRequest) -> dict[str, Any]:
    return {"prompt": list(ask.prompt), "n_predict": ask.n_predict, **ask.options()}


# An implementation as a Python object: ``complete(prompt, n_predict)`` and optional methods.
#
# An ability is present if its keyword or method is: ``complete(..., cache=)``, ``complete(..., cancel_after=)``,
# ``complete(..., sampling=)``, ``complete(..., key=, key_start=)``, ``burst(requests)``, ``limits()``, ``reset()``. A
# method that raises NotImplementedError counts as missing, so a stub is allowed. ``cancel_after=0`` may be missing
# alone. Return values: ``help`` of ``Reply``; a fingerprint may be an array. Each call may take ``timeout`` seconds
# (timeouts.py).

class PythonSubject:
    """An object with a method ``complete``. Its exceptions become Failed, or Unsupported."""

    def __init__(self, factory: Callable[[], Any], budget: TimeBudget) -> None:
        budget.check()
        self.budget, self.object = budget, _call(factory)
        if not callable(getattr(self.object, "complete", None)):
            raise Failed(f"{type(self.object).__name__} has no method complete(prompt, n_predict)")
        self.keywords = _keywords(self.object.complete)

    def complete(self, ask: CacheRequest) -> Reply:
        options = ask.options()
        missing = [name for name in options if self.keywords is not None and name not in self.keywords]
        if missing:
            raise Unsupported(f"complete() has no parameter {missing[0]}")
        raw = self._timed(self.object.complete, list(ask.prompt), ask.n_predict, **options)
        return read_reply(raw, ask.cancel_after is not None)

    def burst(self, asks: Sequence[CacheRequest]) -> list[Reply]:
        raw = self._timed(self._method("burst"), [_request(ask) for ask in asks])
        if not isinstance(raw, Sequence) or len(raw) != len(asks):
            raise Failed(f"burst() of {len(asks)} requests: expected a list of {len(asks)} replies")
        return [read_reply(one, ask.cancel_after is not None) for one, ask in zip(raw, asks, strict=True)]

    def limits(self) -> Mapping[str, int]:
        return counts("limits", self._timed(self._method("limits")))

    def reset(self) -> None:
        self._timed(self._method("reset"))

    def close(self) -> None:
        """Do nothing: the garbage collector frees the object."""

    def _timed(self, function: Callable[..., Any], *args: Any, **options: Any) -> Any:
        with self.budget.limit():
            return _call(function, *args, **options)

    def _method(self, name: str) -> Callable[..., Any]:
        found: Callable[..., Any] | None = getattr(self.object, name, None)
        if not callable(found):
            raise Unsupported(f"no method {name}()")
        return found


def _keywords(function: Callable[..., Any]) -> frozenset[str] | None:
    """Return the parameter names of a function, None if it accepts any or has no signature."""
    try:
        parameters = signature(function).parameters.values()
    except (TypeError, ValueError):
        return None
    if any(one.kind is Parameter.VAR_KEYWORD for one in parameters):
        return None
    return frozenset(one.name for one in parameters)


def _call(function: Callable[..., Any], *args: Any, **options: Any) -> Any:
    try:
        return function(*args, **options)
    except NotImplementedError as error:
        raise Unsupported(str(error) or f"{getattr(function, '__name__', 'it')} is not implemented") from None
    except Exception as error:
        place = extract_tb(error.__traceback__)[-1]
        raise Failed(f"{type(error).__name__}: {error} ({place.filename}:{place.lineno})") from error
