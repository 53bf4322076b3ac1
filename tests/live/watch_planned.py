"""``python -m tests.live.watch_planned``: the planned requests on a real server, and what ``cachesim watch`` says.

Every world is played twice: behind a relay that also reads the log, and behind a relay alone. The log of the first run
is then read by itself. A row is right if its causes are those of the plan, and false if it states another. Exit code 1
if a row is false, fewer than 95 % of the causes are right, or the rows and totals do not add up.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from http.client import HTTPException
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Iterator, Sequence

from cachesim.tools.live.llama_server.process import HOST, Process, free_port
from cachesim.tools.watch.paired_halves import NOT_APART
from tests.live.check_server import ready
from tests.live.watch import CHAT as TEMPLATE
from tests.live.watch import Watch
from tests.live.watch_client import Client, Outcome
from tests.live.watch_plan import (
    AGAIN,
    DIFFERS,
    HUNG_UP,
    NEW,
    REFUSED,
    SHORT,
    UNKNOWN,
    WHOLE,
    WORLDS,
    Action,
    Planned,
    World,
)

Row = dict[str, Any]
BOTH, RELAY, LOG = "relay and log", "relay alone", "log alone"
BASE = ("-t", "1", "-tb", "1", "--no-warmup", "--jinja", "--chat-template", TEMPLATE, "-fit", "off")
SETTLED = 1.0                # seconds in which the last lines of a log are written and read
SHARE = 0.95                 # causes that must be right
NUMBERS = ("prompt", "reused", "evaluated", "generated")
CHANGES = {"answer": DIFFERS, "turn end": DIFFERS, "history": DIFFERS, "start": DIFFERS}
"""Classes of the log's changes that the plan does not tell apart."""
SAYS = {AGAIN: {"identical-prompt"}, DIFFERS: {"edited-prompt", "lost-prefix"}, NEW: {"lost-prefix"}}
"""Causes of a log that state what the plan's class states."""
ENDS = {"the client hung up": HUNG_UP, "whole": WHOLE}


@dataclass
class Judged:
    """Judgement of a way to watch: requests, right ones, wrong and false statements, and faults of rows and totals."""

    requests: int = 0
    right: int = 0
    proved: int = 0
    named: int = 0
    misses: list[str] = field(default_factory=list)
    false: list[str] = field(default_factory=list)
    sums: list[str] = field(default_factory=list)


class Server:
    """A server on a fixed port, which can be restarted; its log is continued."""

    def __init__(self, binary: Path, models: Path, world: World, log: Path) -> None:
        words = [str(binary), "-m", str(models / f"{world.model}.gguf"), *BASE, *world.flags,
                 "--slot-save-path", f"{log.parent}/"]  # fmt: skip
        self._port, self._log, self._words = free_port(), log, words
        self.url = f"http://{HOST}:{self._port}"
        self.start()

    def start(self) -> None:
        words = [*self._words, "--host", HOST, "--port", str(self._port)]
        appended = ["/bin/sh", "-c", 'log=$1; shift; exec "$@" >>"$log" 2>&1', "sh", str(self._log), *words]
        self._process = Process(lambda _: appended, self._log.with_suffix(".out"))
        self._process.wait(lambda: ready(self.url), 60, "loading the model")

    def stop(self) -> None:
        self._process.terminate()

    def restart(self, client: Client) -> None:
        """End the server and start it again, while the client asks for its health."""
        self.stop()
        with suppress(OSError, ValueError, HTTPException):
            client.exchange("GET", "/health", None)
        self.start()


