"""CPU time of a real llama-server divided by that of cachesim for the same requests: a single core, median of 5 runs.

    python -m tests.bench.ratios [--runs N]

The real server logs nothing while it is timed (``QUIET``), and its start, which loads the model, is subtracted. Replay:
the requests of recordings are sent to the real server, and the simulator replays the recordings. Search: drawn
conversations run once on a server with a log, which gives their requests. They are then sent to a server without a log,
and their cold twins to a cold server; the simulator runs and judges them. ``make live`` builds the binary; other tools
compare its answers.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import process_time
from typing import Any, Callable, Sequence

from cachesim.base.errors import BadInput
from cachesim.engines.llama_cpp.flags import write_flags
from cachesim.scenarios.option_checks import filled
from cachesim.tools.live.llama_server.client import Client, at_once
from cachesim.tools.live.llama_server.cold_server import ask_cold, cold_flags
from cachesim.tools.live.llama_server.gguf_models import find_model
from cachesim.tools.live.llama_server.recorder import Recorder, ServerStart, Step
from cachesim.tools.live.llama_server.server import run_server
from cachesim.tools.live.player import OVER, Player
from cachesim.tools.replay.command import replay_one
from cachesim.tools.search.drawn_conversation import DrawnConversation
from cachesim.tools.search.properties import PROPERTIES
from cachesim.tools.search.run_properties import findings
from tests.bench.launch import on_one_core
from tests.live.build import BUILDS, cache, works
from tests.live.worlds import option_set, write_models
from tests.shared import MODELS, TRACES

COMMIT, PROFILE = "b11549", "llama_cpp@b11549"
QUIET = ("-lv", "0", "--log-disable")
EVERY = 8                     # every eighth of the sequential recordings
SETS, EACH = 3, 8             # option sets of the campaign of `make live`, conversations of each
WANTED = {"replay, no model": 6.0, "replay, provenance, judged": 3.3, "replay, exact, judged": 0.2,
          "search, judged": 5.0}  # fmt: skip

Talk = list[Step]
"""Recorded steps of a conversation."""


def server() -> Path | None:
    """Return the real server, None if it was not built here."""
    found = cache() / "build" / BUILDS[COMMIT].folder / "bin" / "llama-server"
    return found if works(found) else None


def children() -> float:
    """Return CPU seconds of all child processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def spent(clock: Callable[[], float], what: Callable[..., object], *args: object) -> float:
    """Return the time that a call takes by this clock."""
    begin = clock()
    what(*args)
    return clock() - begin


def sequential(file: Path) -> bool:
    """True if the recording contains only sequential requests, without drafts, shifts, moves and disconnects. The aims
    were set for these: 230 files, 1,779 steps."""
    data = json.loads(file.read_text())
    if {"--spec-type", "-md", "--context-shift", "--cache-reuse"} & set(data["flags"]):
        return False
    apart = {"cancel_after", "n_cache_reuse", "n_cmpl"}
    return all(step["op"] in ("completion", "chat") and not apart & step["request"].keys() for step in data["steps"])


def recordings() -> list[Path]:
    """Return the recordings of the build that are replayed."""
    files = [one for one in sorted((TRACES / "llama_cpp_b11549").glob("*.json")) if sequential(one)]
    return files[::EVERY]


def serve(start: ServerStart, work: Callable[[Client], object]) -> None:
    """Start a server without a log, do some work on it, and end it."""
    with TemporaryDirectory() as folder:
        quiet = replace(start, flags=(*start.flags, *QUIET))
        with run_server(quiet, Path(folder), Path(folder, "log"), listen=False) as one:
            work(one.client)


def hot(start: ServerStart, talks: Sequence[Talk]) -> float:
    """Return CPU seconds of a real server for these conversations, without its start."""

    def send(client: Client) -> None:
        for talk in talks:
            for step in talk:
                at_once([partial(_send, client, one) for one in step.get("steps", [step])], lambda: None)

    return _without_start(start, send)


def cold(start: ServerStart, talks: Sequence[Talk]) -> float:
    """Return CPU seconds of a cold server for the same requests, without its start."""
    members = [one for talk in talks for step in talk for one in step.get("steps", [step]) if one["op"] != "slot"]

    def ask(client: Client) -> None:
        for one in members:
            ask_cold(client, one["request"])

    return _without_start(replace(start, flags=cold_flags(start.flags)), ask)


