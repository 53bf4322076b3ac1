"""A process of the kit's JSON lines that does one thing wrong: ``python peer.py die``."""

from __future__ import annotations

import json
import sys
import time

how = sys.argv[1]
for number, line in enumerate(sys.stdin):
    asked = json.loads(line)
    if asked["do"] != "complete" or "cache" in asked or "cancel_after" in asked:
        print(json.dumps({"unsupported": "only complete"}), flush=True)
        continue
    if how == "die" and number == 2:
        sys.exit("out of cells")
    if how == "hang":
        time.sleep(60)
    if how == "talk":
        print("loading model", flush=True)
    if how == "half":
        print('{"tokens": [1', end="", flush=True)
        sys.exit(3)
    print(json.dumps({"tokens": [len(asked["prompt"])] * asked["n_predict"], "cached": 0}), flush=True)
