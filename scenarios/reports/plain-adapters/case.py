#!/usr/bin/env python3
"""Answers computed under another adapter than the request's: L1 to L5 of this report.

    LLAMA_SERVER=build/bin/llama-server python3 case.py

Needs only that server and a python3 without packages. It writes a tiny model with random weights and two tiny adapters,
starts the server on a local port, sends the requests, and sends each again to a server that was started for it.
Exit status: 1 if an answer is wrong, 0 if none is, or the server's last words if it does not start.
"""

from __future__ import annotations

import http.client
import json
import math
import os
import random
import socket
import struct
import subprocess
import sys
import tempfile
import time
from array import array
from itertools import product
from typing import Any, Sequence

COMMON = ("-c", "4096", "-t", "1", "-fa", "off", "-ctk", "f32", "-ctv", "f32", "--no-warmup", "-fit", "off",
          "--slot-save-path", ".")  # fmt: skip
ADAPTERS = ("--lora-scaled", "adapter0.gguf:0,adapter1.gguf:0")
ROUNDING = 0.001         # largest difference of log-probabilities that is rounding


# Files: GGUF version 3, random weights


def gguf(path: str, keys: dict[str, Any], tensors: dict[str, tuple[tuple[int, ...], float, float]]) -> None:
    """Write a file. ``tensors``: name -> shape (fastest dimension first), deviation and mean of its F32 values."""
    head, data = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(keys)), b""
    for name, value in keys.items():
        head += text(name) + typed(value)
    for name, (shape, deviation, mean) in tensors.items():
        head += text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, 0, len(data))
        draw = random.Random(f"{os.path.basename(path)} {name}").gauss
        data += array("f", (draw(mean, deviation) for _ in range(math.prod(shape)))).tobytes()
        data += bytes(-len(data) % 32)
    with open(path, "wb") as file:
        file.write(head + bytes(-len(head) % 32) + data)


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value.encode())) + value.encode()


def typed(value: Any) -> bytes:
    """Return the number of a value's type, and the value; an int is UINT32, in a list INT32."""
    if isinstance(value, bool):
        return struct.pack("<I?", 7, value)
    if isinstance(value, int):
        return struct.pack("<II", 4, value)
    if isinstance(value, float):
        return struct.pack("<If", 6, value)
    if isinstance(value, str):
        return struct.pack("<I", 8) + text(value)
    if isinstance(value[0], str):
        return struct.pack("<IIQ", 9, 8, len(value)) + b"".join(map(text, value))
    kind, form = (6, "f") if isinstance(value[0], float) else (5, "i") if isinstance(value, list) else (4, "I")
    return struct.pack(f"<IIQ{len(value)}{form}", 9, kind, len(value), *value)


MATRICES = {"attn_q": (64, 64), "attn_k": (64, 32), "attn_v": (64, 32), "attn_output": (64, 64),
            "ffn_gate": (64, 96), "ffn_up": (64, 96), "ffn_down": (96, 64)}  # fmt: skip
LAYERS, TOKENS = 4, 320


def write_model(path: str) -> None:
    """Write a llama model: 4 layers, width 64, and a vocabulary of 95 characters and 225 other tokens."""
    vocabulary = ["\u0120", *map(chr, range(33, 127)), "\u010a", "<|endoftext|>"]
    vocabulary += [f"<|{number}|>" for number in range(len(vocabulary), TOKENS)]
    sizes = {"context_length": 4096, "embedding_length": 64, "block_count": LAYERS, "feed_forward_length": 96,
             "attention.head_count": 4, "attention.head_count_kv": 2, "attention.layer_norm_rms_epsilon": 1e-6,
             "rope.dimension_count": 16, "vocab_size": TOKENS}  # fmt: skip
    keys = {"general.architecture": "llama", **{f"llama.{name}": size for name, size in sizes.items()},
            "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "gpt-2", "tokenizer.ggml.tokens": vocabulary,
            "tokenizer.ggml.token_type": [1] * 96 + [3] + [4] * (TOKENS - 97),
            "tokenizer.ggml.merges": ["\u0120 \u0120"], "tokenizer.ggml.eos_token_id": 96,
            "tokenizer.ggml.add_bos_token": False}  # fmt: skip
    tensors = {"token_embd.weight": ((64, TOKENS), 1.0, 0.0), "output.weight": ((64, TOKENS), 0.4, 0.0),
               "output_norm.weight": ((64,), 0.1, 1.0)}  # fmt: skip
    for layer in range(LAYERS):
        tensors |= {f"blk.{layer}.{name}.weight": (shape, 0.2, 0.0) for name, shape in MATRICES.items()}
        tensors |= {f"blk.{layer}.{name}.weight": ((64,), 0.1, 1.0) for name in ("attn_norm", "ffn_norm")}
    gguf(path, keys, tensors)


