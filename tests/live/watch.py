"""``python -m tests.live.watch PART``: ``cachesim watch`` in front of a real llama-server, or of mlx_lm.server.

causes: conversations of the ``openai`` client with planted changes. Every cause must be named, every row must be joined
with the log, and recorders on both sides of the relay must hold the same bytes. mlx: like causes, in front of
mlx_lm.server (``make peers`` makes the environment), whose log names no streamed request; counts come from the replies.
soak: requests by the thousand, with
the memory of both processes. overhead: time to the first byte, and tokens per second of 8 streams, against a direct
connection. Exit code 1 if a demand is not met.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from urllib.parse import urlsplit

from cachesim.tools.live.llama_server.process import HOST, Process
from tests.live import build
from tests.live.check_server import ready
from tests.live.recorder_tap import Recorder
from tests.live.watch_plants import CHANGES, changed_tools, opening

SAMPLE, WARM = 100, 2_000    # requests of a soak between two samples of its memory, and before memory must not grow
GROWTH = 4                   # MiB that a process may grow after that
ENTRIES = 32                 # MiB of the prompt cache in a soak: about as many entries as 8 GiB of a real model's
LAG = 5                      # seconds after the last reply in which the analysis must reach the end of the log
FIRST_BYTE, RATE = 2.0, 5.0  # overhead allowed: milliseconds, per cent


class Watch:
    """A running ``cachesim watch``. ``rows`` are its rows, ``totals`` its totals after ``end``."""

    def __init__(self, to, *words):
        handler = signal.signal(signal.SIGINT, signal.default_int_handler)     # background jobs ignore SIGINT
        self.process = subprocess.Popen(
            [sys.executable, "-m", "cachesim", "watch", "--listen", f"{HOST}:0", "--to", to, "--json", "-q", *words],
            stdout=subprocess.PIPE, text=True, bufsize=1)  # fmt: skip
        signal.signal(signal.SIGINT, handler)
        self.url = json.loads(self.process.stdout.readline())["url"].rstrip("/")
        self.rows, self.totals = [], {}
        self.reader = threading.Thread(target=self._read)
        self.reader.start()

    def _read(self):
        for line in self.process.stdout:
            said = json.loads(line)
            self.rows += [said["request"]] if "request" in said else []
            self.totals = said.get("totals", self.totals)

    def pids(self):
        """Process ids of the relay and of the analysis."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        while not (found := children.read_text().split()):
            time.sleep(0.05)                              # the relay has said its address and is about to fork
        return self.process.pid, int(found[0])

    def memory(self):
        """Resident MiB of the relay and of the analysis."""
        return [_resident(pid) for pid in self.pids()]

    def lag(self, log):
        """Bytes of the log that the analysis has not read."""
        fds = Path(f"/proc/{self.pids()[1]}/fd")
        [number] = [fd.name for fd in fds.iterdir() if fd.is_symlink() and fd.readlink() == log]
        return log.stat().st_size - int((fds.parent / "fdinfo" / number).read_text().split()[1])

    def end(self):
        self.process.send_signal(signal.SIGINT)
        self.reader.join()
        return self.process.wait()


def _resident(pid):
    line = next(one for one in Path(f"/proc/{pid}/status").read_text().splitlines() if one.startswith("VmRSS"))
    return int(line.split()[1]) / 1024


@contextmanager
def served(binary, model, *more, slots=4, context=32768):
    """Start a server that logs at level 4, with more options; yield its URL and its log."""
    words = [binary, "-m", model, "-c", context, "-np", slots, "-t", 1, "-tb", 1, "--no-webui", "--offline", "-lv", 4,
             "--jinja", *more]  # fmt: skip
    with TemporaryDirectory(prefix="cachesim-") as folder:
        log = Path(folder) / "log"
        with Process(lambda port: [*words, "--host", HOST, "--port", port], log) as process:
            process.wait(lambda: ready(process.url), 60, "loading the model")
            yield process.url, log


CHAT = ("{% for t in tools or [] %}{{ t | tojson }}\n{% endfor %}{% for m in messages %}<{{ m.role }}>"
        "{% if m.reasoning_content %}<think>{{ m.reasoning_content }}</think>{% endif %}{{ m.content }}"
        "{% for c in m.tool_calls or [] %}{{ c | tojson }}{% endfor %}\n{% endfor %}<assistant>")  # fmt: skip
"""Chat template with everything that a planted change changes."""


@contextmanager
def served_mlx(name):
    """Start mlx_lm.server with a tiny random model; yield its URL."""
    from tests.live.check_mlx_model import write_model

    with TemporaryDirectory(prefix="cachesim-") as folder:
        model = Path(folder) / "model"
        write_model(model, name)
        words = [sys.executable, "-m", "mlx_lm", "server", "--model", model, "--chat-template", CHAT]
        with Process(lambda port: [*words, "--host", HOST, "--port", port], Path(folder) / "log") as process:
            process.wait(lambda: ready(process.url), 300, "loading the model")
            yield process.url


