#!/bin/sh
# default flags: stale adjacent checkpoint restored: qwen35 (hybrid)
# Made by cachesim 0.2.0 from the scenario llama-adjacent-checkpoint-default-qwen35, expected numbers: llama_cpp@b11549.
# Expected: request 3: logits at position 11 depend on wrong K/V rows or states
# LLAMA_SERVER=build/bin/llama-server sh FILE
# Needs only that server and a python3 without packages: it writes a tiny model with random weights (below), sends the
# requests, then sends each again to a server without a cache. Other settings, as environment variables:
#   MODELS=FOLDER  keep the model there       TOLERANCE=X  largest log-probability difference that is rounding
#   SEED=N         use other tokens           FIRST=N      first token in use
#   WITHIN=S       seconds for a request      DELAY=S      seconds per iteration, between concurrent requests
#   PYTHON=PATH    the python3
# Exit status: 1 the fault shows, 0 it does not, 2 the server does not start.
exec "${PYTHON:-python3}" - <<'END_OF_PROGRAM'
from __future__ import annotations

import http.client
import json
import math
import os
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from hashlib import shake_256
from typing import Any, Callable, Mapping, NamedTuple, Sequence

# The case

FLAGS = ['-c', '1024', '-np', '1']
COLD_FLAGS = ['-c', '1024', '-np', '1', '--cache-ram', '0', '--ctx-checkpoints', '0', '-lv', '1']
CONSTANT = ['-t', '1', '-tb', '1', '-fa', 'off', '-ctk', 'f32', '-ctv', 'f32', '--no-warmup', '-fit', 'off', '-lv', '5']
WORDS = {
 'X': [182, 124, 298, 140, 168, 223, 221, 132],
 'a': [140, 267, 191, 201],
 'b': [314, 180, 214, 240, 215],
 'c': [235, 280, 274, 307, 312, 176, 243, 304, 307, 292, 242, 298, 300, 267, 253, 159, 249, 179, 121, 305, 136, 222,
       178, 252, 157, 236, 134, 294, 179, 226, 215, 144, 146, 285, 112, 171, 201, 152, 309, 286, 126, 307, 274, 275,
       122, 254, 273, 183, 225, 163, 272, 218, 126, 316, 173, 173, 206, 287, 237, 196, 162, 236, 254, 178, 136, 298,
       306, 118, 108, 228, 278, 145, 200, 106, 291, 157, 121, 112, 178, 268, 156, 227, 182, 170, 113, 252, 308, 136,
       254, 240, 211, 250, 106, 235, 305, 264, 285, 277, 256, 249, 231, 192, 281, 122, 282, 260, 188, 130, 319, 266,
       146, 110, 299, 278, 165, 142, 153, 202, 315, 268, 218, 245, 200, 301, 122, 177, 109, 105, 319, 297, 307, 170,
       228, 250, 294, 234, 269, 171, 221, 282, 251, 167, 318, 106, 211, 186, 302, 260, 240, 231, 108, 195, 177, 111,
       139, 192, 110, 154, 317, 176, 179, 159, 276, 208, 239, 261, 113, 248, 189, 319, 147, 115, 286, 229, 105, 267,
       212, 296, 178, 155, 246, 177, 117, 185, 295, 236, 216, 235, 101, 210, 274, 118, 255, 169, 252, 306, 122, 267,
       128, 130, 195, 211, 226, 232, 113, 182, 203, 257, 302, 306, 207, 294, 180, 145, 307, 161, 314, 137, 149, 130,
       294, 230, 116, 114, 297, 246, 309, 298, 286, 188, 313, 212, 157, 106, 282, 208, 129, 199, 295, 188, 153, 101,
       195, 101, 290, 148, 119, 271, 110, 154, 291, 266, 265, 276, 190, 260, 214, 274, 157, 126, 193, 250, 115, 145,
       169, 193, 111, 178, 313, 117, 160, 272, 209, 151, 276, 294, 176, 212, 159, 226, 187, 271, 260, 290, 128, 272,
       191, 165, 256, 236, 146, 268, 282, 241, 236, 224, 162, 276, 274, 258, 228, 170, 131, 127, 141, 299, 224, 300,
       184, 109, 139, 134, 269, 269, 269, 235, 284, 287, 138, 158, 121, 162, 246, 182, 262, 219, 240, 267, 152, 286,
       264, 279, 232, 206, 169, 124, 299, 213, 187, 307, 110, 241, 247, 248, 229, 171, 137, 258, 267, 228, 164, 109,
       172, 160, 151, 135, 176, 121, 312, 187, 233, 317, 136, 275, 212, 178, 270, 295, 247, 149, 155, 135, 146, 112,
       176, 245, 142, 144, 147, 192, 264, 109, 116, 136, 185, 244, 300, 114, 197, 113, 138, 294, 287, 145, 223, 104,
       221, 314, 255, 247, 308, 161, 127, 116, 103, 155, 172, 163, 201, 214, 135, 151, 177, 280, 180, 175, 303, 117,
       112, 145, 172, 181, 184, 195, 262, 152, 190, 122, 319, 185, 124, 228, 267, 312, 145, 120, 313, 277, 311, 307,
       228, 160, 209, 288, 271, 103, 247, 149, 273, 222, 219, 229, 282, 186, 221, 302, 193, 218, 317, 126, 183, 267,
       171, 185, 214, 145, 140, 152, 233, 226, 141, 195, 212, 156, 293, 251, 116, 158, 282, 273, 283, 250, 171, 114,
       272, 110, 166, 142, 111, 114, 209, 258, 181, 223, 210, 269, 227, 144, 299, 140, 317, 167, 242, 149, 302, 297,
       157, 240, 300, 119, 186, 305, 104, 164, 137, 138, 294, 168, 319, 309, 205, 241, 116, 173, 130, 241, 295, 268,
       202, 177, 303, 212, 171, 207, 219, 318, 110, 313, 217, 277, 222, 281, 102, 185, 267, 262, 254, 202, 227, 213,
       155, 156, 216, 298, 173, 155, 146, 119, 202, 209, 149, 129, 238, 311, 315, 305, 285, 197, 317, 171, 268, 220,
       182, 190, 194, 225, 187, 285, 165, 245, 146, 160, 149, 235, 135, 266, 262, 114, 171, 201, 185, 309, 108, 282,
       145, 148, 295, 122, 311, 156],
 'd': [128, 247],
}
SPELLED = []
# Number of the request: tokens reused, tokens evaluated
EXPECTED = {0: (0, 12), 1: (8, 5), 2: (8, 600), 3: (9, 3)}
TOLERANCE = 0.001