# The server


class Server:
    """A llama-server with a folder for its files."""

    def __init__(self, folder: str) -> None:
        self.binary, self.folder, self.process = os.environ.get("LLAMA_SERVER", "llama-server"), folder, None
        self.log = os.path.join(folder, "log")
        write_model(os.path.join(folder, "model.gguf"))

    def start(self, *flags: str) -> None:
        """Start the server anew, on a free port. Exits with 2 if it does not start."""
        self.stop()
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        words = [self.binary, "-m", "model.gguf", "--host", "127.0.0.1", "--port", str(self.port), *COMMON, *flags]
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(words, cwd=self.folder, stdout=log, stderr=log)
        end = time.monotonic() + 60
        while self.process.poll() is None and time.monotonic() < end:
            if self.send("GET", "/health")[0] == 200:
                return
            time.sleep(0.05)
        with open(self.log, encoding="utf-8", errors="replace") as log:
            sys.exit(f"the server does not start:\n{log.read()[-2000:]}")

    def stop(self) -> None:
        if self.process is not None:
            self.process.terminate()
            self.process.wait()

    def send(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """Return status and body of a response; status 0 if the connection was closed without one."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request(method, path, json.dumps(body), {"Content-Type": "application/json"})
            response = connection.getresponse()
            return response.status, json.loads(response.read())
        except (OSError, http.client.HTTPException):
            return 0, None
        finally:
            connection.close()

    def complete(self, prompt: Any, n_predict: int = 4, **fields: Any) -> tuple[int, Any]:
        """Return the greedy continuation of a prompt."""
        return self.send("POST", "/completion", {"prompt": prompt, "n_predict": n_predict, "temperature": 0,
                         "ignore_eos": True, "n_probs": 4, "return_tokens": True, **fields})  # fmt: skip


# End of the common part


def write_adapter(path: str, invocation: Sequence[int] = ()) -> None:
    """Write an adapter of rank 2; ``invocation``: tokens that activate it (aLoRA)."""
    keys = {"general.architecture": "llama", "general.type": "adapter", "adapter.type": "lora",
            "adapter.lora.alpha": 4.0}  # fmt: skip
    if invocation:
        keys["adapter.alora.invocation_tokens"] = tuple(invocation)
    tensors = {}
    for layer, name in product(range(LAYERS), ("attn_q", "attn_k", "attn_v", "ffn_down")):
        inputs, outputs = MATRICES[name]
        tensors[f"blk.{layer}.{name}.weight.lora_a"] = ((inputs, 2), 0.3, 0.0)
        tensors[f"blk.{layer}.{name}.weight.lora_b"] = ((2, outputs), 0.3, 0.0)
    gguf(path, keys, tensors)


def scales(wanted: dict[int, float]) -> list[dict[str, Any]]:
    """Return the field ``lora`` of a request."""
    return [{"id": number, "scale": scale} for number, scale in wanted.items()]


class Case:
    """A sequence of requests to one server, and their answers."""

    def __init__(self, server: Server, name: str, *flags: str) -> None:
        self.server, self.name, self.flags = server, name, flags
        self.served = {0: 0.0, 1: 0.0}                   # scales of the server
        self.asked: list[tuple[list[int], dict[int, float], str]] = []
        self.answers: list[Any] = []
        server.start(*ADAPTERS, *flags)

    def ask(self, words: str, wanted: dict[int, float] | None, n_predict: int = 4, id_slot: int = -1) -> None:
        """Send a prompt; its letters are texts, and ``*`` is the answer before. ``wanted`` None = without a list."""
        texts = {**WORDS, "*": self.answers[-1].get("tokens", []) if self.answers else []}
        prompt = [token for letter in words for token in texts[letter]]
        fields = {} if wanted is None else {"lora": scales(wanted)}
        under = "without a list" if wanted is None else f"under {wanted}"
        self.asked.append((prompt, dict(self.served) if wanted is None else wanted, f"{words} {under}"))
        self.answers.append({})
        place = len(self.answers) - 1
        self.answers[place] = self.server.complete(prompt, n_predict, id_slot=id_slot, **fields)[1]

    def set_scales(self, wanted: dict[int, float]) -> None:
        """Set the scales of the server."""
        self.server.send("POST", "/lora-adapters", scales(wanted))
        self.served |= wanted

    def slot(self, action: str) -> None:
        """Save or restore slot 0."""
        self.server.send("POST", f"/slots/0?action={action}", {"filename": "slot.bin"})

    def judge(self) -> int:
        """Compare every answer with that of a server that was started for this request; return the wrong ones."""
        wrong = 0
        for number, ((prompt, wanted, what), answer) in enumerate(zip(self.asked, self.answers, strict=True)):
            if "error" in answer:
                print(f"refused  {self.name}, request {number}: {what}: {answer['error']['message']}")
                continue
            self.server.start(*ADAPTERS, "--cache-ram", "0")
            cold = self.server.complete(prompt, answer["tokens_predicted"], lora=scales(wanted))[1]
            said = difference(answer, cold)
            wrong += bool(said)
            print(f"{'WRONG' if said else 'right'}    {self.name}, request {number}: {what}: "
                  f"{answer['timings']['cache_n']} of {len(prompt)} tokens reused{said}")  # fmt: skip
        return wrong


def difference(warm: Any, cold: Any) -> str:
    """Describe how an answer differs from that of a server without a cache, "" if at most by rounding."""
    for place, (one, other) in enumerate(zip(warm["tokens"], cold["tokens"], strict=True)):
        if one != other:
            return f"; token {place} is {one}, {other} on a cold server"
    for place, rows in enumerate(zip(*(one["completion_probabilities"] for one in (warm, cold)), strict=True)):
        near, far = ({one["id"]: one["logprob"] for one in row["top_logprobs"]} for row in rows)
        most = max(abs(near[token] - far.get(token, -99)) for token in near)
        if most > ROUNDING:
            return f"; token {place} has other log-probabilities than on a cold server, by {most:.3f}"
    return ""


def text_of(name: str, length: int) -> list[int]:
    """Return different tokens for each name."""
    return random.Random(name).sample(range(100, 300), length)


WORDS = {"P": text_of("P", 60), "Q": text_of("Q", 50), "R": text_of("R", 10), "X": [TOKENS + 1]}
ONE, OTHER, OFF = {0: 1.0}, {1: 1.0}, {0: 0.0}


def entry(server: Server) -> Case:
    """L1: the entry of the RAM prompt cache was computed under adapter 0."""
    case = Case(server, "L1 prompt cache", "-np", "1")
    for words, wanted in (("P", ONE), ("Q", OTHER), ("P", OTHER)):
        case.ask(words, wanted)
    return case


def no_list(server: Server) -> Case:
    """L2: a request without a list is not compared with what the slot holds; then the slot's list is the server's."""
    case = Case(server, "L2 no list", "-np", "1")
    for words, wanted in (("P", ONE), ("PR", None), ("PR", OFF)):
        case.ask(words, wanted)
    return case


def server_scales(server: Server) -> Case:
    """L3: the scales of the server change between two requests without a list."""
    case = Case(server, "L3 POST /lora-adapters", "-np", "1")
    case.ask("P", None)
    case.set_scales(ONE)
    case.ask("PR", None)
    return case


def slot_file(server: Server) -> Case:
    """L4: the file of a slot does not name the adapter."""
    case = Case(server, "L4 slot file", "-np", "1")
    case.ask("P", ONE)
    case.slot("save")
    case.ask("Q", OTHER)
    case.slot("restore")
    case.ask("PR", OTHER)
    return case


def refused(server: Server) -> Case:
    """L4b: a refused request without a list leaves the server's list in the slot, whose rows are of adapter 0."""
    case = Case(server, "L4b refused request", "-np", "1")
    for words, wanted in (("P", ONE), ("X", None), ("PR", OFF)):
        case.ask(words, wanted)
    return case


def in_turn(server: Server) -> Case:
    """L5: right answers, but the right entry is loaded, taken out of the cache, and cleared."""
    case = Case(server, "L5 in turn", "-np", "1")
    for words, wanted in (("P", ONE), ("Q", OTHER), ("P", ONE), ("Q", OTHER)):
        case.ask(words, wanted)
    return case


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        server, wrong = Server(folder), 0
        for number in range(2):
            write_adapter(os.path.join(folder, f"adapter{number}.gguf"))
        try:
            for case in (entry, no_list, server_scales, slot_file, refused, in_turn):
                wrong += case(server).judge()
        finally:
            server.stop()
    print(f"{wrong} wrong answers")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
