"""``python -m tests.live.logs``: logs of real servers at three verbosities, imported and compared with the servers.

Drawn conversations are run on four servers of a build with equal options: the first is recorded (log level 5), the
others keep their log as users do. Requests of a log are compared with the answers of that run, its decisions with the
recording, and the lines that `tests.replay.log_writer` makes of the recording with the real lines. Resumes where it
stopped; exit code 1 if anything differs.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

from cachesim.base.errors import BadInput
from cachesim.engines.llama_cpp.flags import write_flags
from cachesim.engines.registry import commits
from cachesim.scenarios.option_checks import filled
from cachesim.tools.live.llama_server.gguf_models import find_model
from cachesim.tools.live.llama_server.recorder import Recorder, ServerStart
from cachesim.tools.live.player import Player
from cachesim.tools.server_logs.facts.log_reader import read_session
from cachesim.tools.server_logs.lines.recognise import grammars
from tests.live import build
from tests.live.logs_compare import answers, compare_decisions, compare_lines, compare_requests, compare_start
from tests.live.logs_play import LOGS, Quiet
from tests.live.worlds import option_set, write_models

PER = 25                        # conversations per option set
CACHE = Path.home() / ".cache" / "cachesim-live"


def work(binary, commit, models, seed, number, count):
    """Run an option set; return a line of the state."""
    began = time.monotonic()
    options = option_set(seed, number)
    start = ServerStart(
        binary, models / find_model(options.model).file, tuple(write_flags(filled(options.server))), commit
    )
    counts, wrong = Counter(), []
    try:
        with Recorder(start, cold=False) as recorder:
            recorded = _play(options, count, commit, recorder.play)
            said = {"server": recorder.server, "flags": list(start.flags)}
        for log in LOGS:
            try:
                server = Quiet(start, log)
            except BadInput:
                counts[f"{log}: not in this build"] += 1
                continue
            with server as quiet:
                played = _play(options, count, commit, quiet.play)
                more, bad = compare(played, recorded, quiet.logs, log)
                if log != "jsonl":
                    file, places = quiet.logs[0]
                    lines = file.read_text("utf-8", "replace").split("\n")[: places[0]]
                    same, first = compare_start(said, lines, 4 if log == "lv4" else 3)
                    more[f"{log}: lines"] += same
                    bad += [("start", *first)] if first else []
            counts.update(more)
            wrong += [[log, *map(str, one)] for one in bad]
        counts["conversations"] = count
    except BadInput as bad:
        counts["refused"], why = count, str(bad)
        return {"number": number, "counts": counts, "wrong": [], "why": why, "seconds": time.monotonic() - began}
    return {"number": number, "counts": counts, "wrong": wrong, "seconds": round(time.monotonic() - began, 1)}


def _play(options, count, commit, play):
    """Run all steps of some conversations on a server; return their results."""
    done = []
    for conversation in range(count):
        case = options.case(conversation)
        try:
            player = Player(case.scenario(commits()[commit]), case.seed, f"c{conversation}-")
        except BadInput:
            continue
        loose = False
        for _, step in player.run(play):
            loose = loose or _racy(step)
            done.append({**step, "loose": loose})
        if loose:
            done.append(play({"op": "restart"}))
        if done and ("died" in done[-1] or "stuck" in done[-1]):
            break
    return done


def _racy(step):
    """True if the outcome of the step, and so of all later steps, depends on timing."""
    return step["op"] == "parallel" or "cancel_after" in step.get("request", {})


def compare(played, recorded, logs, log):
    """Compare requests, decisions and lines of the logs of a server with its answers and the recording."""
    texts = [file.read_text("utf-8", "replace").split("\n") for file, _ in logs]
    sessions = [read_session("llama_cpp", grammars()["llama_cpp"], text).requests for text in texts]
    counts, wrong = Counter(), []
    for number, step in enumerate(played):
        if step["op"] == "restart" or "place" not in step:
            continue
        places = logs[step["log"]][1]
        low, high = places[step["place"] - 1], places[step["place"]]
        found = [one for one in sessions[step["log"]] if low < one.lines[0] <= high]
        more, bad = compare_requests(step, found)
        if number < len(recorded) and _same(step, recorded[number]):
            events = recorded[number].get("events", ())
            other, worse = compare_decisions(events, found, log)
            more, bad = more + other, bad + worse
            if log != "jsonl":
                same, first = compare_lines(recorded[number], texts[step["log"]][low:high], 4 if log == "lv4" else 3)
                more["lines"] += same
                bad += [("line", *first)] if first else []
        counts.update({f"{log}: {name}": many for name, many in more.items()})
        wrong += [(number, *one) for one in bad]
    return counts, wrong


def _same(step, answered):
    """True if both servers agree, and nothing in the step depends on timing."""
    return not (step["loose"] or "died" in answered or "stuck" in answered) and answers(step) == answers(answered)


def main(argv):
    args = _arguments(argv)
    args.state.mkdir(parents=True, exist_ok=True)
    write_models(args.models)
    worst = 0
    for commit in args.commits:
        try:
            server = args.server or build.binary(commit)
        except build.Missing as why:
            print(why, file=sys.stderr)
            return 2
        worst = max(worst, _campaign(args, commit, server))
    return worst


def _campaign(args, commit, server):
    file = args.state / f"logs-{commit}-{args.seed}.jsonl"
    lines = [json.loads(line) for line in file.read_text("utf-8").splitlines()] if file.exists() else []
    lines = [line for line in lines if not line["wrong"]]         # differing conversations run again
    known = {line["number"] for line in lines}
    todo = [number for number in range(-(-args.n // PER)) if number not in known]
    end = time.monotonic() + 60 * args.minutes
    with ProcessPoolExecutor(args.jobs) as pool:
        running = [pool.submit(_until, end, server, commit, args.models, args.seed, number, PER) for number in todo]
        for one in as_completed(running):
            if (line := one.result()) is not None:
                lines.append(line)
                file.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    return _say(commit, lines, file)


def _until(end, *words):
    return None if time.monotonic() > end else work(*words)


def _say(commit, lines, file):
    counts, wrong = Counter(), []
    for line in lines:
        counts.update(line["counts"])
        wrong += [(line["number"], *one) for one in line["wrong"]]
    print(f"logs of {commit}, {file}")
    for name, many in sorted(counts.items()):
        print(f"  {name:28} {many:>8}")
    for one in wrong[:20]:
        print("  DIFFERENT:", *one)
    print(f"  {len(wrong)} differences")
    return 1 if wrong else 0


def _arguments(argv):
    parser = argparse.ArgumentParser(prog="python -m tests.live.logs", description=__doc__)
    parser.add_argument("commits", nargs="*", default=list(build.PINNED), metavar="BUILD")
    parser.add_argument("--server", type=Path, help="the binary (default: built)")
    parser.add_argument("--models", type=Path, default=CACHE / "models")
    parser.add_argument("-n", type=int, default=500, help="conversations on each build, earlier runs included")
    parser.add_argument("--minutes", type=float, default=30, help="for each build")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--state", type=Path, default=CACHE / "state")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