def history(talk, server, w):
    """Send the requests. Answers take the place of tokens of the words ``w``."""
    talk.ask(0, w['X'] + w['a'], n_predict=3)
    talk.ask(1, w['X'] + w['b'], n_predict=3)
    talk.ask(2, w['X'] + w['c'], n_predict=3)
    talk.ask(3, w['X'] + w['c'][0:2] + w['d'], n_predict=3)


# Client of an exported program for llama-server, and the comparison of answers with cold runs.
GREEDY = {'temperature': 0, 'ignore_eos': True, 'n_probs': 4, 'return_tokens': True}
KEPT = ['prompt', 'n_predict', 'n_keep', 'n_discard', 'max_tokens', 'lora']


class Talk:
    """Requests sent to a server and their responses, by request number."""

    def __init__(self, url: str, within: float = 60, delay: float = 0.05) -> None:
        """``within``: time limit of a request; ``delay``: duration of a server iteration [both in seconds]."""
        self.url, self.within, self.delay = url, within, delay
        self.sent: dict[int, dict[str, Any]] = {}
        self.came: dict[int, tuple[int, Any]] = {}
        self.disconnected: set[int] = set()
        self.scales: dict[str, Any] = {}                       # of the server's adapters, if they were changed

    def connect(self) -> http.client.HTTPConnection:
        """Return a new connection to the server."""
        return http.client.HTTPConnection(self.url.partition("//")[2].rstrip("/"), timeout=self.within)

    def request(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """Return the HTTP status, 0 without an answer, and the decoded body, None if it is not JSON."""
        connection = self.connect()
        try:
            connection.request(method, path, json.dumps(body), {"Content-Type": "application/json"})
            response = connection.getresponse()
            data = response.read()
        except (OSError, http.client.HTTPException):
            return 0, None
        finally:
            connection.close()
        try:
            return response.status, json.loads(data)
        except ValueError:
            return response.status, None

    def ask(self, number: int, prompt: list[int], hang_up: int | None = None, **fields: Any) -> None:
        """Send a request; ``hang_up``: disconnect after so many tokens."""
        body = {"prompt": list(prompt), **fields, **GREEDY}
        self.sent[number] = {**self.scales, **body}            # for a server without these changes
        if hang_up is None:
            self.came[number] = self.request("POST", "/completion", body)
        else:
            self.came[number] = 0, {"tokens": self.disconnect(body, hang_up)}
            self.disconnected.add(number)

    def adapters(self, scales: list[dict[str, Any]]) -> None:
        """Set the scales of the server's adapters."""
        self.request("POST", "/lora-adapters", scales)
        self.scales = {"lora": scales}

    def disconnect(self, body: Any, tokens: int) -> list[int]:
        """Request a stream and disconnect after so many tokens; return the received tokens."""
        connection, seen = self.connect(), list[int]()
        try:
            data = json.dumps({**body, "stream": True})
            connection.request("POST", "/completion", data, {"Content-Type": "application/json"})
            time.sleep(0 if tokens else self.delay)
            for line in connection.getresponse() if tokens else ():
                if line.startswith(b"data: {"):
                    seen += json.loads(line[6:]).get("tokens", [])
                if len(seen) >= tokens:
                    break
        except (OSError, http.client.HTTPException):
            pass
        connection.close()
        time.sleep(0.3)
        return seen

    def together(self, *calls: tuple[int, Callable[[], None]]) -> None:
        """Send concurrent requests; each follows the request before by some iterations of the server."""
        threads = []
        for after, call in calls:
            time.sleep(after * self.delay)
            threads.append(threading.Thread(target=call))
            threads[-1].start()
        for thread in threads:
            thread.join()

    def slot(self, id_slot: int, action: str, **body: str) -> None:
        """Save, restore or erase a slot."""
        status, _ = self.request("POST", f"/slots/{id_slot}?action={action}", body)
        if status != 200:
            print(f"slot {id_slot}, {action}: HTTP {status} (the server needs --slot-save-path)")

    def hear(self, number: int, completion: int, at: int, word: list[int], start: int, stop: int) -> None:
        """Write generated tokens of a completion, from ``at`` on, over ``start`` to ``stop`` of a word."""
        bodies = answers(self.came[number][1])
        said = (bodies[completion].get("tokens") or []) if completion < len(bodies) else []
        said = said[at : at + stop - start]
        word[start : start + len(said)] = said

    def cold(self, number: int, server: Talk) -> tuple[int, Any]:
        """Send a request again to a server without cached tokens; return status and body."""
        kept = {name: value for name, value in self.sent[number].items() if name in KEPT}
        return server.request("POST", "/completion", {**kept, "cache_prompt": False, "id_slot": 0, **GREEDY})

    def verdict(self, number: int, cold: tuple[int, Any], tolerance: float) -> str:
        """Describe the comparison of an answer with the cold run's; contains DIFFERS if they are not equal."""
        (status, body), (cold_status, cold_body) = self.came[number], cold
        if cold_status != 200:
            return f"cold: HTTP {cold_status:03}, warm: {status:03}"
        if status == 0:
            return "DIFFERS from a cold run: NO ANSWER"
        if status != 200:
            message = body.get("error", {}).get("message", "") if isinstance(body, dict) else ""
            return f"DIFFERS from a cold run: HTTP {status} {message}"
        if not all("tokens" in one or "content" in one for one in [*answers(body), *answers(cold_body)]):
            return "an answer that cannot be read"
        said = [difference(one, cold_body, tolerance) for one in answers(body)]
        return next((one for one in said if "DIFFERS" in one), said[0])


def answers(body: Any) -> list[Any]:
    """Return the completions of an answer."""
    return body if isinstance(body, list) and body else [body or {}]


def tokens_of(body: Any) -> list[Any]:
    """Return the generated tokens, or their texts if the server does not send ids (ik_llama.cpp)."""
    return body.get("tokens") or [place.get("content") for place in body.get("completion_probabilities") or []]


def places(body: Any) -> list[Any]:
    """Return the log-probabilities of the likeliest tokens per generated token; -inf for probability 0."""
    found = body.get("completion_probabilities") or []
    if found and "probs" in found[0]:                        # ik_llama.cpp
        return [{one["tok_str"]: math.log(one["prob"]) if one["prob"] else -math.inf for one in place["probs"]}
                for place in found]  # fmt: skip
    top = [place.get("top_logprobs") or place.get("top_probs") or [] for place in found]
    return [{one["id"]: one["logprob"] for one in place if "logprob" in one} for place in top]


def difference(warm: Any, cold: Any, tolerance: float) -> str:
    """Compare two completions: tokens, and the log-probabilities up to the first different token."""
    ours, theirs, near, far = tokens_of(warm), tokens_of(cold), places(warm), places(cold)
    at = next((i for i in range(min(len(ours), len(theirs))) if ours[i] != theirs[i]), None)
    n = min(len(near), len(far), 10**6 if at is None else at + 1)
    gaps = [abs(near[i][token] - far[i][token]) for i in range(n) for token in near[i].keys() & far[i].keys()]
    tied = at is not None and at < n and bool(near[at].keys() & far[at].keys())
    token = "" if at is None else f"token {at} is {ours[at]}, not {theirs[at]}"
    if gaps and max(gaps) > tolerance:
        return f"DIFFERS from a cold run: log-probabilities by {max(gaps)}" + (token and f", {token}")
    if token and not tied:
        return f"DIFFERS from a cold run: {token}"
    if len(ours) != len(theirs):
        return f"DIFFERS from a cold run: {len(ours)} tokens, not {len(theirs)}"
    return "same as cold"


# Writer of GGUF files with random weights. Standard library only.


ALIGNMENT = 32
UINT32, INT32, FLOAT32, BOOL, STRING, ARRAY = 4, 5, 6, 7, 8, 9


class Tensor(NamedTuple):
    """An F32 tensor. ``shape``: fastest dimension first. ``std``, ``mean``: of its random values."""

    name: str
    shape: tuple[int, ...]
    std: float = 0.0
    mean: float = 0.0
    decay: float = 0.0          # if not 0: decay rates up to this value instead of random values, slow rates first
    identity: bool = False      # add the unit matrix to the first columns


class TinyModel(NamedTuple):
    """Keys and tensors of a model."""

    keys: Mapping[str, Any]
    outer: Sequence[Tensor]                     # tensors outside of the layers
    kinds: Mapping[str, Sequence[Tensor]]       # tensors of each kind of layer
    order: str                                  # kinds of the layers, in order
    seed: int = 0                               # of the random values

    def tensors(self) -> list[Tensor]:
        """Return all tensors in file order; names of layer tensors get the prefix `blk.N.`."""
        blocks = [(i, one) for i, kind in enumerate(self.order) for one in self.kinds[kind]]
        return [*self.outer, *(one._replace(name=f"blk.{i}.{one.name}") for i, one in blocks)]

    def write(self, path: str, seed: int = 0) -> None:
        """Write the file. ``seed``: of the random values, 0 = the model's."""
        write_gguf(path, self.keys, self.tensors(), seed or self.seed)


def tensor_values(tensor: Tensor, seed: int) -> list[float]:
    """Return the values of a tensor in file order; normal values are sums of four uniform values."""
    n = math.prod(tensor.shape)
    if tensor.decay:
        return [-round(tensor.decay * 300.0 ** (i / (n - 1) - 1.0), 6) for i in reversed(range(n))]
    bits = struct.unpack(f"<{4 * n}H", shake_256(f"{seed} {tensor.name}".encode()).digest(8 * n))
    sums = [sum(bits[i : i + 4]) - 2 * 65535 for i in range(0, 4 * n, 4)]
    out = [tensor.mean + tensor.std * one / 37837.0 for one in sums]        # 65536 / sqrt(3): their deviation
    if tensor.identity:
        for i in range(min(tensor.shape)):
            out[i * tensor.shape[0] + i] += 1.0
    return out


def write_gguf(path: str, keys: Mapping[str, Any], tensors: Sequence[Tensor], seed: int = 0) -> None:
    """Write a file with these keys and tensors. An int becomes UINT32, in a tuple UINT32, in a list INT32."""
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(keys))
    head += b"".join(_string(key) + _value(value) for key, value in keys.items())
    offset = 0
    for tensor in tensors:
        n_dims = len(tensor.shape)
        head += _string(tensor.name) + struct.pack(f"<I{n_dims}QIQ", n_dims, *tensor.shape, 0, offset)
        offset += len(_padded(bytes(4 * math.prod(tensor.shape))))
    with open(path, "wb") as file:
        file.write(_padded(head))
        for tensor in tensors:
            numbers = tensor_values(tensor, seed)
            file.write(_padded(struct.pack(f"<{len(numbers)}f", *numbers)))


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % ALIGNMENT)


