#!/usr/bin/env python3
"""A cold answer of Qwen4Exp that changes when another slot holds a conversation.

    LLAMA_SERVER=build/bin/llama-server MODEL=tiny-qwen4exp.gguf python3 case.py

Needs only that server, the model and a python3 without packages. It asks one prompt without the cache: alone, and twice
while slot 0 holds 40 other tokens; then all again with a copy of the model whose index may choose 4,096 rows. Exit
status: 1 if the fault shows, 0 if it does not. With a number it asks so many random prompts of 60 to 259 tokens, alone
and beside slot 0, and counts the answers that change.
"""

from __future__ import annotations

import json
import os
import random
import struct
import subprocess
import sys
import tempfile
import time
import urllib.request
from contextlib import contextmanager
from pathlib import Path

KEY = b"qwen4exp.attention.indexer.top_k"
FLAGS = "-np 2 -c 2048 -ub 32 -t 1 -fa off -ctk f32 -ctv f32 --no-warmup --port 8137"
PROMPT = [
    182, 111, 73, 262, 1, 163, 39, 177, 45, 12, 235, 280, 91, 40, 269, 172, 199, 154, 27, 88, 302, 158, 101,
    105, 115, 106, 168, 160, 6, 277, 277, 291, 9, 282, 221, 34, 38, 233, 274, 225, 192, 238, 69, 318, 234, 31,
    168, 222, 291, 204, 99, 149, 18, 92, 120, 215, 161, 24, 1, 131, 222, 84, 54, 260, 251, 257, 276, 63, 188,
    210, 313, 38, 111, 146, 238, 224, 84, 170, 178, 133, 47, 46, 43, 211, 260, 8, 94, 315, 5, 35, 222, 293, 15,
    206, 107, 54, 124, 251, 6, 303, 41, 252, 315, 153, 270, 280, 93, 256, 180, 220, 100, 68, 91, 73, 146, 17,
    231, 271, 289, 262, 227, 225, 76, 309, 61, 193, 174, 206, 182, 103, 49, 204, 117, 117, 60, 215, 237, 272,
    255, 95, 90, 280, 18, 53, 45, 192, 192, 75, 126, 271, 48, 18, 294, 69, 20, 296, 79, 210, 163, 86, 296, 168,
    28, 13, 296, 8, 183, 186, 232, 54, 300, 48,
]
OTHER = list(range(40))


def ask(prompt, slot):
    """Return the likeliest tokens of the first place of a cold answer, with their log-probabilities."""
    body = {"prompt": prompt, "n_predict": 1, "temperature": 0, "cache_prompt": False, "id_slot": slot, "n_probs": 4}
    request = urllib.request.Request("http://127.0.0.1:8137/completion", json.dumps(body).encode(),
                                     {"Content-Type": "application/json"})
    place = json.load(urllib.request.urlopen(request))["completion_probabilities"][0]
    return [(one["id"], round(one["logprob"], 6)) for one in place["top_logprobs"]]


def with_top_k(model, count, file):
    """Write a copy of a model whose index chooses so many rows."""
    data = model.read_bytes()
    place = data.index(KEY) + len(KEY) + 4               # after the number of the value's type
    file.write_bytes(data[:place] + struct.pack("<I", count) + data[place + 4:])
    return file


@contextmanager
def served(model):
    """Run a fresh server until the end of the block."""
    command = [os.environ["LLAMA_SERVER"], "-m", str(model), *FLAGS.split()]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(200):
            time.sleep(0.1)
            try:
                urllib.request.urlopen("http://127.0.0.1:8137/health")
                break
            except OSError:
                pass
        yield
    finally:
        server.terminate()
        server.wait()


def answers(model):
    """Return cold answers to PROMPT in slot 1 of a fresh server: alone, and twice while slot 0 holds OTHER."""
    with served(model):
        alone = ask(PROMPT, 1)
        ask(OTHER, 0)
        return [alone, ask(PROMPT, 1), ask(PROMPT, 1)]


def count(model, number):
    """Return how many of so many random prompts get another answer in slot 1 when slot 0 holds OTHER."""
    draw = random.Random(0)
    prompts = [[draw.randrange(320) for _ in range(draw.randrange(60, 260))] for _ in range(number)]
    with served(model):
        alone = [ask(prompt, 1) for prompt in prompts]
        ask(OTHER, 0)
        return sum(ask(prompt, 1) != before for prompt, before in zip(prompts, alone, strict=True))


def main():
    """Run both models; return the exit status."""
    model = Path(os.environ["MODEL"])
    if sys.argv[1:]:
        changed = count(model, int(sys.argv[1]))
        print(f"{changed} of {sys.argv[1]} answers change")
        return int(changed > 0)
    with tempfile.TemporaryDirectory() as folder:
        models = {"48 rows": model, "all rows": with_top_k(model, 4096, Path(folder, "model.gguf"))}
        shows = []
        for name, file in models.items():
            found = answers(file)
            for when, answer in zip(("alone", "beside slot 0", "beside slot 0, again"), found, strict=True):
                print(f"{name}, {when}: {[(token, round(value, 3)) for token, value in answer]}")
            shows.append(found[0] != found[1] == found[2])
            print("THE FAULT SHOWS" if shows[-1] else "the fault does not show")
    return int(any(shows))


if __name__ == "__main__":
    sys.exit(main())
