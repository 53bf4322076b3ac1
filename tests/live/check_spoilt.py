"""``python -m tests.live.check_spoilt``: test that the check finds 1 spoilt answer in 100 on a real server.

A proxy stands before b11549 with the repaired rules, under default flags. Because of its spoilt answers (a token, a
log-probability), the check must leave "repeatable" undecided, and fail no property: a difference that does not recur is
not shown to be a fault of the cache. Exit code 1 otherwise.
"""

from __future__ import annotations

import argparse
import json
import sys
import threading
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

from cachesim.tools.conformance.http_check.dialect import identify_server
from cachesim.tools.conformance.http_check.http_client import Http
from cachesim.tools.conformance.http_check.suite import CheckOptions, check
from cachesim.tools.live.llama_server.gguf_models import find_model
from tests.live import build
from tests.live.__main__ import CACHE
from tests.live.check_server import started
from tests.live.worlds import write_models
from tests.unit.tools.conformance.http_check.stand_in import serving

ONE_IN = 100
MODELS = ("A", "GA", "W32 A")


class Proxy:
    """Forwards everything, and spoils a field of every hundredth answer."""

    def __init__(self, url, what):
        self.url, self.what = url, what
        self.lock, self.answered = threading.Lock(), 0

    def get(self, path):
        return self._fetch(path)

    def complete(self, body):
        status, data = self._fetch("/completion", json.dumps(body).encode())
        if body.get("stream") or status != 200:
            return status, data
        said = json.loads(data)
        with self.lock:
            self.answered += 1
            spoilt = self.answered % ONE_IN == 0
        if spoilt and self.what == "token":
            said["tokens"][0] += 1
        elif spoilt:
            said["completion_probabilities"][0]["top_logprobs"][0]["logprob"] -= 0.5
        return 200, said

    def _fetch(self, path, data=None):
        try:
            with urlopen(self.url + path, data, timeout=60) as reply:
                return reply.status, reply.read()
        except HTTPError as error:
            return error.code, error.read()


def main(argv):
    parser = argparse.ArgumentParser(prog="python -m tests.live.check_spoilt", description=__doc__)
    parser.add_argument("--server", type=Path, help="the binary (default: b11549 with the repaired rules)")
    parser.add_argument("--models", type=Path, default=CACHE / "models")
    args = parser.parse_args(argv)
    write_models(args.models)
    binary, bad = args.server or build.binary("b11549-repaired"), 0
    for model in MODELS:
        for what in ("token", "log-probability"):
            with started(binary, args.models / find_model(model).file) as url:
                proxy = Proxy(url, what)
                with serving(proxy.complete, get=proxy.get) as before:
                    http = Http(before, 60, 3_000)
                    found = check(http, identify_server(http), CheckOptions(examples=40))
                    http.close()
            states = {one.name: one.state for one in found.report.results}
            failed = [name for name, state in states.items() if state == "failed"]
            bad += bool(failed) or states["repeatable"] != "undecided"
            result = f"repeatable {states['repeatable']}, failed: {', '.join(failed) or 'none'}"
            print(f"{model:<6} a {what} of one answer in {ONE_IN}: {result}; "
                  f"{proxy.answered // ONE_IN} spoilt in {found.requests:,} requests", flush=True)  # fmt: skip
    return int(bool(bad))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
