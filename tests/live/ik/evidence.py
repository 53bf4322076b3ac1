"""``python -m tests.live.ik.evidence --server PATH [ids...]``: evidence of scenarios on a real ik_llama.cpp.

Each request is sent to an unchanged server and to a second process of it without any cache; the results are stored in
``scenarios/evidence/ik-8337e4c.json``. Scenarios that depend on time or on the server's own drafts are repeated with
other tokens until the same requests are wrong as in the simulator. Exit code 1 if a scenario differs.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

from cachesim.base.errors import BadInput
from cachesim.judging.judged_run import run_judged
from cachesim.scenarios.corpus import corpus_root
from cachesim.scenarios.load import find, load_each
from cachesim.scenarios.option_checks import filled
from cachesim.tools.live.llama_server.server import ServerStart
from cachesim.tools.live.player import Player
from tests.live import build
from tests.live.beside import Beside
from tests.live.evidence_file import entry_of, store
from tests.live.ik.models import find_model, write_models
from tests.live.ik.recorder import Recorder
from tests.live.ik.server import BASE, COMMIT, LOST
from tests.live.ik.worlds import drafting
from tests.live.kits import rounding_of

PROFILE, ENGINE = "ik_llama@main", "ik_llama"
NAME = f"ik-{COMMIT}"
TRIES = 20                  # attempts for a scenario that depends on time or on drafts


def record(scenario, server, models, seed):
    """Return the recording of a scenario, with the words of a seed. Raise BadInput if it cannot be sent."""
    scenario = replace(scenario, server=filled(scenario.server, ENGINE))
    player = Player(scenario, seed)
    flags = drafting(player.write(scenario.server))
    write_models(models, [scenario.model])
    start = ServerStart(server, models / find_model(scenario.model).file, flags, COMMIT, BASE)
    several = scenario.server.get("parallel", 1) > 1
    with Recorder(start, rounding_of(flags, several), lists=True) as recorder:
        for _ in range(TRIES):
            for _ in player.run(recorder.play):
                pass
            made = recorder.trace(scenario.id) | {"profile": PROFILE.partition("@")[2]}
            if all((step.get("response") or {}).get("status") != LOST.status for step in made["steps"]):
                return made
            recorder.reset()                           # a slot action was done and its answer was not sent
            player = Player(scenario, seed)
    raise BadInput("no slot action was answered")


def wrong_ones(scenario):
    """Return the requests that the simulator answers wrongly, and the request that ends the process."""
    run = run_judged(scenario, PROFILE, "provenance", with_ledger=False)
    return [n for n, one in enumerate(run.requests)
            if one.answer.died or (one.judged.answer.holds is False and one.answer.status == 200)]  # fmt: skip


def really_wrong(requests):
    """Return the wrong requests, and the request that ends the process, of stored requests."""
    return [one["n"] for one in requests if "died" in one or one.get("differs")]


def look(server, models, scenario):
    """Return the id of a scenario, its entry (None = it was not sent), and a remark."""
    loose = any(step.together or step.drafts or step.request.draft_else for step in scenario.steps)
    try:
        wanted = wrong_ones(scenario)
        for seed in range(TRIES if loose else 1):
            recording = record(scenario, server, models, seed)
            entry = {"seed": seed, **entry_of(scenario, PROFILE, recording, True)}
            real, beside = really_wrong(entry["requests"]), Beside()
            difference = beside.hear(recording)
            beside.close()
            if difference is not None and difference.what == "verdict":
                difference = None                          # wrong requests are compared below
            if difference is not None or real == wanted:
                break
    except BadInput as bad:
        return scenario.id, None, f"not sent: {bad.cause}"
    entry["as_simulated"] = real == wanted and difference is None
    if not entry["as_simulated"] and difference is None:
        entry["as_simulated"] = None if loose else False
    return scenario.id, entry, "" if entry["as_simulated"] else f"wrong: {real}, simulated {wanted}; {difference}"


def main(argv):
    """Store the evidence of every scenario that names the rule set."""
    parser = argparse.ArgumentParser(prog="python -m tests.live.ik.evidence", description=__doc__)
    parser.add_argument("ids", nargs="*")
    parser.add_argument("--server", type=Path, required=True)
    parser.add_argument("--models", type=Path, default=build.cache() / "models" / "ik")
    parser.add_argument("--out", type=Path, default=corpus_root() / "evidence")
    args = parser.parse_args(argv)
    each = [one for one in load_each(find([corpus_root() / ENGINE])) if not isinstance(one, BadInput)]
    chosen = [one for one in each if one.id in args.ids or (not args.ids and PROFILE in one.profiles)]
    cases = list(map(partial(look, args.server, args.models), chosen))
    for name, entry, why in cases:
        word = "-" if entry is None else {True: "same", False: "DIFFERS", None: "undecided"}[entry["as_simulated"]]
        print(f"{name:42} {word:10} {why}".rstrip())
    entries = {name: entry for name, entry, _ in cases if entry is not None}
    version = build.said_version(args.server).strip().splitlines()[0]
    store(args.out / f"{NAME}.json", NAME.removeprefix("ik-"), version, entries)
    return int(any(entry["as_simulated"] is False for entry in entries.values()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
