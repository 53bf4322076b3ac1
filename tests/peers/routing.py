"""Choice of a replica: our policies beside the released front ends, for drawn arrivals.

``python -m tests.peers.routing vllm FILE``: the method of the client in FILE (vllm/v1/engine/core_client.py of a
wheel), without its sockets. ``python -m tests.peers.routing sglang``: the router of the installed package
sglang_router, which sends requests over HTTP to servers of this process.
"""

from __future__ import annotations

import argparse
import ast
import asyncio
import json
import random
import sys
import threading
import time
from collections import Counter
from contextlib import ExitStack
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from subprocess import DEVNULL, Popen
from types import SimpleNamespace

from cachesim.tools.run.replicas.routes import Arrival, LeastLoaded, Prefix, ReplicaStats, RoundRobin

CLIENT, CHOOSE, FINISH = "DPLBAsyncMPClient", "get_core_engine_for_request", "process_engine_outputs"
LETTERS = "abc"
LAUNCH = """
import json, sys
from sglang_router.router import Router
from sglang_router.router_args import RouterArgs
Router.from_args(RouterArgs(**json.loads(sys.argv[1]))).start()
"""
START = 60                      # seconds until the router has found its workers


class ReleasedClient:
    """The released choice of vLLM's front end for ``n`` engines, in its own code."""

    def __init__(self, file, n):
        tree = ast.parse(Path(file).read_text())
        body = next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == CLIENT).body
        methods = [node for node in body if getattr(node, "name", "") in (CHOOSE, FINISH)]
        for method in methods:
            method.decorator_list = []
        future = ast.ImportFrom(module="__future__", names=[ast.alias(name="annotations")], level=0)
        module = ast.fix_missing_locations(ast.Module(body=[future, *methods], type_ignores=[]))
        names = {"sys": sys, "get_late_interaction_engine_index": lambda params, n: None}
        exec(compile(module, str(file), "exec"), names)
        self.choose, self.finish = names[CHOOSE], names[FINISH]
        self.state = SimpleNamespace(
            reqs_in_flight={}, streaming_reqs=set(), engine_inflight=Counter(), client_count=1, eng_start_index=0,
            core_engines=[bytes([i]) for i in range(n)], lb_engines=[[0, 0, 0.0] for _ in range(n)])

    def send(self, number):
        """Return the engine of a request."""
        request = SimpleNamespace(request_id=str(number), resumable=False, data_parallel_rank=None, pooling_params=None)
        return self.choose(self.state, request)[0]

    def finished(self, number):
        """Note that a request ended."""
        outputs = SimpleNamespace(finished_requests={str(number)})
        asyncio.run(self.finish(self.state, outputs))

    def report(self, stats):
        """Replace the statistics."""
        self.state.lb_engines = [list(one) for one in stats]


def compare_vllm(file, arrivals, seed):
    """Print how many of the drawn arrivals both send to the same engine; return the exit code."""
    rng = random.Random(seed)
    n = rng.randint(2, 8)
    ours, theirs = LeastLoaded(n), ReleasedClient(file, n)
    open_requests, equal = {}, 0
    for number in range(arrivals):
        while open_requests and rng.random() < 0.5:
            ended = rng.choice(sorted(open_requests))
            ours.finished(open_requests.pop(ended))
            theirs.finished(ended)
        if rng.random() < 0.3:
            stats = [ReplicaStats(rng.choice((0, 0, 1, 4)), rng.randint(0, 6), rng.choice((0.0, 0.4, 0.7, 1.0)))
                     for _ in range(n)]  # fmt: skip
            ours.report(stats)
            theirs.report(stats)
        chosen = ours.send(Arrival((number,), number))
        their_choice = theirs.send(number)
        equal += chosen == their_choice
        if chosen != their_choice:
            print(f"arrival {number}: {chosen}, theirs {their_choice}")
        open_requests[number] = chosen
        if chosen != their_choice:
            return 1
    print(f"vllm, {n} engines: {equal} of {arrivals} arrivals equal (seed {seed})")
    return 0


