"""``python -m tests.live.ik.table``: table of the results of campaigns on a real ik_llama.cpp."""

from __future__ import annotations

import argparse
import json
import sys
from collections import defaultdict
from pathlib import Path

from tests.live.ik.server import COMMIT
from tests.live.ik.worlds import DENSE, FEW, HEADS, HYBRID, MANY, WINDOWS

KINDS = {"dense": DENSE, "window": WINDOWS, "hybrid": HYBRID, "MTP": HEADS}
COUNTS = ("conversations", "steps", "events", "verdicts", "undecided", "looked")
STATE = Path.home() / ".cache" / "cachesim-live" / "state"


def main(argv):
    """Print a row for each kind of model, number of slots and kind of attention."""
    parser = argparse.ArgumentParser(prog="python -m tests.live.ik.table", description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--state", type=Path, default=STATE)
    args = parser.parse_args(argv)
    rows, named = defaultdict(lambda: defaultdict(int)), defaultdict(int)
    for slots in (FEW, MANY):
        file = args.state / f"{COMMIT}-{slots}-{args.seed}.jsonl"
        for line in map(json.loads, file.read_text("utf-8").splitlines()) if file.exists() else ():
            server = line["server"]
            row = rows[server["parallel"], kind(line["model"]), "on" if server.get("flash_attn") else "off",
                       server.get("spec_type", "none")]  # fmt: skip
            for name in COUNTS:
                row[name] += line.get(name, 0)
            row["starts"] += 1
            for one in line["differences"]:
                row["differ" if not one["name"] else "named"] += 1
                named[one["name"] or f"DIFFERENT: {one['group']}"] += 1
    head = ("slots", "model", "-fa", "drafts", "starts", *COUNTS, "named", "differ")
    print("| " + " | ".join(head) + " |\n|" + "---|" * len(head))
    for key, row in sorted(rows.items()):
        print("| " + " | ".join(map(str, (*key, *(row[name] for name in head[4:])))) + " |")
    total = [sum(row[name] for row in rows.values()) for name in head[4:]]
    print("| " + " | ".join(map(str, ("all", "", "", "", *total))) + " |")
    for name, many in sorted(named.items()):
        print(f"{many:>5}  {name}")
    return 0


def kind(model):
    """Return the kind of memory of a model."""
    return next(name for name, models in KINDS.items() if model in models)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