def _string(text: str) -> bytes:
    return struct.pack("<Q", len(text.encode())) + text.encode()


def _value(value: Any) -> bytes:
    """Return a key's value after the number of its type."""
    if isinstance(value, bool):
        return struct.pack("<I?", BOOL, value)
    if isinstance(value, int):
        return struct.pack("<II", UINT32, value)
    if isinstance(value, float):
        return struct.pack("<If", FLOAT32, value)
    if isinstance(value, str):
        return struct.pack("<I", STRING) + _string(value)
    kind = STRING if isinstance(value[0], str) else UINT32 if isinstance(value, tuple) else INT32
    items = [_string(one) if kind == STRING else struct.pack("<i", one) for one in value]
    return struct.pack("<IIQ", ARRAY, kind, len(value)) + b"".join(items)


# Main part of an exported program: writes the tiny model, starts the server, runs the case warm and then cold.


START_WITHIN = 60           # seconds until the model is loaded
PORTS = 5                   # attempts if another process takes the free port


class CaseServer:
    """A llama-server on a free port. ``models``: folder of the models; ``constant``: flags of every start."""

    def __init__(self, binary: str, models: str, model: str, folder: str, constant: Sequence[str]) -> None:
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
        words = [self.binary, "-m", self._file(f"MODELS/{self.model}"), "--host", "127.0.0.1", "--port", str(port)]
        words += ["--alias", name, "--slot-save-path", slots, *self.constant, *map(self._file, flags)]
        try:
            with open(self.log, "wb") as log:
                self.process = subprocess.Popen(
                    words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.folder,
                )
        except OSError as error:
            print(f"{self.binary}: {error.strerror} (set LLAMA_SERVER=PATH)", file=sys.stderr)
            sys.exit(2)
        talk, end = Talk(f"http://127.0.0.1:{port}", within=5), time.monotonic() + START_WITHIN
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
        """Return True if the process has ended or ends soon; the connection breaks earlier."""
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
    """The case to run. ``expected``: tokens reused and tokens evaluated, by request number."""

    models: Mapping[str, TinyModel]     # the first is the server's
    flags: Sequence[str]
    cold_flags: Sequence[str]
    constant: Sequence[str]
    words: Mapping[str, list[int]]
    spelled: Sequence[str]              # words with real texts: their tokens are never renamed
    expected: Mapping[int, tuple[int, int]]
    tolerance: float
    history: Callable[[Talk, CaseServer, dict[str, list[int]]], None]


