#!/usr/bin/env python3
"""Three requests that end a llama-server process: M1, M3 and M4 of this report.

    LLAMA_SERVER=build/bin/llama-server python3 case.py

Needs only that server and a python3 without packages. It writes a tiny model with random weights and two tiny
projectors, starts the server on a local port, and sends the requests. Exit status: 1 if a request ended a server, 0 if
none did, or the server's last words if it does not start.
"""

from __future__ import annotations

import base64
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
import zlib
from array import array
from typing import Any

COMMON = ("-c", "1024", "-np", "1", "-t", "1", "--no-warmup", "-fit", "off")


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


WIDTH, LAYERS_OF_PROJECTOR = 32, 2


def write_projector(path: str, kind: str) -> None:
    """Write a projector. mlp: 16 tokens for an image, without text around it. gemma3: 9 tokens, decoded without a
    causal mask, between <start_of_image> and <end_of_image>."""
    size, patches = (32, 16) if kind == "mlp" else (48, 36)
    sizes = {"embedding_length": WIDTH, "attention.head_count": 2, "feed_forward_length": 48, "projection_dim": 64,
             "block_count": LAYERS_OF_PROJECTOR + (kind == "mlp"), "image_size": size, "patch_size": 8,
             "attention.layer_norm_epsilon": 1e-6, "image_mean": [0.5] * 3, "image_std": [0.5] * 3}  # fmt: skip
    keys = {"general.architecture": "clip", "general.type": "mmproj", "clip.has_vision_encoder": True,
            "clip.projector_type": kind, **{f"clip.vision.{name}": one for name, one in sizes.items()},
            "clip.use_gelu": True}  # fmt: skip
    tensors = {"v.patch_embd.weight": ((8, 8, 3, WIDTH), 0.1, 0.0), "v.patch_embd.bias": ((WIDTH,), 0.1, 0.0),
               "v.position_embd.weight": ((WIDTH, patches), 0.1, 0.0),
               "v.post_ln.weight": ((WIDTH,), 0.1, 1.0), "v.post_ln.bias": ((WIDTH,), 0.1, 0.0)}  # fmt: skip
    shapes = {**dict.fromkeys(("attn_q", "attn_k", "attn_v", "attn_out"), (WIDTH, WIDTH)), "ln1": (WIDTH,),
              "ln2": (WIDTH,), "ffn_up": (WIDTH, 48), "ffn_down": (48, WIDTH)}  # fmt: skip
    for layer in range(sizes["block_count"]):
        for name, shape in shapes.items():
            tensors[f"v.blk.{layer}.{name}.weight"] = (shape, 0.2, float(len(shape) == 1))
            tensors[f"v.blk.{layer}.{name}.bias"] = (shape[-1:], 0.1, 0.0)
    if kind == "mlp":
        for number, inputs in (0, WIDTH), (2, 64):
            tensors |= {f"mm.{number}.weight": ((inputs, 64), 0.2, 0.0), f"mm.{number}.bias": ((64,), 0.1, 0.0)}
    else:
        keys["clip.vision.projector.scale_factor"] = 2
        tensors |= {"mm.input_projection.weight": ((64, WIDTH), 0.2, 0.0),
                    "mm.soft_emb_norm.weight": ((WIDTH,), 0.1, 1.0)}  # fmt: skip
    gguf(path, keys, tensors)


def png(side: int) -> str:
    """Return a grey square as PNG file, in base64."""
    rows = zlib.compress((b"\0" + b"\x80" * 3 * side) * side)
    parts = ((b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)), (b"IDAT", rows), (b"IEND", b""))
    chunks = (struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
              for kind, data in parts)  # fmt: skip
    return base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"".join(chunks)).decode()


def picture(server: Server, before: str, after: str) -> dict[str, Any]:
    """Return a prompt with an image between two texts."""
    marker = server.send("GET", "/props")[1]["media_marker"]
    return {"prompt_string": before + marker + after, "multimodal_data": [png(32)]}


def last_words(server: Server) -> str:
    """Return the assertion or the exception that ended the process."""
    with open(server.log, encoding="utf-8", errors="replace") as log:
        lines = [line.strip() for line in log]
    found = next((line for line in lines if "GGML_ASSERT" in line or "what():" in line), "no message")
    return found.split("llama.cpp/")[-1]


def outcome(server: Server, name: str, status: int, body: Any) -> int:
    """Print what became of the server; return 1 if it has ended."""
    try:
        code = server.process.wait(2 if status == 0 else 0)
    except subprocess.TimeoutExpired:
        message = "" if status == 200 else f" {body['error']['message']}"
        print(f"the server runs    {name}: HTTP {status}{message}")
        return 0
    print(f"THE SERVER ENDED   {name}: exit code {code}, {last_words(server)}")
    return 1


def ends_with_image(server: Server) -> int:
    """M1: a prompt that is an image."""
    server.start("--mmproj", "mlp.gguf")
    return outcome(server, "M1, prompt ends with an image", *server.complete(picture(server, "", "")))


def ends_with_image_beside(server: Server) -> int:
    """M1 while another slot generates: the batch is not empty, and the answer starts with the other slot's output."""
    server.start("--mmproj", "mlp.gguf", "-np", "2", "-c", "8192")
    other: list[Any] = []
    thread = threading.Thread(target=lambda: other.append(server.complete(list(range(100, 120)), 3000, id_slot=0)))
    thread.start()
    time.sleep(0.3)
    status, body = server.complete(picture(server, "", ""), 1, id_slot=1)
    thread.join()
    ended = outcome(server, "M1, while slot 0 generates", status, body)
    if status == 200 and other[0][0] == 200:
        first, rows = outputs(body)[0], outputs(other[0][1])
        if first in rows:
            print(f"FOREIGN OUTPUT     its token has the log-probabilities of token {rows.index(first)} of slot 0")
        ended |= first in rows
    return ended


def outputs(body: Any) -> list[Any]:
    """Return the four likeliest tokens with their log-probabilities, for every generated token."""
    tokens = body["completion_probabilities"]
    return [[(one["id"], one["logprob"]) for one in token["top_logprobs"]] for token in tokens]


def null_token(server: Server) -> int:
    """M3: token -1 where an idle slot holds an image. The control comes first: without an image there, HTTP 400."""
    server.start("--mmproj", "mlp.gguf")
    ended = outcome(server, "M3, control: [-1] and no image in a slot", *server.complete([-1]))
    ended |= outcome(server, "M3, image in a slot", *server.complete(picture(server, "", "text")))
    return ended | outcome(server, "M3, prompt [-1]", *server.complete([-1]))


def small_batch(server: Server) -> int:
    """M4: an image of 9 tokens that is decoded without a causal mask. The control: a micro-batch of 9."""
    ended = 0
    for size in (9, 8):
        server.start("--mmproj", "gemma3.gguf", "-ub", str(size))
        ended |= outcome(server, f"M4, image of 9 tokens, -ub {size}", *server.complete(picture(server, "", "text")))
    return ended


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        server = Server(folder)
        for kind in ("mlp", "gemma3"):
            write_projector(os.path.join(folder, f"{kind}.gguf"), kind)
        try:
            return max(case(server) for case in (ends_with_image, ends_with_image_beside, null_token, small_batch))
        finally:
            server.stop()


if __name__ == "__main__":
    sys.exit(main())
