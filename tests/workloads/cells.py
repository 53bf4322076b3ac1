"""Cells as lines of JSON that can be merged: a cell that exists is not run again.

    python -m tests.workloads.cells SESSIONS --out LINES [--how judged] [--scale 64] [--jobs 2] [--until HH:MM]
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any, Iterator, NamedTuple

from cachesim.base import limits
from cachesim.base.pool import KilledItem, begin_with, finished
from cachesim.tools.workload.cell_jobs import CellJob, line, played_within, read_all
from cachesim.tools.workload.run_cell import BILLED, COUNTED, JUDGED
from cachesim.tools.workload.workload_files import find_files
from tests.workloads.grid import MODELS, Column, as_default, columns, columns_blocks, columns_shared

DEPTH = {COUNTED: 0, JUDGED: 1, BILLED: 2}
PATIENT = dict.fromkeys(("new tokens", "micro-batches", "judged tokens"), 10**9)
Key = tuple[str, str, str, str, int]


class Share(NamedTuple):
    """A session, or several on a server, under several cells: the work of a process at a time."""

    files: tuple[str, ...]
    cells: tuple[Column, ...]
    scale: int
    how: str
    bounds: bool


def play_share(share: Share) -> list[dict[str, Any]]:
    """Return the lines of a share."""
    session = read_all([Path(file) for file in share.files])
    requests, out = played_within(session, share.scale), []
    for one in share.cells:
        began = time.process_time()
        job = CellJob(share.files, one.profile, MODELS[one.kind], one.given, share.scale, share.how, share.bounds)
        try:
            found = line(session, requests, job)
        except Exception as error:
            found = {"error": f"{type(error).__name__}: {error}"[:300]}
        seconds = round(time.process_time() - began, 2)
        out.append({"session": session.name, "rules": one.rules, "kind": one.kind, "setting": one.setting,
                    "scale": share.scale, "how": share.how, "seconds": seconds, **found})  # fmt: skip
    return out


def key(line: dict[str, Any]) -> Key:
    """Return the cell of a line, without the level of detail."""
    return line["session"], line["rules"], line["kind"], line["setting"], line["scale"]


def read_lines(path: Path) -> dict[Key, dict[str, Any]]:
    """Read all lines; of several for a cell the most detailed. Ignore an incomplete line."""
    out: dict[Key, dict[str, Any]] = {}
    for text in path.read_text("utf-8").splitlines() if path.exists() else ():
        try:
            one = json.loads(text)
        except ValueError:
            continue
        old = out.get(key(one))
        if "error" not in one and (old is None or DEPTH[one["how"]] >= DEPTH[old["how"]]):
            if old is not None and one["unlimited"] is None:
                one["unlimited"] = old["unlimited"]
            out[key(one)] = one
    return out


def groups(args: argparse.Namespace) -> list[tuple[Path, ...]]:
    """Return the sessions by server, short sessions first. Sessions on the same server are adjacent by name, as with
    ``cachesim workload --sessions``."""
    files = [file for file in find_files([args.sessions]) if not args.only or file.name.partition(".")[0] in args.only]
    found = [tuple(files[i : i + args.together]) for i in range(0, len(files), args.together)]
    return sorted(found, key=lambda group: sum(file.stat().st_size for file in group))[: args.first]


def shares(args: argparse.Namespace) -> Iterator[Share]:
    """Yield the remaining work: short sessions first, settings in their order."""
    done = read_lines(args.out)
    every = columns_shared() if args.shared else columns_blocks() if args.blocks else columns()
    wanted = [one for one in every if not args.settings or one.setting in args.settings]
    wanted = [one for one in wanted if args.blocks or one.setting == "default"
              or not as_default(one.profile, one.kind, one.given)]  # fmt: skip
    wanted = [one for one in wanted if not args.rules or one.rules in args.rules]
    wanted = [one for one in wanted if not args.kinds or one.kind in args.kinds]
    for setting in dict.fromkeys(one.setting for one in wanted):
        for files in groups(args):
            name = "+".join(file.name.partition(".")[0] for file in files)
            left = tuple(one for one in wanted if one.setting == setting and not _done(done, name, one, args))
            for kind in dict.fromkeys(one.kind for one in left):
                mine = tuple(one for one in left if one.kind == kind)
                yield Share(tuple(map(str, files)), mine, args.scale, args.how, setting == "default" and args.scale > 1)


def _done(done: dict[Key, dict[str, Any]], name: str, column: Column, args: argparse.Namespace) -> bool:
    found = done.get((name, column.rules, column.kind, column.setting, args.scale))
    return found is not None and DEPTH[found["how"]] >= DEPTH[args.how]


def arguments(prog: str) -> argparse.ArgumentParser:
    """Return the parser of the options that select cells."""
    parser = argparse.ArgumentParser(prog=prog)
    parser.add_argument("sessions")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--how", choices=DEPTH, default=JUDGED)
    parser.add_argument("--scale", type=int, default=64)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--until", default="", help="HH:MM, start nothing later")
    parser.add_argument("--first", type=int, default=10**6, help="number of sessions, shortest first")
    parser.add_argument("--together", type=int, default=1, help="sessions per server")
    parser.add_argument("--shared", action="store_true", help="settings of shared servers")
    parser.add_argument("--blocks", action="store_true", help="servers with a block pool")
    parser.add_argument("--only", action="append", metavar="NAME", help="only this session")
    parser.add_argument("--settings", action="append")
    parser.add_argument("--rules", action="append")
    parser.add_argument("--kinds", action="append")
    return parser


def play_left(args: argparse.Namespace) -> None:
    """Run the remaining cells."""
    begin_with(limits.lift, PATIENT)
    limits.lift(PATIENT)
    todo = (one for one in shares(args) if not args.until or time.strftime("%H:%M") < args.until)
    with args.out.open("a", encoding="utf-8") as stream:
        for done in finished(play_share, todo, args.jobs):
            if isinstance(done.result, KilledItem):
                print(f"lost: {' '.join(done.share.files)}: {done.result.how}", flush=True)
                continue
            stream.write("".join(json.dumps(one) + "\n" for one in done.result))
            stream.flush()


if __name__ == "__main__":
    play_left(arguments("tests.workloads.cells").parse_args())
