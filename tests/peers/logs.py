"""Comparison of imported logs of the real mlx_lm.server with its answers: ``python -m tests.peers logs --talks 72``.

Drawn conversations run on servers with tiny models, at log level INFO and DEBUG: chats and texts that grow, are cut and
come back, some of them concurrent, streamed or not, with or without a seed. The numbers that the log contains for each
request must equal those of its answer. The importer must recognise every line about caches. Sequential requests are
also reconstructed, and the simulator must then reuse as many tokens as the log shows: for every text request, if the
cache can be trimmed.

Other reconstructed requests are only counted. A recurrent state cannot be trimmed, and the log does not show which of
two entries of equal length was found. A chat has entries at the ends of messages, which a scenario of texts lacks. The
length of streamed prompts is not logged.
"""

from __future__ import annotations

import json
import os
import random
import re
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPException
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.request import ProxyHandler, Request, build_opener

from cachesim.tools.conformance.http_check.openai_client import WORDS
from cachesim.tools.live.llama_server.process import HOST, Process
from cachesim.tools.server_logs.facts.log_reader import read_session
from cachesim.tools.server_logs.import_log import import_log
from cachesim.tools.server_logs.lines.recognise import grammars, recognise
from tests.live.check_mlx_model import write_model
from tests.live.check_server import ready
from tests.peers.real_server import MODELS

PROFILE = "mlx_lm@0.32.2"
PER = 3                      # conversations of a server
LOAD, ANSWER = 120, 60       # seconds to load a model, and for an answer
LEVELS = ("INFO", "DEBUG")
SEVERAL = ("llama", "qwen3_next")          # models whose servers get concurrent requests
CUT = ("llama", "gemma3")                  # models whose caches can be trimmed
TEMPLATE = ("{% for m in messages %} {{ m['role'] == 'user' and 'you' or 'they' }} {{ m['content'] }}{% endfor %}"
            "{% if add_generation_prompt %} they{% endif %}")  # fmt: skip
ABOUT = re.compile(r"cache|prompt processing|sequences|prompt_tokens|completion_tokens", re.I)
_OPENER = build_opener(ProxyHandler({}))


