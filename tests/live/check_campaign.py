"""``python -m tests.live.check_campaign``: comparison of the alarms of ``cachesim check`` with the simulator.

Drawn histories are run on the real b11549 under default flags, as the check does: warm, then every prompt cold. The
simulator gets equal requests. An alarm is an answer that differs from its cold run by more than the tolerance that the
check measures there; a wrong simulated answer counts if all log-probabilities of the real answer differ by more.
Resumes where it stopped. Exit code 1 for an alarm that the simulator does not give, or if too few wrong simulated
answers raise an alarm.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from pathlib import Path

from cachesim.tools.conformance.compare_replies import near
from cachesim.tools.conformance.corpus import DrawBounds, histories
from cachesim.tools.conformance.http_check.compare_answers import NearAnswers
from cachesim.tools.conformance.http_check.dialect import identify_server
from cachesim.tools.conformance.http_check.known_faults import measure, tolerance_of
from cachesim.tools.conformance.http_check.suite import longest
from cachesim.tools.conformance.properties import VERSUS_COLD, checks
from cachesim.tools.live.llama_server.gguf_models import find_model
from tests.live import build
from tests.live.__main__ import CACHE
from tests.live.check_server import CONTEXT, started
from tests.live.check_tap import Tap, Watched, simulated
from tests.live.worlds import write_models

MODELS = ("A", "W32 A", "S", "GA", "C W32")      # attention, a window, recurrent, hybrid, hybrid with a window
SLOTS = (1, 4)
PER = 500                    # requests per server start
SHARE = 0.95                 # required share of wrong simulated answers that raise an alarm
PROFILE = "llama_cpp@b11549"
COLUMNS = ("requests", "alarms", "not ours", "ours", "ours differ", "alarmed", "cached differs")


def main(argv):
    args = _arguments(argv)
    write_models(args.models)
    state = args.state / f"check-{args.seed}.jsonl"
    done = [json.loads(line) for line in state.read_text("utf-8").splitlines()] if state.exists() else []
    server, end = args.server or build.server_of("b11549"), time.monotonic() + 60 * args.minutes
    for number in range(-(-args.n // PER)):
        model, slots = MODELS[number % len(MODELS)], SLOTS[number // len(MODELS) % len(SLOTS)]
        if any(one["number"] == number for one in done):
            continue
        if time.monotonic() > end:
            print("not finished: the time is over; it goes on when it is started again", file=sys.stderr)
            break
        done.append(play(server, args.models, args.seed, number, model, slots))
        state.parent.mkdir(parents=True, exist_ok=True)
        with state.open("a", encoding="utf-8") as lines:
            lines.write(json.dumps(done[-1]) + "\n")
        print(f"start {number}: {model}, {slots} slots: {done[-1]['counts']}", file=sys.stderr)
    print(table(done))
    return judged(done)


def _arguments(argv):
    parser = argparse.ArgumentParser(prog="python -m tests.live.check_campaign", description=__doc__)
    parser.add_argument("-n", type=int, default=5000, help="drawn requests in all, those of earlier runs included")
    parser.add_argument("--minutes", type=float, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--server", type=Path, help="the binary (default: the pinned b11549)")
    parser.add_argument("--models", type=Path, default=CACHE / "models")
    parser.add_argument("--state", type=Path, default=CACHE / "state-check")
    return parser.parse_args(argv)


def play(binary, models, seed, number, model, slots):
    """Run a server; return its counts, and the alarms whose simulated answer is right."""
    with started(binary, models / find_model(model).file, "-np", slots) as url:
        return compare(url, seed, number, model, slots)


def compare(url, seed, number, model, slots):
    """Compare a running server with the simulator: counts, and alarms whose simulated answer is right."""
    http = Tap(url, 60, 1_000_000)
    server = identify_server(http)
    stage = Watched(http, server, near(0.0), seed * 1_000 + number)
    measured = measure(stage, longest(server))
    same, looks = NearAnswers(tolerance_of(measured)), []
    for history in _drawn(seed, number, longest(server)):
        if len(looks) >= PER:
            break
        looks += _look(stage, history, same)
    http.close()
    wanted = {one["warm"] for one in looks}
    ours = simulated(PROFILE, model, {"ctx_size": CONTEXT, "parallel": slots}, http.all, wanted)
    counts, wrong = Counter(dict.fromkeys(COLUMNS, 0)), []
    for one in looks:
        theirs, cached = ours[one["warm"]]
        differs = one["far"] > same.tolerance
        counts.update({"requests": 1, "alarms": one["alarm"], "not ours": one["alarm"] and not theirs, "ours": theirs,
                       "ours differ": theirs and differs, "alarmed": theirs and differs and one["alarm"],
                       "cached differs": cached != http.all[one["warm"]].cache_n})  # fmt: skip
        wrong += [one] if one["alarm"] and not theirs else []
    return {"number": number, "model": model, "slots": slots, "measured": measured, "tolerance": same.tolerance,
            "counts": dict(counts), "wrong": wrong}  # fmt: skip


def _drawn(seed, number, most):
    """Draw histories without concurrent requests or disconnects, whose order depends on timing; different for every
    start."""
    space = DrawBounds(6, most, (16, 32, 64), frozenset({"cache"}))
    return histories(space, PER, (seed * 1_000 + number) * PER)


def _look(stage, history, same):
    """Return the results of every request of a history."""
    played = stage.play(history)
    alarms = {check.request for check in checks(played, same) if check.name in VERSUS_COLD and not check.ok}
    out = []
    for number in range(len(played.asks)):
        warm, cold = stage.pair(played, number)
        out.append({"line": history.line, "request": number, "warm": warm, "alarm": number in alarms,
                    "far": stage.far(warm, cold)})  # fmt: skip
    return out


def table(done):
    """Return the counts by model and number of slots, and the totals."""
    rows = [("model", "slots", "tolerance", *COLUMNS)]
    for model in MODELS:
        for slots in SLOTS:
            mine = [one for one in done if (one["model"], one["slots"]) == (model, slots)]
            if mine:
                rows.append((model, str(slots), f"{max(one['tolerance'] for one in mine):.2g}", *_sums(mine)))
    rows.append(("all", "", "", *_sums(done)))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join("  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)


def _sums(done):
    return [f"{sum(one['counts'][column] for one in done):,}" for column in COLUMNS]


def judged(done):
    """Return the exit code."""
    sums = {column: sum(one["counts"][column] for one in done) for column in COLUMNS}
    for one in done:
        for alarm in one["wrong"]:
            print(f"NOT OURS: {one['model']}, {one['slots']} slots: {alarm['line']} request {alarm['request']}")
    enough = sums["alarmed"] >= SHARE * sums["ours differ"]
    print(f"{sums['requests']:,} requests: {sums['not ours']} alarms that ours does not give; "
          f"{sums['alarmed']} of {sums['ours differ']} wrong answers alarmed")  # fmt: skip
    return 0 if enough and not sums["not ours"] else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
