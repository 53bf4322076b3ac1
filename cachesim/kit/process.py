"""How is another process asked? One JSON object in one line to its stdin, one in one line back from its stdout.

    {"do": "complete", "prompt": [5, 6, 7], "n_predict": 2}     and, not always, "cache": false, "cancel_after": 0
    {"cached": 2, "computed": 1, "tokens": [8, 9], ...}         the keys of Reply
    {"do": "burst", "requests": [{"prompt": ..., ...}, ...]}    {"replies": [{...}, ...]}
    {"do": "limits"}  {"limits": {"entries": 4}}                {"do": "reset"}  {}
    {"unsupported": "why"}                                      to any of them

The end of stdin asks it to end. A line has at most ``LINE`` bytes and is parsed as JSON, nothing else; a process
that ends, says something else, or says nothing for ``timeout`` seconds has failed, and is killed with its children.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from contextlib import suppress
from queue import Empty, SimpleQueue
from tempfile import TemporaryFile
from threading import Thread
from typing import Any, Mapping, Sequence

from cachesim.kit.protocol import Ask, Failed, Reply, Unsupported, counts, read_reply

LINE = 2**24                 # bytes of a line; logits of one position in a large vocabulary are about 2**22
GRACE = 2.0                  # seconds to end by itself after stdin or stdout was closed
TAIL = 400                   # bytes of stderr that are shown when it has died


class ProcessSubject:
    """A process that speaks JSON lines."""

    def __init__(self, command: Sequence[str], timeout: float) -> None:
        self.timeout, self.dead = timeout, ""
        self.errors = TemporaryFile()                 # noqa: SIM115   (open as long as the process)
        try:
            self.process = subprocess.Popen(
                list(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, start_new_session=True
            )
        except OSError as error:
            self.errors.close()
            raise Failed(f"{command[0]!r} cannot be started: {error.strerror}") from None

    def complete(self, ask: Ask) -> Reply:
        said = self._exchange({"do": "complete", **_request(ask)})
        return read_reply(said, ask.cancel_after is not None)

    def burst(self, asks: Sequence[Ask]) -> list[Reply]:
        said = self._exchange({"do": "burst", "requests": [_request(ask) for ask in asks]}).get("replies")
        if not isinstance(said, list) or len(said) != len(asks):
            raise Failed(f"burst of {len(asks)} requests: replies must be a list of {len(asks)}")
        return [read_reply(one, ask.cancel_after is not None) for one, ask in zip(said, asks, strict=True)]

    def limits(self) -> Mapping[str, int]:
        return counts("limits", self._exchange({"do": "limits"}).get("limits"))

    def reset(self) -> None:
        self._exchange({"do": "reset"})

    def close(self) -> None:
        """Ask it to end, then make it. Its stdin closes first, so that it may end by itself."""
        if self.errors.closed:
            return
        with suppress(OSError):
            self.process.stdin.close()                # type: ignore[union-attr]
        self._wait()
        self.process.stdout.close()                   # type: ignore[union-attr]
        self.errors.close()

    def _wait(self) -> None:
        try:
            self.process.wait(GRACE)
        except subprocess.TimeoutExpired:
            self._kill()

    def _kill(self) -> None:
        with suppress(OSError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def _exchange(self, question: Mapping[str, Any]) -> dict[str, Any]:
        """Send a line, wait for one. The waiting is done by a thread, so that neither direction can hold us."""
        if self.dead:
            raise Failed(self.dead)
        answer: SimpleQueue[bytes] = SimpleQueue()
        line = json.dumps(question).encode() + b"\n"
        Thread(target=self._talk, args=(line, answer), daemon=True).start()
        try:
            return self._read(answer.get(timeout=self.timeout))
        except Empty:
            self._kill()
            self.dead = f"no reply within {self.timeout:g} seconds"
            raise Failed(self.dead) from None

    def _talk(self, line: bytes, answer: SimpleQueue[bytes]) -> None:
        said = b""
        with suppress(OSError, ValueError):
            self.process.stdin.write(line)            # type: ignore[union-attr]
            self.process.stdin.flush()                # type: ignore[union-attr]
        with suppress(OSError, ValueError):
            said = self.process.stdout.readline(LINE + 1)    # type: ignore[union-attr]
        answer.put(said)

    def _read(self, line: bytes) -> dict[str, Any]:
        if not line.endswith(b"\n"):
            self.dead = f"a line of more than {LINE} bytes" if len(line) > LINE else self._ended(line)
            raise Failed(self.dead)
        try:
            said = json.loads(line)
        except (ValueError, RecursionError):
            self.dead = f"the line {line[:60]!r} is not JSON (log lines belong to stderr)"
            raise Failed(self.dead) from None
        if not isinstance(said, dict):
            raise Failed(f"the line {line[:60]!r} is not a JSON object")
        if "unsupported" in said:
            raise Unsupported(str(said["unsupported"]))
        return said

    def _ended(self, line: bytes) -> str:
        """How the process came to its end, with the last that it said on stderr."""
        self._wait()
        self.errors.seek(max(0, self.errors.seek(0, os.SEEK_END) - TAIL))
        last = self.errors.read().decode("utf-8", "replace").strip().rpartition("\n")[2]
        cut = f" inside the line {line[:60]!r}" if line else ""
        return f"the process ended with status {self.process.returncode}{cut}{': ' if last else ''}{last}"


def _request(ask: Ask) -> dict[str, Any]:
    return {"prompt": list(ask.prompt), "n_predict": ask.n_predict, **ask.options()}