def run_case(case: ExportedCase) -> int:
    """Run a case; return 1 if an answer differs from a cold run's, 0 if none does, 2 if that is unknown."""
    for one in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(one, lambda number, _: sys.exit(128 + number))
    try:
        with tempfile.TemporaryDirectory() as folder:
            shown = _shown(case, folder)
    except Exception:
        traceback.print_exc()
        return 2
    print("THE FAULT SHOWS" if shown else "the fault does not show")
    return int(shown)


def _shown(case: ExportedCase, folder: str) -> bool:
    models = os.path.abspath(os.environ.get("MODELS", folder))
    os.makedirs(models, exist_ok=True)
    for file, model in case.models.items():
        if not os.path.exists(os.path.join(models, file)):
            model.write(os.path.join(models, file))
    binary = os.environ.get("LLAMA_SERVER", "llama-server")
    binary = os.path.abspath(binary) if os.sep in binary else binary       # the server's folder is its own
    server = CaseServer(binary, models, next(iter(case.models)), folder, case.constant)
    try:
        return _compare(case, server, _warm(case, server))
    finally:
        server.stop()


def _warm(case: ExportedCase, server: CaseServer) -> Talk:
    within, delay = float(os.environ.get("WITHIN", "60")), float(os.environ.get("DELAY", "0.05"))
    talk = Talk(server.start(*case.flags), within, delay)
    case.history(talk, server, {name: _renamed(case, name) for name in case.words})
    return talk


