"""Tests of tiny GGUFs on the real server: each loads, answers by its whole context, and has a state of declared
size."""

from __future__ import annotations

import json
import os
import random
import socket
import subprocess
import time
from contextlib import contextmanager
from http.client import HTTPConnection
from importlib.util import find_spec

import pytest

from cachesim.engines.llama_cpp import PROFILES
from cachesim.engines.llama_cpp.memory.model_layout import STATE_ROW, model_kind
from cachesim.tools.live.llama_server.gguf_models import find_model, write_model

SERVER = os.environ.get("LLAMA_SERVER", "")
FLAGS = [
    "-c", "1024", "-np", "1", "-t", "1", "-tb", "1", "-fa", "off", "-ctk", "f32", "-ctv", "f32", "--no-warmup",
    "-fit", "off", "--ctx-checkpoints", "0", "--host", "127.0.0.1",
]  # fmt: skip
NOTATIONS = (
    "A", "AA", "AAAA", "W8 A", "W8 W8", "W32 A W32 A", "GA", "GGGA", "GGGAGGGA", "qwen35-GGGA", "GGGA+M", "S", "SS",
    "SSASSA", "CA", "CCACAC", "C W8", "H", "HH", "AG", "AS",
)  # fmt: skip
REACH = {"W8 W8": 15, "C W8": 10}
"""Tokens that determine the last token, if not all do."""

HEADER = 28                    # bytes of a slot file's header, followed by four bytes per token
FORMATS = {(rules.data_header, rules.ext_bytes) for rules in PROFILES.values()}
"""Bytes before the rows of an attention part, and of a cell's 2-D position, in the known builds."""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not SERVER, reason="LLAMA_SERVER names no llama-server"),
    pytest.mark.skipif(find_spec("gguf") is None, reason="the package gguf is not installed (extra gguf)"),
]


@contextmanager
def started(path, *flags):
    """Start a server with this model; yield a function that posts to it."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = path.with_suffix(".log")
    with log.open("w") as out:
        command = [SERVER, "-m", path, "--port", str(port), *FLAGS, *flags]
        process = subprocess.Popen(list(map(str, command)), stdout=out, stderr=out)
    try:
        for _ in range(300):
            assert process.poll() is None, log.read_text()[-2000:]
            if ready(port):
                break
            time.sleep(0.1)
        yield lambda where, body: ask(port, "POST", where, body)
    finally:
        process.kill()
        process.wait()


def ready(port):
    try:
        return "error" not in ask(port, "GET", "/health")
    except OSError:
        return False


def ask(port, method, where, body=None):
    connection = HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request(method, where, body and json.dumps(body), {"Content-Type": "application/json"})
        return json.loads(connection.getresponse().read())
    finally:
        connection.close()


def answer(post, prompt):
    """Return the tokens of an answer, the log-probability of the first, and the numbers of drafted and accepted
    tokens."""
    body = {"prompt": prompt, "n_predict": 24, "temperature": 0, "ignore_eos": True, "cache_prompt": False}
    got = post("/completion", {**body, "return_tokens": True, "n_probs": 1})
    first = got["completion_probabilities"][0]["top_logprobs"][0]["logprob"]
    return tuple(got["tokens"]), first, got["timings"].get("draft_n", 0), got["timings"].get("draft_n_accepted", 0)


def prompts():
    """Return a prompt of 60 words, and its variants with a word exchanged, from the first to the last."""
    rng = random.Random(5)
    base = [rng.randrange(101, 320) for _ in range(60)]
    yield 60, base
    for place in (0, 10, 40, 55, 59):
        yield place, [*base[:place], rng.randrange(101, 320), *base[place + 1 :]]


def state_bytes(kind, n, header, ext):
    """Return a saved state of n tokens with the declared shapes; ``header`` and ``ext`` as in FORMATS."""
    def part(layers, cells):
        return 8 + header + 24 * len(layers) + cells * (12 + kind.mrope * ext + kind.row_bytes * len(layers))

    attention = part(kind.base, n) if kind.base or kind.swa else 0
    window = part(kind.swa, min(n, kind.n_swa)) if kind.swa else 0
    states = sum(24 + STATE_ROW[kind.spec.layers[i].kind] for i in kind.recr)
    return attention + window + (20 + states if states else 0)


@pytest.mark.parametrize("notation", NOTATIONS)
def test_a_model_loads_answers_and_is_as_large_as_declared(notation, tmp_path):
    model = find_model(notation)
    write_model(notation, tmp_path / model.file)
    drafts = ["--spec-type", "draft-mtp", "--spec-draft-n-max", "3"] if model.spec.mtp else []
    with started(tmp_path / model.file, "--slot-save-path", tmp_path, *drafts) as post:
        said = {place: answer(post, prompt) for place, prompt in prompts()}
        assert answer(post, next(prompts())[1]) == said[60]
        n = post("/slots/0?action=save", {"filename": "slot"})["n_saved"]
    seen = [place for place in said if place == 60 or place >= 60 - REACH.get(notation, 60)]
    assert len({said[place][:2] for place in said}) == len(seen)
    size = (tmp_path / "slot").stat().st_size - HEADER - 4 * n
    assert size in [state_bytes(model_kind(model.name), n, *how) for how in FORMATS]
    if drafts:
        made, right = (sum(one[i] for one in said.values()) for i in (2, 3))
        assert 0.35 < right / made < 0.65
