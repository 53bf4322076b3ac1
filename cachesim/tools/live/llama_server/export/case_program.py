"""Main part of an exported program: writes the tiny model, starts the server, runs the case warm and then cold.

Standard library only. Exported programs contain the code of this module (``program_text``); names that it imports from
cachesim become literals or stand beside it there.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback
from typing import Callable, Mapping, NamedTuple, Sequence

from cachesim.tools.live.llama_server.export.talk import ServerTalk, answers, tokens_of
from cachesim.tools.live.llama_server.tiny_gguf import TinyModel

START_WITHIN = 60           # seconds until the model is loaded
PORTS = 5                   # attempts if another process takes the free port


class CaseServer:
    """A llama-server on a free port. ``binary``: the words that start it; ``models``: folder of the models;
    ``constant``: flags of every start."""

    def __init__(self, binary: Sequence[str], models: str, model: str, folder: str, constant: Sequence[str]) -> None:
        self.binary, self.models, self.model, self.folder, self.constant = binary, models, model, folder, constant
        self.log = os.path.join(folder, "log")
        self.process: subprocess.Popen[bytes] | None = None
        os.mkdir(os.path.join(folder, "slots"))

    def start(self, *flags: str) -> str:
        """End the server, start it with these flags and return its URL. Exits with 2 if it does not start."""
        for _ in range(PORTS):
            self.stop()
            with socket.socket() as free:
                free.bind(("127.0.0.1", 0))
                port = free.getsockname()[1]
            if self._started(port, flags):
                return f"http://127.0.0.1:{port}"
            if not any("couldn't bind" in line for line in self.lines()):
                break
        errors = [line for line in self.lines() if " E " in line] or self.lines()
        print("the server does not start:", *errors[-3:], sep="\n", file=sys.stderr)
        sys.exit(2)

    def _started(self, port: int, flags: Sequence[str]) -> bool:
        name, slots = f"case-{os.getpid()}-{port}", os.path.join(self.folder, "slots", "")
        words = [*self.binary, "-m", self._file(f"MODELS/{self.model}"), "--host", "127.0.0.1", "--port", str(port)]
        words += ["--alias", name, "--slot-save-path", slots, *self.constant, *map(self._file, flags)]
        try:
            with open(self.log, "wb") as log:
                self.process = subprocess.Popen(
                    words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.folder,
                )
        except OSError as error:
            print(f"{self.binary[0]}: {error.strerror} (set LLAMA_SERVER=PATH)", file=sys.stderr)
            sys.exit(2)
        talk, end = ServerTalk(f"http://127.0.0.1:{port}", within=5), time.monotonic() + START_WITHIN
        while self.process.poll() is None and time.monotonic() < end:
            status, body = talk.request("GET", "/props")
            if status == 200 and body and body.get("model_alias") == name:
                return True
            time.sleep(0.1)
        return False

    def _file(self, word: str) -> str:
        return word.replace("MODELS/", os.path.join(self.models, ""))

    def lines(self) -> list[str]:
        """Return the lines of the server's log."""
        with open(self.log, encoding="utf-8", errors="replace") as log:
            return log.read().splitlines()

    def ended(self) -> bool:
        """True if the process has ended or ends soon; the connection breaks earlier."""
        assert self.process is not None
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            return False
        return True

    def stop(self) -> None:
        """End the server."""
        if self.process is not None:
            self.process.terminate()
            if not self.ended():
                self.process.kill()
                self.process.wait()


class ExportedCase(NamedTuple):
    """The case to run. ``expected``: tokens reused and tokens evaluated, by request number. ``lost``: tokens that each
    losing request reuses, those that it reuses with the reference, and those evaluated before."""

    models: Mapping[str, TinyModel]     # the first is the server's
    flags: Sequence[str]
    cold_flags: Sequence[str]
    constant: Sequence[str]
    words: Mapping[str, list[int]]
    spelled: Sequence[str]              # words with real texts: their tokens are never renamed
    expected: Mapping[int, tuple[int, int]]
    tolerance: float
    history: Callable[[ServerTalk, CaseServer, dict[str, list[int]]], None]
    lost: Mapping[int, tuple[int, int, int]] = {}
    reference: tuple[str, str] = ("", "")      # name of the rules without the loss, and what stands after its numbers
    wheel: str = ""                     # program that runs the server of a wheel in this Python, "" = a binary


