#!/usr/bin/env python3
"""Answers with rows of an activated adapter (aLoRA) where the request wants none: L7 to L9 of this report.

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
import threading
import time
from array import array
from itertools import product
from typing import Any, Sequence

COMMON = ("-c", "4096", "-t", "1", "-fa", "off", "-ctk", "f32", "-ctv", "f32", "--no-warmup", "-fit", "off",
          "--slot-save-path", ".")  # fmt: skip
ADAPTERS = ("--lora-scaled", "activated.gguf:0,plain.gguf:0")
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


LENGTHS = {"A": 30, "B": 30, "D": 20, "N": 10, "P": 60, "Q": 60, "R": 10}
WORDS = {"M": [310, 311, 312], **{name: text_of(name, length) for name, length in LENGTHS.items()}}
ON, OFF, PLAIN = {0: 1.0}, {0: 0.0}, {1: -1.0}


def second_activation(server: Server) -> Case:
    """L7: the rows of turn 1 from M on were computed with the aLoRA; with M in turn 2 they belong to the text before
    the activation."""
    case = Case(server, "L7 second activation", "-np", "1")
    case.ask("AMB", ON)
    case.ask("AMB*MD", ON)
    return case


def without_invocation(server: Server) -> Case:
    """L7: the last row of A was computed with the aLoRA, and the next prompt does not invoke it."""
    case = Case(server, "L7 no invocation", "-np", "1")
    case.ask("AM", ON)
    case.ask("AN", ON)
    return case


def no_list(server: Server) -> Case:
    """L7b: a request without a list."""
    case = Case(server, "L7b no list", "-np", "1")
    case.ask("AMB", ON)
    case.ask("AMBR", None)
    return case


def first_token(server: Server) -> Case:
    """L7c: a start of 0 does not cap the reuse."""
    case = Case(server, "L7c invocation at 0", "-np", "1")
    case.ask("MB", OFF)
    case.ask("MBR", ON)
    return case


def entry_of_active_rows(server: Server) -> Case:
    """L7d: Q does not invoke the aLoRA, which is off in the slot's list; the entry of AMB has rows computed with it."""
    case = Case(server, "L7d prompt cache", "-np", "1")
    for words, wanted in (("AMB", ON), ("Q", ON), ("AMB", OFF)):
        case.ask(words, wanted)
    return case


def chunk_reuse(server: Server) -> Case:
    """L7e: the reuse of chunks adds again what the cap took away."""
    case = Case(server, "L7e --cache-reuse", "-np", "1", "--cache-reuse", "4")
    case.ask("AMB", OFF)
    case.ask("AMB", ON)
    return case


def negative_scale(server: Server) -> Case:
    """L8: the rows of P were computed with a plain adapter of scale -1."""
    case = Case(server, "L8 negative scale", "-np", "1")
    case.ask("P", PLAIN)
    case.ask("PMR", ON)
    return case


def two_slots(server: Server) -> Case:
    """L9: the prompt of slot 1 joins a batch that slot 0 leads."""
    case = Case(server, "L9 two slots", "-np", "2", "-c", "8192")
    thread = threading.Thread(target=lambda: case.ask("AMB", ON, 3000, 0))
    thread.start()
    time.sleep(0.3)
    case.ask("BMD", ON, 8, 1)
    thread.join()
    return case


def entry_without_mark(server: Server) -> Case:
    """L7, the conversation was in the prompt cache in between. The change below does not repair this."""
    case = Case(server, "L7 entry without mark", "-np", "1")
    case.ask("AMB", ON)
    WORDS["C"] = case.answers[0]["tokens"]
    case.ask("QM", ON)
    case.ask("AMBCMD", ON)
    return case


CASES = (second_activation, without_invocation, no_list, first_token, entry_of_active_rows, chunk_reuse, negative_scale,
         two_slots, entry_without_mark)  # fmt: skip


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        server, wrong = Server(folder), 0
        write_adapter(os.path.join(folder, "activated.gguf"), WORDS["M"])
        write_adapter(os.path.join(folder, "plain.gguf"))
        try:
            wrong = sum(case(server).judge() for case in CASES)
        finally:
            server.stop()
    print(f"{wrong} wrong answers")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
