"""``python -m tests.live.evidence --commit b11549 [ids...]``: evidence of scenarios on an unchanged real server.

Each request is sent to the server and to a second process of it without any cache; the results are stored in
``scenarios/evidence/<commit>.json``. Scenarios that depend on arrival order or on the server's own drafts are repeated
with other tokens until the same requests are wrong as in the simulator. Without ids: every scenario of a fault that
names the build's rule set. Exit code 1 if the simulator differs.
"""

from __future__ import annotations

import argparse
import re
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from cachesim.base.errors import BadInput
from cachesim.engines.registry import commits, engine_of
from cachesim.judging.judged_run import run_judged
from cachesim.scenarios.corpus import corpus_files, corpus_root
from cachesim.scenarios.load import load
from cachesim.tools.live.llama_server.gguf_models import find_model
from cachesim.tools.live.llama_server.recorder import Recorder, ServerStart
from cachesim.tools.live.llama_server.verify.case import AMPLIFIED, ROUNDING
from cachesim.tools.live.llama_server.verify.compared_requests import compare_requests
from cachesim.tools.live.player import Player
from tests.live import build
from tests.live.evidence_file import entry_of, store
from tests.live.evidence_tasks import record_tasks
from tests.live.verify_all import models_of

RIGHT = "right"             # symptom of a scenario without a fault
NUMBER = re.compile(r"\d+")
TRIES = 60                  # attempts for a scenario that depends on time or on drafts


def record(scenario, profile, server, commit, models, seed=0):
    """Return the recording of an unchanged scenario, with the words of a seed. Raise BadInput if it cannot be sent."""
    gguf, player = models_of(scenario, models), Player(scenario, seed)
    rounding = AMPLIFIED if find_model(scenario.model).arch == "gemma3" else ROUNDING
    start = ServerStart(server, gguf, tuple(player.write(scenario.server)), commit)
    with Recorder(start, rounding=rounding) as recorder:
        for _ in player.run(recorder.play):
            pass
        return recorder.trace(scenario.id, profile=profile.partition("@")[2])


def differences(scenario, profile, recording):
    """Describe the differences between the simulator and the server for equal requests."""
    found = compare_requests(recording, profile, [step.text for step in scenario.steps], sized=True)
    return "; ".join(f"{row.number}: {row.first or 'answer'}" for row in found if row.same is False)


class Expected(NamedTuple):
    """The simulator's results: tokens reused by every answered request, errors of the refused requests, and the numbers
    of those that are answered wrongly or end the process (of these the first)."""

    reused: dict[int, int]
    errors: dict[int, str]
    wrong: list[int]


def expected(scenario, profile):
    """Run a scenario in the simulator."""
    run = run_judged(scenario, profile, "provenance", with_ledger=False)
    answers = [(one.answer, one.judged.answer) for one in run.requests]
    died = [n for n, (answer, _) in enumerate(answers) if answer.died]
    reused = {n: answer.cache_n for n, (answer, _) in enumerate(answers) if answer.status == 200 and n not in died}
    wrong = [n for n in reused if answers[n][1].equal_cold is False] + died[:1]
    return Expected(reused, {n: answers[n][0].error for n in range(len(answers)) if n not in reused}, wrong)


def otherwise(requests, wanted):
    """Describe the stored requests that are not as expected."""
    real = [one["n"] for one in requests if "died" in one or "stuck" in one
            or any(answer.get("differs") for answer in (one, *one.get("children", ())))]  # fmt: skip
    other = [f"{one['n']}: {one['cache_n']} reused, expected {wanted.reused.get(one['n'])}" for one in requests
             if "cache_n" in one and wanted.reused.get(one["n"]) != one["cache_n"]]  # fmt: skip
    other += [f"{one['n']}: {one['error']!r}, expected {wanted.errors.get(one['n'])!r}" for one in requests
              if "error" in one and "action" not in one
              and NUMBER.sub("0", one["error"]) != NUMBER.sub("0", wanted.errors.get(one["n"], ""))]  # fmt: skip
    return "; ".join(other + ([] if real == wanted.wrong else [f"wrong: {real}, expected {wanted.wrong}"]))