def run_case(case: ExportedCase) -> int:
    """Run a case; return 1 if an answer differs from a cold run's or a loss shows, 0 if neither does, 2 if that is
    unknown, 3 if another number of tokens is reused."""
    for one in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(one, lambda number, _: sys.exit(128 + number))
    try:
        with tempfile.TemporaryDirectory() as folder:
            return _code(case, folder)
    except Exception:
        traceback.print_exc()
        return 2


def _code(case: ExportedCase, folder: str) -> int:
    models = os.path.abspath(os.environ.get("MODELS", folder))
    os.makedirs(models, exist_ok=True)
    for file, model in case.models.items():
        if not os.path.exists(os.path.join(models, file)):
            model.write(os.path.join(models, file))
    server = CaseServer(_binary(case, folder), models, next(iter(case.models)), folder, case.constant)
    try:
        talk = _warm(case, server)
        differs = _compare(case, server, talk)
    finally:
        server.stop()
    return _verdict(case, talk, differs)


def _verdict(case: ExportedCase, talk: ServerTalk, differs: bool) -> int:
    """Print whether an answer differs and whether the losses show; return the exit code."""
    if differs:
        print("THE FAULT SHOWS")
    elif not case.lost:
        print("the fault does not show")
    losses = [talk.reuse(number, tokens, *case.reference) for number, tokens in case.lost.items()]
    for loss in losses:
        print(loss.text)
        if loss.cost:
            print(f"  {loss.cost}")
    if differs or any(loss.shows for loss in losses):
        return 1
    return 3 if any(loss.shows is None for loss in losses) else 0


def _binary(case: ExportedCase, folder: str) -> list[str]:
    """Return the words that start the server: the binary of the environment, or the program of the wheel."""
    binary = os.environ.get("LLAMA_SERVER", "" if case.wheel else "llama-server")
    if binary:
        return [os.path.abspath(binary) if os.sep in binary else binary]   # the server's folder is its own
    program = os.path.join(folder, "server.py")
    with open(program, "w", encoding="utf-8") as file:
        file.write(case.wheel)
    return [sys.executable, program]


def _warm(case: ExportedCase, server: CaseServer) -> ServerTalk:
    within, delay = float(os.environ.get("WITHIN", "60")), float(os.environ.get("DELAY", "0.05"))
    talk = ServerTalk(server.start(*case.flags), within, delay)
    case.history(talk, server, {name: _renamed(case, name) for name in case.words})
    return talk


def _renamed(case: ExportedCase, word: str) -> list[int]:
    """Return the tokens of a word; SEED and FIRST of the environment rename them unless the word is spelled out."""
    tokens, seed, first = case.words[word], int(os.environ.get("SEED", "0")), int(os.environ.get("FIRST", "101"))
    if word in case.spelled:
        return list(tokens)
    return [one if one < 101 else first + (one - 101 + seed) % 219 for one in tokens]


def _compare(case: ExportedCase, server: CaseServer, talk: ServerTalk) -> bool:
    """Print a row for every request; return True if an answer differs from that of a server without a cache."""
    tolerance = float(os.environ.get("TOLERANCE", case.tolerance))
    cold, shown = ServerTalk(server.start(*case.cold_flags), talk.within), False
    print("request  cache_n (expected)  evaluated (expected)  answer")
    for number, (cached, evaluated) in case.expected.items():
        if number in talk.disconnected:
            print(f"{number}  (disconnected)")
            continue
        came = talk.cold(number, cold)
        if came[0] == 0 and server.ended():
            print(f"{number}  - ({cached})  - ({evaluated})  the server has ended")
            cold, shown = ServerTalk(server.start(*case.cold_flags), talk.within), True
            continue
        said, first = talk.verdict(number, came, tolerance), answers(talk.came[number][1])[0]
        timings, shown = first.get("timings", {}), shown or "DIFFERS" in said
        tokens = f"  tokens: {' '.join(map(str, tokens_of(first)[:8]))}" if tokens_of(first) else ""
        counts = f"{timings.get('cache_n', '-')} ({cached})  {timings.get('prompt_n', '-')} ({evaluated})"
        print(f"{number}  {counts}  {said}{tokens}")
    return shown