def _renamed(case: ExportedCase, word: str) -> list[int]:
    """Return the tokens of a word; SEED and FIRST of the environment rename them unless the word is spelled out."""
    tokens, seed, first = case.words[word], int(os.environ.get("SEED", "0")), int(os.environ.get("FIRST", "101"))
    if word in case.spelled:
        return list(tokens)
    return [one if one < 101 else first + (one - 101 + seed) % 219 for one in tokens]


def _compare(case: ExportedCase, server: CaseServer, talk: Talk) -> bool:
    """Print a row for every request; return True if an answer differs from that of a server without a cache."""
    tolerance = float(os.environ.get("TOLERANCE", case.tolerance))
    cold, shown = Talk(server.start(*case.cold_flags), talk.within), False
    print("request  cache_n (expected)  evaluated (expected)  answer")
    for number, (cached, evaluated) in case.expected.items():
        if number in talk.disconnected:
            print(f"{number}  (disconnected)")
            continue
        came = talk.cold(number, cold)
        if came[0] == 0 and server.ended():
            print(f"{number}  - ({cached})  - ({evaluated})  the server has ended")
            cold, shown = Talk(server.start(*case.cold_flags), talk.within), True
            continue
        said, first = talk.verdict(number, came, tolerance), answers(talk.came[number][1])[0]
        timings, shown = first.get("timings", {}), shown or "DIFFERS" in said
        tokens = f"  tokens: {' '.join(map(str, tokens_of(first)[:8]))}" if tokens_of(first) else ""
        counts = f"{timings.get('cache_n', '-')} ({cached})  {timings.get('prompt_n', '-')} ({evaluated})"
        print(f"{number}  {counts}  {said}{tokens}")
    return shown