def _without_start(start: ServerStart, work: Callable[[Client], object]) -> float:
    return spent(children, serve, start, work) - spent(children, serve, start, lambda client: None)


def _send(client: Client, step: Step) -> None:
    body = dict(step["request"])
    if step["op"] == "slot":
        client.slot(body["action"], body["id_slot"], body.get("filename", ""))
    elif "cancel_after" in body:
        client.hang_up(body, body.pop("cancel_after"), lambda: None)
    else:
        client.complete(body)


def real_replay(file: Path, binary: Path) -> float:
    """Return CPU seconds of a real server for the requests of a recording."""
    trace = json.loads(file.read_text("utf-8"))
    start = ServerStart(
        binary, MODELS / trace["model"], tuple(trace["flags"]), trace["commit"], tuple(trace["base_flags"])
    )
    return hot(start, [trace["steps"]])


def our_replay(file: Path, mode: str) -> float:
    """Return CPU seconds of the simulator for a recording."""
    return spent(process_time, replay_one, (file, mode))


def drawn(start: ServerStart, cases: Sequence[DrawnConversation]) -> dict[int, Talk]:
    """Return the requests that a real server with a log received in each case, by place. Cases that it refuses, or in
    which it restarts or ends, are left out."""
    talks: dict[int, Talk] = {}
    with Recorder(start, cold=False) as recorder:
        for place, case in enumerate(cases):
            try:
                talk = [step for _, step in Player(case.scenario(PROFILE), case.seed, f"c{place}-").run(recorder.play)]
            except BadInput:
                continue
            if any(OVER.keys() & step.keys() for step in talk):
                recorder.reset()
            elif all(step["op"] != "restart" for step in talk):
                talks[place] = talk
    return talks


def searches(binary: Path, models: Path) -> tuple[float, float]:
    """Return CPU seconds for drawn conversations: the real server's, with their cold twins, and the simulator's."""
    real, ours = 0.0, 0.0
    for number in range(SETS):
        options = option_set(0, number)
        flags = tuple(write_flags(filled(options.server)))
        start = ServerStart(binary, models / find_model(options.model).file, flags, COMMIT)
        cases = [options.case(i) for i in range(EACH)]
        talks = drawn(start, cases)
        real += hot(start, [*talks.values()]) + cold(start, [*talks.values()])
        judges: dict[str, Any] = {}
        findings(options.case(EACH), PROFILE, tuple(PROPERTIES), judges)          # load the engine first
        for place in talks:
            ours += spent(process_time, findings, cases[place], PROFILE, tuple(PROPERTIES), judges)
    return real, ours


def main(argv: list[str]) -> int:
    """Measure and print. Return 0, also if there is nothing to measure."""
    parser = argparse.ArgumentParser(prog="tests.bench.ratios")
    parser.add_argument("--runs", type=int, default=5)
    args = parser.parse_args(argv)
    binary, files = server(), recordings()
    if binary is None or not files:
        what = f"llama-server {COMMIT} is not built here (make live builds it)" if binary is None else "no recordings"
        print(f"ratios against the real server: absent, {what}")
        return 0
    if len(os.sched_getaffinity(0)) > 1:        # restart on a single core: a BLAS counts its threads when it is loaded
        on_one_core()
        os.execv(sys.executable, [sys.executable, "-m", "tests.bench.ratios", *argv])
    found: dict[str, list[float]] = {name: [] for name in WANTED}
    with TemporaryDirectory() as folder:
        write_models(Path(folder))
        for _ in range(args.runs):
            real = sum(real_replay(file, binary) for file in files)
            for name, mode in zip(WANTED, ("none", "provenance", "exact"), strict=False):
                found[name].append(real / sum(our_replay(file, mode) for file in files))
            theirs, ours = searches(binary, Path(folder))
            found["search, judged"].append(theirs / ours)
    print(f"{'CPU time of llama-server ' + COMMIT + ' / ours':44} {'measured':>9} {'lowest':>7} {'aim':>6}")
    for name, ratios in found.items():
        value = median(ratios)
        missed = "" if value >= WANTED[name] else "   MISSED"
        print(f"{name:44} {value:>9.2f} {min(ratios):>7.2f} {WANTED[name]:>6.2f}{missed}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