HEADER = re.compile(rb"\r\nx-cachesim-cause: ([a-z -]+)[ -~]{0,200}(?=\r\n\r\n)")


def converse(client, n, cause, model):
    """Run a conversation."""
    messages, tools = opening(n, cause)
    for turn in range(3):
        if turn == 2:
            messages, tools = CHANGES[cause](messages), changed_tools(cause, tools)
        more = {"tools": tools, "tool_choice": "none"} if tools else {}
        stream = client.chat.completions.create(
            model=model, messages=messages, stream=True, temperature=0, max_tokens=6, seed=1,
            stream_options={"include_usage": True}, **more)  # fmt: skip
        text = "".join(piece.choices[0].delta.content or "" for piece in stream if piece.choices)
        tail = "\nBe brief, by the way." if cause == "tail" and turn == 0 else ""
        messages = [*messages, {"role": "assistant", "content": text},
                    {"role": "user", "content": f"Question {turn} of case {n}?{tail}"}]  # fmt: skip


def causes(args):
    """Planted causes in front of llama-server, joined with its log."""
    with served(args.server, args.model) as (url, log):
        return _planted(args, url, ("--log", str(log)), "both", "")


def mlx(args):
    """Planted causes in front of mlx_lm.server."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    with served_mlx(str(args.model)) as url:
        return _planted(args, url, (), "client", "default_model")


def _planted(args, url, words, source, model):
    """Planted causes: every one named, no byte altered, all rows from this source and with their counts."""
    from openai import OpenAI

    names = [list(CHANGES)[n % len(CHANGES)] for n in range(args.number)]
    with Recorder(url) as inner:
        watch = Watch(inner.url, *words, *(["--header"] if args.header else []))
        with Recorder(watch.url) as outer:
            client = OpenAI(base_url=f"{outer.url}/v1", api_key="none", max_retries=0)
            models = [model or f"case-{n}" for n in range(args.number)]
            with ThreadPoolExecutor(args.jobs) as pool:
                list(pool.map(converse, [client] * args.number, range(args.number), names, models))
            client.close()
        time.sleep(1)                                     # the last lines of the log
        watch.end()
    talks = defaultdict(list)
    for row in watch.rows:
        if "conversation" in row:
            talks[row["model"], row["conversation"]].append(row["cause"])
    found = Counter((name, tuple(of_talk)) for (name, _), of_talk in talks.items())
    planted = Counter((name, ("new", "extends", cause)) for name, cause in zip(models, names, strict=True))
    missing, false = planted - found, found - planted
    whole = sum(row["source"] == source and None not in (row["prompt"], row["reused"]) for row in watch.rows)
    same = sorted(inner.streams()) == sorted((sent, HEADER.sub(b"", got)) for sent, got in outer.streams())
    print(f"{len(names)} conversations, {len(watch.rows)} requests: {len(names) - missing.total()} planted causes "
          f"named, {false.total()} other conversations, {whole} rows with counts from {source}; {outer.size():,} bytes "
          f"on {len(outer.streams())} connections {'equal' if same else 'NOT equal'} on both sides")  # fmt: skip
    headers = Counter(cause.decode() for _, got in outer.streams() for cause in HEADER.findall(got))
    if args.header:
        print("causes in headers:", (headers & Counter(cause for talk in talks.values() for cause in talk)).total())
    print("totals:", json.dumps(watch.totals))
    for row in [row for row in watch.rows if row["source"] != source][:8]:
        print("  alone:", json.dumps(row))
    for one in [*missing, *false][:20]:
        print("  missing:" if one in missing else "  false:", one)
    return not missing and not false and same and whole == len(watch.rows) == 3 * args.number


def ask(url, path, body, connection=None):
    """Send a request; return its connection, the seconds to the first byte, and the reply."""
    connection = connection or HTTPConnection(urlsplit(url).netloc)
    start = time.perf_counter()
    connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
    reply = connection.getresponse()
    first = reply.read(1)
    seconds = time.perf_counter() - start
    return connection, seconds, first + reply.read()


def soak(args):
    """Thousands of requests of several clients: constant memory, and an analysis that keeps up with the log."""
    with served(args.server, args.model, "-cram", ENTRIES) as (url, log):
        watch, sizes, lags = Watch(url, "--log", str(log)), [], []
        lock = threading.Lock()

        def client(part):
            connection = None
            for n in range(part, args.number, args.jobs):
                body = _soaking(n // args.jobs, part, args.jobs)
                connection, _, _ = ask(watch.url, "/v1/chat/completions", body, connection)
                connection = None if body["stream"] else connection      # the server ends it after a stream
                with lock:
                    done.append(n)
                    if len(done) % SAMPLE == 0:
                        sizes.append(watch.memory())
                        lags.append(watch.lag(log))
                    if len(done) % 1_000 == 0:
                        print(len(done), *(f"{size:.1f} MiB" for size in sizes[-1]), f"lag {lags[-1]:,}", flush=True)

        while watch.lag(log):                             # the analysis starts
            time.sleep(0.05)
        done, begun = [], time.perf_counter()
        with ThreadPoolExecutor(args.jobs) as pool:
            list(pool.map(client, range(args.jobs)))
        replied = time.perf_counter()
        while watch.lag(log):
            time.sleep(0.05)
        late, size = time.perf_counter() - replied, log.stat().st_size
        time.sleep(1)                                     # the last lines of the log
        watch.end()
    warm = sizes[WARM // SAMPLE:] or sizes
    for side, name in enumerate(("relay", "analysis")):
        of_side = [one[side] for one in sizes]
        print(f"{name}: first {of_side[0]:.1f}, last {of_side[-1]:.1f}, maximum {max(of_side):.1f} MiB")
    grown = [max(one[side] for one in warm) - warm[0][side] for side in (0, 1)]
    print(f"{args.number} requests in {replied - begun:.0f} s: {watch.totals['requests']} rows, "
          f"{watch.totals['dropped_bytes']} bytes dropped; log of {size:,} bytes, largest lag {max(lags):,} bytes, "
          f"last line read {late:.1f} s after the last reply; growth after {WARM:,} requests: "
          f"relay {grown[0]:.1f} MiB, analysis {grown[1]:.1f} MiB")  # fmt: skip
    return max(grown) <= GROWTH and late <= LAG and watch.totals["requests"] == args.number


def _soaking(n, part, jobs):
    """The ``n``-th body of a client: conversations of five turns."""
    talk = n // 5 * jobs + part
    messages = [{"role": "user", "content": f"Case {talk}: {'word ' * 20}"}]
    for turn in range(n % 5):
        messages += [{"role": "assistant", "content": f"Answer {turn}."},
                     {"role": "user", "content": f"Question {turn} of {talk}?"}]  # fmt: skip
    return {"messages": messages, "max_tokens": 2, "stream": n % 2 == 0, "temperature": 0}


def overhead(args):
    """Overhead beside a direct connection: both are measured in turns."""
    with served(args.server, args.model, slots=8, context=65536) as (url, log):
        watch = Watch(url, "--log", str(log))
        times = {url: [], watch.url: []}
        for n in range(args.number):
            for to in (times if n % 2 else reversed(times)):
                body = {"prompt": f"Case {n % 7} of it", "n_predict": 4, "stream": True, "id_slot": 0, "temperature": 0}
                times[to].append(ask(to, "/completion", body)[1])
        rates = {url: [], watch.url: []}
        for n in range(args.rounds):
            for to in (rates if n % 2 else reversed(rates)):
                rates[to].append(_rate(to, n))
        watch.end()
    first = [1000 * median(times[to]) for to in (url, watch.url)]
    rate = [median(rates[to]) for to in (url, watch.url)]
    lost = 100 * (1 - rate[1] / rate[0])
    print(f"first byte, median of {args.number}: direct {first[0]:.2f} ms, relay {first[1]:.2f} ms, "
          f"overhead {first[1] - first[0]:.2f} ms (at most {FIRST_BYTE})")  # fmt: skip
    print(f"8 streams, median of {args.rounds}: direct {rate[0]:.0f}, relay {rate[1]:.0f} tokens/s, "
          f"lost {lost:.1f} % (at most {RATE}); rounds {[round(one) for one in rates[url]]} "
          f"{[round(one) for one in rates[watch.url]]}")  # fmt: skip
    return first[1] - first[0] <= FIRST_BYTE and lost <= RATE


def _rate(to, n):
    """Generated tokens per second of 8 streams."""
    def stream(slot):
        body = {"prompt": f"Stream {slot} of {n}", "n_predict": 400, "stream": True, "id_slot": slot,
                "ignore_eos": True}  # fmt: skip
        return ask(to, "/completion", body)[2].count(b"data: ")

    start = time.perf_counter()
    with ThreadPoolExecutor(8) as pool:
        tokens = sum(pool.map(stream, range(8)))
    return tokens / (time.perf_counter() - start)


PARTS = {"causes": (causes, 200), "mlx": (mlx, 200), "soak": (soak, 10_000), "overhead": (overhead, 300)}


def main(argv):
    parser = argparse.ArgumentParser(prog="python -m tests.live.watch", description=__doc__)
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("--server", type=Path, help="the binary (default: b11549)")
    parser.add_argument("--model", type=Path, required=True, help="a GGUF, or the name of a model of tests/peers")
    parser.add_argument("--number", "-n", type=int, help="conversations, or requests")
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--jobs", "-j", type=int, default=4, help="clients at the same time")
    parser.add_argument("--header", action="store_true", help="with the response header, whose causes must be right")
    args = parser.parse_args(argv)
    if args.server is None and args.part != "mlx":
        args.server = build.server_of("b11549")
    part, number = PARTS[args.part]
    args.number = args.number or number
    return 0 if part(args) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
