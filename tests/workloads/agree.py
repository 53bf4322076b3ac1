"""Scaled against unscaled runs, a line of JSON for each session.

    python -m tests.workloads.agree SESSIONS --out LINES [-p PROFILE]... [--model qwen3-next] [--scale 64]
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Sequence

from cachesim.base import limits
from cachesim.tools.workload.workload_files import find_files, read_session
from tests.workloads.agreement import agreement
from tests.workloads.cells import PATIENT


def main(argv: Sequence[str]) -> None:
    """Run all sessions, short sessions first; skip those with a line."""
    parser = argparse.ArgumentParser(prog="tests.workloads.agree")
    parser.add_argument("sessions")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("-p", "--profile", action="append", default=[])
    parser.add_argument("--model", default="qwen3-next")
    parser.add_argument("--scale", type=int, default=64)
    args = parser.parse_args(argv)
    limits.lift(PATIENT)
    lines = args.out.read_text("utf-8").splitlines() if args.out.exists() else []
    done = {(one["session"], one["profile"], one["model"]) for one in map(json.loads, lines)}
    for file in sorted(find_files([args.sessions]), key=lambda file: file.stat().st_size):
        session = read_session(file)
        for profile in args.profile or ["llama_cpp@b11549"]:
            if (session.name, profile, args.model) in done:
                continue
            found = agreement(session, profile, args.model, {}, args.scale)
            line = json.dumps({**found._asdict(), "model": args.model, "holds": found.holds})
            with args.out.open("a", encoding="utf-8") as stream:
                stream.write(line + "\n")
            print(line, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