def look(scenario, profile, server, commit, models):
    """Return the id of a scenario, its entry (None = it was not sent), and a remark."""
    if any(step.request.kind != "completion" for step in scenario.steps):
        return look_at_tasks(scenario, profile, server, commit, models)
    open_ended = any(step.together or step.drafts or step.request.draft_else for step in scenario.steps)
    try:
        wanted = expected(scenario, profile)
        for seed in range(TRIES if open_ended else 1):
            recording = record(scenario, profile, server, commit, models, seed)
            entry = {"seed": seed, **entry_of(scenario, profile, recording, True)}
            differs, why = differences(scenario, profile, recording), otherwise(entry["requests"], wanted)
            if differs:
                print(f"{scenario.id}, words {seed}: {differs}", flush=True)
            if not why:
                break
    except BadInput as bad:
        return scenario.id, None, f"not sent: {bad.cause}"
    if not (why or wanted.wrong or wanted.errors) and any(step.drafts for step in scenario.steps):
        why = "the drafts were the server's own, and nothing shows them"
    if why or (differs and not open_ended):           # recordings lack the length of a failing draft
        entry["as_simulated"] = False if differs else None
    return scenario.id, entry, why or differs


def look_at_tasks(scenario, profile, server, commit, models):
    """Like ``look``, for a scenario with tasks other than completions, which cannot be replayed."""
    try:
        recording = record_tasks(scenario, server, commit, models)
    except BadInput as bad:
        return scenario.id, None, f"not sent: {bad.cause}"
    entry = entry_of(scenario, profile, recording, True)
    why = otherwise(entry["requests"], expected(scenario, profile))
    return scenario.id, {**entry, "as_simulated": not why}, why


def chosen(ids, profile):
    """Return the requested scenarios, or all of a fault that name the rule set."""
    if ids:
        return [load(corpus_files()[name]) for name in ids]
    own = corpus_root() / engine_of(profile).name
    every = (load(file) for file in sorted(corpus_files().values()) if file.is_relative_to(own))
    return [one for one in every if profile in one.profiles and one.symptom not in (RIGHT, "")]


def main(argv):
    parser = argparse.ArgumentParser(prog="python -m tests.live.evidence", description=__doc__)
    parser.add_argument("ids", nargs="*", help="scenarios (default: those of a fault that name the build's rule set)")
    parser.add_argument("--server", type=Path, help="llama-server, unedited (default: the pinned build)")
    parser.add_argument("--commit", default="b11549")
    parser.add_argument("--models", type=Path, default=build.cache() / "models")
    parser.add_argument("--out", type=Path, default=corpus_root() / "evidence")
    parser.add_argument("--jobs", type=int, default=1)
    args = parser.parse_args(argv)
    profile = commits()[args.commit]
    try:
        server = args.server or build.binary(args.commit)
    except build.Missing as why:
        print(why, file=sys.stderr)
        return 2
    args.models.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(args.jobs) as pool:
        cases = list(pool.map(lambda one: look(one, profile, server, args.commit, args.models),
                              chosen(args.ids, profile)))  # fmt: skip
    for name, entry, why in cases:
        print(f"{name:42} {_word(entry):10} {why}".rstrip())
    entries = {name: entry for name, entry, _ in cases if entry is not None}
    version = build.said_version(server).strip().splitlines()[0]
    store(args.out / f"{args.commit}.json", args.commit, version, entries)
    return int(any(entry["as_simulated"] is False for entry in entries.values()))


def _word(entry):
    return "-" if entry is None else {True: "same", False: "DIFFERS", None: "undecided"}[entry["as_simulated"]]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