def main(args):
    """Compare drawn conversations. Exit code 1 if a number of a log is wrong, a line is unknown, or a reconstructed
    request differs."""
    bad, counts = [], Counter()
    kinds = ("texts", "chats", "several at once")
    runs = [(model, level, kind) for kind in kinds for model in (SEVERAL if kind == kinds[2] else MODELS)
            for level in LEVELS]  # fmt: skip
    rng = random.Random(args.seed)
    with TemporaryDirectory(prefix="cachesim-logs-") as folder:
        for number in range(-(-args.talks // PER)):
            model, level, kind = runs[number % len(runs)]
            found, wrong = look(Path(folder), model, level, kind, random.Random(rng.random()))
            counts.update(found)
            bad += [(model, level, kind, *one) for one in wrong]
    for name, times in sorted(counts.items()):
        print(f"{name:<44}{times:>7}")
    print("\n".join(map(str, bad[:20])))
    print(f"{counts['conversations']} conversations, {counts['requests']} requests, {len(bad)} differences")
    return int(bool(bad))


def look(folder, model, level, kind, rng):
    """Compare a server with its log. Return counts and differences."""
    place, log, several = folder / model, folder / "server.log", kind == "several at once"
    if not place.exists():
        _write(place, model)
    truth = []
    with started(place, level, log) as url:
        talks = [_talk(rng, kind) for _ in range(PER)]
        while any(talks):
            width = rng.choice((1, 2, 3)) if several else 1
            now = [talk.pop(0) for talk in rng.sample([one for one in talks if one], min(width, sum(map(bool, talks))))]
            with ThreadPoolExecutor(len(now)) as pool:
                truth += pool.map(lambda one: _ask(url, one), now)
            if None in truth:                      # bursts end the server sometimes, see scenarios/mlx_lm/README.md
                break
    lines = log.read_text("utf-8", "replace").split("\n")
    counts, bad = compare(lines, truth, level, several)
    counts["conversations"] = PER
    counts["the server died"] = int(None in truth)
    if level == "DEBUG" and not several:
        data, _ = import_log(log, (PROFILE,), MODELS[model][1])
        counts[f"{kind} rebuilt, the simulator says the same"] = data["agree"]
        counts[f"{kind} rebuilt, the simulator says something else"] = data["differ"]
        if kind == "texts" and model in CUT:
            bad += [("rebuilt", one["text"], one) for one in data["requests"] if one["agrees"] is False]
    return counts, bad


def compare(lines, truth, level, several):
    """Compare the numbers of the log with those of the answers, and find unknown lines about caches."""
    found, asked = read_session("mlx_lm", grammars()["mlx_lm"], lines).requests, len(truth)
    truth = [one for one in truth if one is not None]
    counts, bad = Counter({"requests": len(truth)}), []
    if not len(truth) <= len(found) <= asked:
        bad.append(("requests", len(found), len(truth)))
    left = list(found)
    for real in truth:
        fits = [one for one in left[: None if several else 1] if _fits(one, real)]
        if not fits:
            bad.append(("numbers", real, [_numbers(one) for one in left[:3]]))
            left = left[1:]
            continue
        best = max(fits, key=lambda one: sum(number is not None for number in _numbers(one)))
        left = [one for one in left if one is not best]
        for name, number in zip(("prompt", "reused", "evaluated", "generated"), _numbers(best), strict=True):
            counts[f"{level}: {name} {'not known' if number is None else 'right'}"] += 1
    for line in lines:
        if ABOUT.search(line) and not re.search(r'"(?:GET|POST) |Incoming|cached_tokens_details|_details": {', line):
            known = bool(recognise(line, ("mlx_lm",)))
            counts[f"lines about caches {'known' if known else 'not known'}"] += 1
            bad += [] if known else [("line", line)]
    return counts, bad


def _numbers(entry):
    """Return prompt, reused, evaluated and generated tokens; None where the log does not show a number."""
    said = (entry.n_tokens, entry.cache_n)
    return (*said, entry.prompt_n, entry.predicted_n)


def _fits(entry, real):
    return all(number in (None, true) for number, true in zip(_numbers(entry), real, strict=True))


def started(place, level, log):
    """Start a server of its own that logs to a file. Entering the result returns the server's address."""
    os.environ["HF_HUB_OFFLINE"] = "1"

    def command(port):
        return [sys.executable, "-m", "mlx_lm", "server", "--model", str(place), "--host", HOST, "--port", port,
                "--log-level", level]  # fmt: skip

    return _Started(Process(command, log))


class _Started:
    def __init__(self, process):
        self.process = process

    def __enter__(self):
        running = self.process.__enter__()
        running.wait(lambda: ready(running.url), LOAD, "loading the model")
        return running.url

    def __exit__(self, *what):
        return self.process.__exit__(*what)


def _write(place, model):
    """Write a tiny model with a chat template."""
    write_model(place, model)
    about = place / "tokenizer_config.json"
    about.write_text(json.dumps({**json.loads(about.read_text()), "chat_template": TEMPLATE}))


def _talk(rng, kind):
    """Draw the requests of a conversation: a chat, or a text that is extended, cut, and extended differently."""
    words, out = [rng.choice(WORDS[:160]) for _ in range(rng.randint(3, 60))], []
    chat = kind == "chats" or (kind != "texts" and rng.random() < 0.5)
    history = [{"role": "system", "content": " ".join(words)}] if chat else []
    for _ in range(rng.randint(2, 6)):
        more = [rng.choice(WORDS[:160]) for _ in range(rng.randint(1, 40))]
        if not chat:
            words = words[: rng.randint(1, len(words))] if rng.random() < 0.3 else [*words, *more]
            body = {"prompt": " " + " ".join(words)}
        else:
            if len(history) > 2 and rng.random() < 0.3:
                history = history[: 1 + 2 * rng.randint(0, len(history) // 2 - 1)]
            history = [*history, {"role": "user", "content": " ".join(more)}]
            body = {"messages": list(history)}
            history = [*history, {"role": "assistant", "content": " ".join(more[:3])}]
        body["max_tokens"] = rng.randint(1, 6)
        if rng.random() < 0.15:
            body["seed"] = rng.randint(1, 99)
        if kind != "texts" and rng.random() < 0.3:
            body |= {"stream": True, "stream_options": {"include_usage": True}}
        out.append(body)
    return out


def _ask(url, body):
    """Send a request. Return prompt, reused, evaluated and generated tokens from the answer, or None without an
    answer."""
    where = "/v1/chat/completions" if "messages" in body else "/v1/completions"
    asked = Request(url + where, json.dumps(body).encode(), {"Content-Type": "application/json"})
    try:
        with _OPENER.open(asked, timeout=ANSWER) as reply:
            text = reply.read().decode()
    except (OSError, HTTPException):
        return None
    parts = [line[6:] for line in text.split("\n") if line.startswith("data: {")] if "stream" in body else [text]
    usage = next((one["usage"] for one in map(json.loads, reversed(parts)) if "usage" in one), None)
    if usage is None:
        return None
    reused = usage["prompt_tokens_details"]["cached_tokens"]
    total = usage["prompt_tokens"]
    return total, reused, total - reused, usage["completion_tokens"]
