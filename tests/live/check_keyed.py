"""``python -m tests.live.check_keyed``: test of ``cachesim check`` on the real b11549 with adapters and with images.

Each row is a server, with the properties of adapters and images that must fail; all its others must be ok. Requests
arrive alone and at once. A proxy names the server's adapters in requests without a list, or sends the first image again
in place of another. Exit code 1 if a row is not as expected. ``--commit b11549-repaired`` has all repairs but those of
adapters: no property besides ``fails`` may fail there. Rows with images need models with projectors.
"""

from __future__ import annotations

import argparse
import json
import sys
from contextlib import nullcontext
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from cachesim.tools.conformance.http_check.dialect import identify_server
from cachesim.tools.conformance.http_check.http_client import Http
from cachesim.tools.conformance.http_check.suite import CheckOptions, check
from cachesim.tools.conformance.properties import SERVED
from cachesim.tools.live.llama_server.gguf_adapters import with_adapters
from cachesim.tools.live.llama_server.gguf_models import find_model
from tests.live import build
from tests.live.__main__ import CACHE
from tests.live.check_server import started
from tests.live.check_spoilt import Proxy
from tests.live.worlds import write_models
from tests.unit.tools.conformance.http_check.stand_in import serving

TWO = ("--lora-scaled", "MODELS/lora0.gguf:0,MODELS/lora1.gguf:0")
ALONE = ("--cache-ram", "0")


class Row(NamedTuple):
    """A server and the properties that must fail. ``projector``: of a model with images; ``change``: of requests."""

    what: str
    model: str
    flags: tuple
    fails: set
    projector: str = ""
    change: object = None


class Changed(Proxy):
    """Forwards everything; ``change`` may change the body of a request."""

    def __init__(self, url, change):
        super().__init__(url, "")
        self.change = change(self)

    def complete(self, body):
        path = "/v1/chat/completions" if "messages" in body else "/completion"
        return self._fetch(path, json.dumps(self.change(body)).encode())


def listed(proxy):
    """Name the server's adapters in requests without a list: a list clears what other adapters left in a slot."""
    scales = [{"id": one["id"], "scale": one["scale"]} for one in json.loads(proxy.get("/lora-adapters")[1])]
    return lambda body: {"lora": scales, **body}


def first_image(proxy):
    """Send the first image after a text in place of each other one, unless the cache is switched off."""
    known = {}

    def change(body):
        content = body.get("messages", [{}])[0].get("content")
        if isinstance(content, list) and body.get("cache_prompt", True):
            for before, part in pairwise(content):
                if part["type"] == "image_url":
                    part["image_url"] = known.setdefault(before.get("text", ""), part["image_url"])
        return body

    return change


ROWS = (
    Row("L1 and L2: two adapters, default flags", "A", TWO, {"adapter", "base"}),
    Row("L1 and L2: an adapter in force, one slot", "A", ("--lora", "MODELS/lora0.gguf", "-np", "1"),
        {"adapter", "base"}),
    Row("L1 and L2: windows", "W32 A", TWO, {"adapter", "base"}),
    Row("L2: without the prompt cache", "A", (*TWO, *ALONE), {"base"}),
    Row("L1: requests get a list", "A", TWO, {"adapter", "base"}, change=listed),
    Row("no fault: a list, no prompt cache", "A", (*TWO, *ALONE), set(), change=listed),
    Row("no adapters, no images", "A", (), set()),
    Row("images: attention", "llama", (), set(), "mlp"),
    Row("images: 2-D positions", "qwen2vl", (), set(), "qwen2vl"),
    Row("images: windows", "gemma3", (), set(), "gemma3"),
    Row("images and adapters", "llama", TWO, {"adapter", "base"}, "mlp"),
    Row("planted: the first image again", "llama", (), {"image"}, "mlp", first_image),
    Row("planted: the first image again, 2-D", "qwen2vl", (), {"image"}, "qwen2vl", first_image),
)


def main(argv):
    parser = argparse.ArgumentParser(prog="python -m tests.live.check_keyed", description=__doc__)
    parser.add_argument("--commit", default="b11549", help="the pinned build")
    parser.add_argument("--models", type=Path, default=CACHE / "models")
    parser.add_argument("--projectors", type=Path, default=Path("../shared/models"), help="models with projectors")
    parser.add_argument("--row", type=int, action="append", help="rows to run, from 0 (default: all)")
    args = parser.parse_args(argv)
    write_models(args.models)
    bad = 0
    for number, row in enumerate(ROWS):
        if args.row is None or number in args.row:
            bad += look(args.commit, args.models, args.projectors, row)
    return int(bool(bad))


def look(commit, models, projectors, row):
    """Run a row and print it; return True if it is not as expected."""
    gguf = projectors / f"tiny-{row.model}.gguf" if row.projector else models / find_model(row.model).file
    if not gguf.exists():
        print(f"--  {row.what:<42} not run: {gguf} is missing")
        return False
    flags = (*row.flags, *(("--mmproj", projectors / f"tiny-mmproj-{row.projector}.gguf") if row.projector else ()))
    with TemporaryDirectory(prefix="cachesim-") as folder:
        if row.flags and not row.projector:
            flags = with_adapters(flags, gguf, Path(folder))
        else:
            flags = [str(word).replace("MODELS/", f"{projectors}/tiny-{row.model}-") for word in flags]
        with started(build.binary(commit), gguf, *flags) as url:
            found = _checked(url, row.change)
    states = {one.name: one.state for one in found.report.results if one.name in SERVED}
    failed = {name for name, state in states.items() if state == "failed"}
    wanted = ({"adapter", "base"} if row.flags else set()) | ({"image"} if row.projector else set())
    other = {one.name for one in found.report.results if one.state == "failed"} - failed
    good = failed == row.fails and {*states} == wanted and {*states.values()} <= {"failed", "ok"}
    good = good and (commit == "b11549" or row.change is first_image or not other)     # a planted fault shows at once
    lines = "  ".join(f"{one.name}: {one.finding.line}" for one in found.report.results if one.state == "failed")
    said = " ".join(f"{name} {state}" for name, state in states.items()) or "not asked"
    print(f"{'ok ' if good else 'BAD'} {row.what:<42} {commit} {found.requests:>6,} requests  "
          f"{found.report.counts['parallel'].histories} parallel histories  {said}  {lines}", flush=True)  # fmt: skip
    return not good


def _checked(url, change):
    proxy = Changed(url, change) if change else None
    with serving(proxy.complete, get=proxy.get) if proxy else nullcontext(url) as before:
        http = Http(before, 60, 6_000)
        try:
            return check(http, identify_server(http), CheckOptions(("isolation", "parallel"), examples=1, rounds=2))
        finally:
            http.close()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