class Worker:
    """A server that notes its requests, and answers each when its event is set."""

    def __init__(self):
        self.got, self.may_answer = [], {}
        worker = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                self.reply({"model_path": "m", "served_model_name": "m", "status": "ok", "data": [{"id": "m"}]})

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                number = int(body.get("rid", -1)) if str(body.get("rid", "")).isdigit() else -1
                worker.got.append(number)
                worker.may_answer.setdefault(number, threading.Event()).wait(START)
                self.reply({"text": "", "meta_info": {}})

            def reply(self, data):
                text = json.dumps(data).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *args):
                """Stay silent."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


class RealRouter:
    """The released router in front of ``n`` workers. A request stays in flight until ``finished``."""

    def __init__(self, n, policy, stack):
        self.workers = [Worker() for _ in range(n)]
        port = free_port()
        urls = [f"http://127.0.0.1:{worker.port}" for worker in self.workers]
        given = {"host": "127.0.0.1", "port": port, "policy": policy, "worker_urls": urls,
                 "prometheus_port": free_port()}  # fmt: skip
        process = Popen([sys.executable, "-c", LAUNCH, json.dumps(given)], stdout=DEVNULL, stderr=DEVNULL)
        stack.callback(process.wait)
        stack.callback(process.kill)
        self.port, self.threads = port, {}
        self._wait_for_workers(n)

    def _wait_for_workers(self, n):
        began = time.monotonic()
        while time.monotonic() - began < START:
            try:
                connection = HTTPConnection("127.0.0.1", self.port, timeout=5)
                connection.request("GET", "/workers")
                workers = json.loads(connection.getresponse().read()).get("workers", [])
                if sum(bool(one.get("is_healthy")) for one in workers) == n:
                    return
            except OSError:
                pass
            time.sleep(0.2)
        raise SystemExit("the router found no workers")

    def send(self, number, text):
        """Send a request and return the worker that got it."""
        thread = threading.Thread(target=self._post, args=(number, text), daemon=True)
        thread.start()
        self.threads[number] = thread
        began = time.monotonic()
        while time.monotonic() - began < START:
            for at, worker in enumerate(self.workers):
                if number in worker.got:
                    return at
            time.sleep(0.002)
        raise SystemExit(f"no worker got request {number}")

    def _post(self, number, text):
        connection = HTTPConnection("127.0.0.1", self.port, timeout=2 * START)
        body = json.dumps({"text": text, "rid": str(number)})
        connection.request("POST", "/generate", body, {"Content-Type": "application/json"})
        connection.getresponse().read()

    def finished(self, number, worker):
        """Let a worker answer, and wait until the client has the answer."""
        self.workers[worker].may_answer.setdefault(number, threading.Event()).set()
        self.threads.pop(number).join(START)


def free_port():
    """A port that no server uses."""
    with ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as server:
        return server.server_address[1]


def drawn_text(rng, known, alike):
    """A text that often continues or cuts an earlier one; ``alike``: one that shares most letters with all."""
    if alike:
        return 4 * LETTERS + "".join(rng.choice(LETTERS) for _ in range(4))
    base = rng.choice(known) if known and rng.random() < 0.8 else ""
    base = base[: rng.choice((len(base), rng.randint(0, len(base))))]
    return base + "".join(rng.choice(LETTERS) for _ in range(rng.randint(1, 20)))


POLICIES = {"cache_aware": Prefix, "round_robin": RoundRobin}


def compare_sglang(policy, arrivals, seed, burst, alike):
    """Print how many of the drawn arrivals both send to the same worker; return the exit code. ``burst``: most requests
    in flight; ``alike``: all texts share most letters, so that one worker gets them until the loads differ much."""
    rng = random.Random(seed)
    n = rng.randint(2, 4)
    ours, known, open_requests = POLICIES[policy](n), [], {}
    order = {}                                      # our number of a worker, by first use
    with ExitStack() as stack:
        router = RealRouter(n, policy, stack)
        for number in range(arrivals):
            while open_requests and (len(open_requests) >= burst or rng.random() < 0.3):
                ended = rng.choice(sorted(open_requests))
                mine, theirs = open_requests.pop(ended)
                ours.finished(mine)
                router.finished(ended, theirs)
            text = drawn_text(rng, known, alike)
            known.append(text)
            mine = ours.send(Arrival(tuple(map(ord, text)), number))
            theirs = router.send(number, text)
            open_requests[number] = mine, theirs
            if order.setdefault(mine, theirs) != theirs or len({*order.values()}) < len(order):
                print(f"arrival {number}: {mine}, theirs {theirs}, {text[:40]!r}; numbers {order}")
                return 1
        for ended, (_, theirs) in open_requests.items():
            router.finished(ended, theirs)
    print(f"sglang_router {policy}, {n} workers: {arrivals} of {arrivals} arrivals equal (seed {seed})")
    return 0


def main(argv=None):
    """Compare, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.peers.routing")
    parser.add_argument("front_end", choices=("vllm", "sglang"))
    parser.add_argument("file", nargs="?", help="core_client.py of a wheel of vLLM")
    parser.add_argument("--arrivals", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--policy", choices=POLICIES, default="cache_aware")
    parser.add_argument("--burst", type=int, default=6)
    parser.add_argument("--alike", action="store_true")
    args = parser.parse_args(argv)
    if args.front_end == "vllm":
        return compare_vllm(args.file, args.arrivals, args.seed)
    return compare_sglang(args.policy, args.arrivals, args.seed, args.burst, args.alike)


if __name__ == "__main__":
    sys.exit(main())
