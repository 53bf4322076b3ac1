"""A faulty process for the JSON-lines adapter: ``python peer.py die``.

A second argument names a FIFO. Misbehaving processes write their number into it and keep it open until they end.
"""

from __future__ import annotations

import json
import os
import sys
import time

how = sys.argv[1]


def tell() -> None:
    """Write a line into the FIFO, which stays open."""
    if sys.argv[2:]:
        os.write(os.open(sys.argv[2], os.O_WRONLY), b"%d\n" % os.getpid())


def hang() -> None:
    tell()
    time.sleep(600)


def fork_children() -> None:
    """Start two children that stay, the second without the pipes; "escape": in its own session. Wait for their
    start."""
    ready, live = os.pipe()
    for number in range(1 if how == "escape" else 2):
        if os.fork() == 0:
            if how == "escape":
                os.setsid()
            if number:
                os.closerange(0, 3)
            tell()
            os.write(live, b".")
            time.sleep(600)
        os.read(ready, 1)


if how in ("fork", "escape"):
    fork_children()
for number, line in enumerate(sys.stdin):
    asked = json.loads(line)
    if how == "burst" and asked["do"] == "burst":
        hang()
    if asked["do"] != "complete" or "cache" in asked or "cancel_after" in asked:
        print(json.dumps({"unsupported": "only complete"}), flush=True)
        continue
    if how == "die" and number == 2:
        sys.exit("out of cells")
    if how == "noise":
        for _ in range(300):
            sys.stderr.write("x" * 65_535 + "\n")
        sys.exit("too loud")
    if how == "hang" or (how == "second" and number >= 2):
        hang()
    if how == "talk":
        print("loading model", flush=True)
    if how == "half":
        print('{"tokens": [1', end="", flush=True)
        sys.exit(3)
    if how == "escape":
        time.sleep(600)
    print(json.dumps({"tokens": [len(asked["prompt"])] * asked["n_predict"], "cached": 0}), flush=True)
if how == "deaf":
    hang()
