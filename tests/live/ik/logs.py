"""``python -m tests.live.ik.logs``: imported log of a real ik_llama.cpp, compared with its answers and its recording.

Drawn conversations are recorded (``--verbosity 1``); `cachesim import` reads that log. Its requests are compared with
the answers, its decisions with the recorded events. Exit code 1 if anything differs.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from itertools import zip_longest
from pathlib import Path

from cachesim.base.errors import BadInput
from cachesim.engines.registry import ENGINES
from cachesim.scenarios.option_checks import filled
from cachesim.tools.live.player import Player
from cachesim.tools.server_logs.facts.log_reader import read_session
from cachesim.tools.server_logs.lines.recognise import grammars
from tests.live.ik.server import COMMIT
from tests.live.kits import KITS

STARTS, TALKS = 20, 10                # server starts with a single slot and with several, conversations of each
PROFILE, ENGINE = "ik_llama@main", "ik_llama"
NAMES = {"slot": "id_slot", "n_tokens": "tokens_evaluated", "cache_n": "cache_n", "prompt_n": "prompt_n",
         "predicted_n": "predicted_n"}  # fmt: skip
"""Numbers of an imported request -> of an answer."""


def main(argv):
    """Print counts and errors."""
    parser = argparse.ArgumentParser(prog="python -m tests.live.ik.logs", description=__doc__)
    parser.add_argument("--server", type=Path, required=True)
    parser.add_argument("--models", type=Path, default=Path.home() / ".cache" / "cachesim-live" / "models")
    parser.add_argument("-n", type=int, default=STARTS, help="starts of a server, half of them with several slots")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args(argv)
    counts, wrong = Counter(), []
    for name in ("ik_llama", "ik_llama_slots"):
        kit = KITS[name]
        kit.write_models(args.models)
        for number in range(args.n // 2):
            found, bad = play(kit, args, number)
            counts.update(found)
            wrong += [(name, number, *one) for one in bad]
    print(f"the log of {args.server}, imported")
    for name, many in sorted(counts.items()):
        print(f"  {name:24} {many:>8}")
    for one in wrong[:20]:
        print("  DIFFERENT:", *one)
    print(f"  {len(wrong)} differences")
    return int(bool(wrong or not counts["requests"]))


def play(kit, args, number):
    """Record the conversations of a start, import the log and compare: counts, and errors."""
    options = kit.option_set(args.seed, number)
    flags = ENGINES[ENGINE].recorded.write(filled(options.server, ENGINE))
    with kit.recorder(args.server, args.models, COMMIT, flags, options.model) as recorder:
        for case in map(options.case, range(TALKS)):
            try:
                list(Player(case.scenario(PROFILE), case.seed, f"c{case.seed}-").run(recorder.play))
            except BadInput:
                continue                                       # a conversation that real servers do not support
            if recorder.steps and "died" in recorder.steps[-1]:
                break
        lines = recorder.log_file.read_text("utf-8", "replace").split("\n")
    last = max((step["i"] for step in recorder.steps if step["op"] == "restart"), default=-1)
    session = read_session(ENGINE, grammars()[ENGINE], lines)
    truth = [asked for step in recorder.steps[last + 1 :] for asked in launches(step)]
    return compare([one for one in session.requests if not one.is_refused], truth)


def launches(step):
    """Return (answer, events) of every launch of a step, in order; no answer after a disconnect or refusal."""
    if step["op"] in ("slot", "restart"):
        return
    members = step.get("steps", [step])
    numbers = [event.get("task", 0) for event in step["events"] if event["ev"] == "launch"]
    for number in numbers:
        own = [event for event in step["events"] if event.get("task", 0) == number]
        member = next((one for one in members if one.get("task", 0) == number), members[0])
        answer = member.get("response") or {}
        yield (answer if answer.get("status") == 200 else {}), own


def compare(found, truth):
    """Compare requests of a log with answers and events: counts, and errors."""
    counts, wrong = Counter({"requests": len(truth)}), []
    for one, real in zip_longest(found, truth):
        if one is None or real is None:
            wrong.append(("requests", len(found), len(truth)))
            break
        answer, events = real
        for name, key in NAMES.items():
            number = getattr(one, name)
            known = number is not None and key in answer
            counts[f"{name} {'not known' if not known else 'right' if number == answer[key] else 'WRONG'}"] += 1
            wrong += [(one.lines, name, number, answer[key])] if known and number != answer[key] else []
        for name, true in decisions(events).items():
            counts["decisions"] += 1
            wrong += [(one.lines, name, getattr(one, name), true)] if getattr(one, name) != true else []
    return counts, wrong


def decisions(events):
    """Return the recorded decisions of a request."""
    restored = [event["n_past"] for event in events if event["ev"] == "ckpt_restore"]
    return {"restored": restored[-1] if restored else None,
            "full": any(event["ev"] == "full_reprocess" for event in events),
            "created": tuple(one["n_tokens"] for one in events if one["ev"] == "ckpt_create")}  # fmt: skip


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