# The tiny model: keys of its file; tensors with deviation and mean of their values
MODELS = {
    'tiny-qwen35-GGGAGGGA.gguf': TinyModel(
        keys={
            'general.architecture': 'qwen35',
            'general.name': 'tiny-qwen35-GGGAGGGA',
            'general.description': 'random weights; for tests of cache logic only',
            'general.file_type': 0,
            'qwen35.context_length': 131072,
            'qwen35.embedding_length': 64,
            'qwen35.block_count': 8,
            'qwen35.feed_forward_length': 96,
            'qwen35.attention.head_count': 4,
            'qwen35.attention.head_count_kv': 2,
            'qwen35.attention.key_length': 16,
            'qwen35.attention.value_length': 16,
            'qwen35.attention.layer_norm_rms_epsilon': 1e-06,
            'qwen35.rope.dimension_count': 16,
            'qwen35.rope.freq_base': 10000.0,
            'qwen35.vocab_size': 320,
            'qwen35.ssm.conv_kernel': 4,
            'qwen35.ssm.inner_size': 64,
            'qwen35.ssm.state_size': 16,
            'qwen35.ssm.time_step_rank': 4,
            'qwen35.ssm.group_count': 2,
            'qwen35.full_attention_interval': 4,
            'qwen35.rope.dimension_sections': [4, 2, 2, 0],
            'tokenizer.ggml.model': 'gpt2',
            'tokenizer.ggml.pre': 'gpt-2',
            'tokenizer.ggml.tokens': (
                'Ġ ! " # $ % & \' ( ) * + , - . / 0 1 2 3 4 5 6 7 8 9 : ; < = > ? @ A B C D E F G H I J K L M N O '
                'P Q R S T U V W X Y Z [ \\ ] ^ _ ` a b c d e f g h i j k l m n o p q r s t u v w x y z { | } ~ Ċ '
                '<|endoftext|> <|im_start|> <|im_end|> <think> </think> Ba Be Bi Bo Bu Ca Ce Ci Co Cu Da De Di Do '
                'Du Fa Fe Fi Fo Fu Ga Ge Gi Go Gu Ha He Hi Ho Hu Ja Je Ji Jo Ju Ka Ke Ki Ko Ku La Le Li Lo Lu Ma '
                'Me Mi Mo Mu Na Ne Ni No Nu Pa Pe Pi Po Pu Qa Qe Qi Qo Qu Ra Re Ri Ro Ru Sa Se Si So Su Ta Te Ti '
                'To Tu Va Ve Vi Vo Vu Wa We Wi Wo Wu Xa Xe Xi Xo Xu Za Ze Zi Zo Zu Ban Ben Bin Bon Bun Can Cen '
                'Cin Con Cun Dan Den Din Don Dun Fan Fen Fin Fon Fun Gan Gen Gin Gon Gun Han Hen Hin Hon Hun Jan '
                'Jen Jin Jon Jun Kan Ken Kin Kon Kun Lan Len Lin Lon Lun Man Men Min Mon Mun Nan Nen Nin Non Nun '
                'Pan Pen Pin Pon Pun Qan Qen Qin Qon Qun Ran Ren Rin Ron Run San Sen Sin Son Sun Tan Ten Tin Ton '
                'Tun Van Ven Vin Von Vun Wan Wen Win Won Wun Xan Xen Xin Xon Xun Zan Zen Zin Zon Zun Bas Bes Bis '
                'Bos Bus Cas Ces Cis Cos Cus Das Des Dis Dos Dus Fas Fes Fis Fos'
            ).split(' '),
            'tokenizer.ggml.token_type': [1] * 96 + [3] * 3 + [4] * 221,
            'tokenizer.ggml.merges': ['Ġ Ġ'],
            'tokenizer.ggml.eos_token_id': 96,
            'tokenizer.ggml.eot_token_id': 98,
            'tokenizer.ggml.padding_token_id': 96,
            'tokenizer.ggml.add_bos_token': False,
            'tokenizer.chat_template': (
                "{%- for message in messages -%}{%- set c = message['content'] if message['content'] is string "
                "else '' -%}{%- if message['role'] == 'assistant' and '</think>' in c and not loop.last -%}{%- "
                "set c = c.split('</think>')[-1] -%}{%- endif -%}{{- '<|im_start|>' + message['role'] + '\n"
                "' + c + '<|im_end|>\n"
                "' -}}{%- endfor -%}{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\n"
                "' -}}{%- endif -%}"
            ),
        },
        outer=[
            Tensor('token_embd.weight', (64, 320), std=1.0),
            Tensor('output_norm.weight', (64,), std=0.1, mean=1.0),
            Tensor('output.weight', (64, 320), std=0.375),
        ],
        kinds={
            'G': [
                Tensor('attn_norm.weight', (64,), std=0.1, mean=1.0),
                Tensor('post_attention_norm.weight', (64,), std=0.1, mean=1.0),
                Tensor('attn_qkv.weight', (64, 128), std=0.15),
                Tensor('attn_gate.weight', (64, 64), std=0.15),
                Tensor('ssm_conv1d.weight', (4, 128), std=0.6),
                Tensor('ssm_dt.bias', (4,), std=0.2, mean=-1.0),
                Tensor('ssm_a', (4,), decay=0.3),
                Tensor('ssm_beta.weight', (64, 4), std=0.125),
                Tensor('ssm_alpha.weight', (64, 4), std=0.125),
                Tensor('ssm_norm.weight', (16,), std=0.1, mean=1.0),
                Tensor('ssm_out.weight', (64, 64), std=0.1875),
                Tensor('ffn_gate.weight', (64, 96), std=0.15),
                Tensor('ffn_up.weight', (64, 96), std=0.125),
                Tensor('ffn_down.weight', (96, 64), std=0.1),
            ],
            'A': [
                Tensor('attn_norm.weight', (64,), std=0.1, mean=1.0),
                Tensor('post_attention_norm.weight', (64,), std=0.1, mean=1.0),
                Tensor('attn_q.weight', (64, 128), std=0.225),
                Tensor('attn_k.weight', (64, 32), std=0.225),
                Tensor('attn_v.weight', (64, 32), std=0.125),
                Tensor('attn_output.weight', (64, 64), std=0.25),
                Tensor('attn_q_norm.weight', (16,), std=0.1, mean=1.7),
                Tensor('attn_k_norm.weight', (16,), std=0.1, mean=1.7),
                Tensor('ffn_gate.weight', (64, 96), std=0.15),
                Tensor('ffn_up.weight', (64, 96), std=0.125),
                Tensor('ffn_down.weight', (96, 64), std=0.1),
            ],
        },
        order='GGGAGGGA',
    ),
}
sys.exit(run_case(ExportedCase(MODELS, FLAGS, COLD_FLAGS, CONSTANT, WORDS, SPELLED, EXPECTED, TOLERANCE, history)))
END_OF_PROGRAM