def played(world: World, args: argparse.Namespace, log: Path, has_log: bool) -> tuple[list[Outcome], Watch]:
    """Send the requests of a world through a relay; return what the client knows, and the ended relay."""
    log.touch()
    watch = None
    server = Server(args.server, args.models, world, log)
    try:
        watch = Watch(server.url, *(["--log", str(log)] if has_log else []))
        client = Client(watch.url, world.is_chat, world.name.replace(" ", ""))
        for step in world.steps:
            if isinstance(step, Action) and step.what == "restart":
                server.restart(client)
            elif isinstance(step, Action):
                client.act(step)
            else:
                client.send(step if isinstance(step, tuple) else (step,))
            time.sleep(args.pause)
    finally:
        server.stop()
        time.sleep(SETTLED)
        if watch is not None:
            watch.end()
    return client.outcomes, watch


def of_log(log: Path) -> tuple[list[Row], Row]:
    """Return the rows and the totals of a log alone."""
    words = [sys.executable, "-m", "cachesim", "watch", str(log), "--once", "--json", "-q"]
    lines = [json.loads(line) for line in subprocess.check_output(words, text=True).splitlines()]
    return [line["request"] for line in lines if "request" in line], lines[-1]["totals"]


def claims(row: Row) -> Iterator[tuple[str, str]]:
    """Yield what a row states: the client's change, the loss, the log's class and causes, and the end."""
    if "cause" in row:
        yield "client", row["cause"]
    if row.get("loss"):
        yield "loss", row["loss"]["cause"]
    if row.get("change"):
        yield "log", CHANGES.get(row["change"], row["change"])
    for cause in row.get("causes", ()):
        yield "cause", cause["cause"]
    end = REFUSED if row.get("refused") or (row.get("status") or 0) >= 400 else ENDS.get(row.get("end"), WHOLE)
    yield "end", end


def expected(planned: Planned, way: str) -> set[tuple[str, str]]:
    """Return what a row should state."""
    found = {("end", planned.end)}
    if way != LOG:
        found |= {("client", planned.client)}
        lost = planned.relay if way == RELAY and planned.relay is not None else planned.lost
        found |= {("loss", lost)} if lost else set()
    if way != RELAY and planned.log and planned.in_log:
        found |= {("log", planned.log)}
    return found | ({("cause", one) for one in planned.causes} if way != RELAY else set())


def judge(outcome: Outcome, row: Row, way: str, judged: Judged) -> None:
    """Compare a row with the plan and with the reply."""
    wanted, found = expected(outcome.planned, way), set(claims(row))
    found -= {("cause", one) for kind, log in wanted if kind == "log" for one in SAYS.get(log, ())}
    if row.get("note") == NOT_APART:
        wanted -= {one for one in wanted if one[0] == "log"}
    name = f"{outcome.model} {outcome.planned.talk} {outcome.planned.act}"
    judged.right += wanted <= found
    judged.proved += any(kind == "log" for kind, _ in wanted)
    judged.named += any(one in found for one in wanted if one[0] == "log")
    judged.misses += [f"{name}: not stated: {kind} {said}" for kind, said in sorted(wanted - found)]
    unknown = {("loss", UNKNOWN)} if outcome.planned.lost else set()
    judged.false += [f"{name}: states {kind} {said}" for kind, said in sorted(found - wanted - unknown)]
    if outcome.planned.lost and row.get("harmless"):
        judged.false.append(f"{name}: harmless, but the server had lost it")
    for number in NUMBERS:
        stated, true = row.get(number), outcome.numbers.get(number)
        low, high = stated if isinstance(stated, list) else (stated, stated)
        if true is not None and stated is not None and not (low <= true and (high is None or true <= high)):
            judged.false.append(f"{name}: {number} {stated}, the reply states {true}")
    if outcome.slot is not None and row.get("slot") not in (None, outcome.slot):
        judged.false.append(f"{name}: slot {row['slot']}, the reply states {outcome.slot}")


def matched(outcomes: Sequence[Outcome], rows: Sequence[Row], way: str) -> list[tuple[Outcome, list[Row]]]:
    """Return the requests with their rows: by the name of the model that each request has, in a log by their order."""
    if way != LOG:
        return [(one, [row for row in rows if row.get("model") == one.model]) for one in outcomes]
    started = [one for one in outcomes if one.planned.in_log]
    ordered = sorted(rows, key=lambda row: (row["run"], row["lines"][0]))
    found = [[row] for row in ordered] + [[] for _ in started]
    return list(zip(started, found, strict=False))


def compare(outcomes: Sequence[Outcome], rows: Sequence[Row], totals: Row, way: str, judged: Judged) -> None:
    """Judge the rows of a world, and add up their columns."""
    pairs = matched(outcomes, rows, way)
    judged.requests += len(pairs)
    for outcome, found in pairs:
        if len(found) != 1:
            judged.sums.append(f"{outcome.model}: {len(found)} rows")
        for row in found[:1]:
            judge(outcome, row, way, judged)
    if not len(pairs) == len(rows) == totals["requests"]:
        judged.sums.append(f"{len(pairs)} requests, {len(rows)} rows, total {totals['requests']}")
    for name in (*NUMBERS, "again"):
        values = [row.get(name) for row in rows]
        total = sum(value[0] if isinstance(value, list) else value or 0 for value in values)
        if total != totals[name]:
            judged.sums.append(f"{name}: sum {total}, total {totals[name]}")


def show(way: str, judged: Judged, everything: bool) -> bool:
    """Print a judgement; return True if it meets the demands."""
    print(f"{way}: {judged.requests} requests, {judged.right} right, {len(judged.false)} false statements, "
          f"{judged.named} of {judged.proved} causes that the log proves are named, {len(judged.sums)} faults of sums")
    for kind, found in (("miss", judged.misses), ("FALSE", judged.false), ("SUM", judged.sums)):
        for one in found if everything else found[:40]:
            print(f"  {kind}: {one}")
    return judged.right >= SHARE * judged.requests and not judged.false and not judged.sums


def measure(args: argparse.Namespace, worlds: Sequence[World]) -> dict[str, Judged]:
    """Play all worlds; return the judgement of each way to watch."""
    judged = {way: Judged() for way in (BOTH, RELAY, LOG)}
    for world in worlds:
        for way in (BOTH, RELAY):
            with TemporaryDirectory(prefix="cachesim-") as folder:
                log = Path(folder) / "log"
                outcomes, watch = played(world, args, log, way == BOTH)
                if args.keep:
                    _keep(args.keep, world, way, log, watch.rows)
                compare(outcomes, watch.rows, watch.totals, way, judged[way])
                if way == BOTH:
                    compare(outcomes, *of_log(log), LOG, judged[LOG])
    return judged


def _keep(folder: Path, world: World, way: str, log: Path, rows: Sequence[Row]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    name = f"{world.name}-{way}".replace(" ", "-")
    (folder / f"{name}.log").write_bytes(log.read_bytes())
    (folder / f"{name}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.live.watch_planned", description=__doc__)
    parser.add_argument("--server", type=Path, required=True, help="a llama-server, or the launcher of the wheel")
    parser.add_argument("--models", type=Path, required=True, help="folder of tiny-llama.gguf and tiny-qwen35.gguf")
    parser.add_argument("--pause", type=float, default=0.3, help="seconds between two steps")
    parser.add_argument("--short", action="store_true", help="two worlds only")
    parser.add_argument("--only", default="", help="the world of this name")
    parser.add_argument("--keep", type=Path, help="folder for logs and rows")
    args = parser.parse_args(argv)
    if not args.models.is_dir():
        print(f"not run: the folder of models {args.models} is absent")
        return 0
    worlds = [world for world in (SHORT if args.short else WORLDS) if args.only in world.name]
    print(f"{sum(len(world.requests) for world in worlds)} planned requests")
    judged = measure(args, worlds)
    return 0 if all([show(way, one, True) for way, one in judged.items()]) else 1


if __name__ == "__main__":
    sys.exit(main())
