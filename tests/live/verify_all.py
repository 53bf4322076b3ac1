"""``python -m tests.live.verify_all``: every llama.cpp scenario of the corpus on the real server and in the simulator.

Each is run as by ``cachesim verify --server``, with the build's rule set. Exit code 1 if a scenario differs. Scenarios
whose outcome the client cannot see are undecided; scenarios that a real server does not support are listed.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from cachesim.base.errors import BadInput
from cachesim.scenarios.corpus import corpus_root
from cachesim.scenarios.load import find, load_each
from cachesim.tools.live.llama_server.gguf_models import find_model, write_model
from cachesim.tools.live.llama_server.verify.case import on_server
from tests.live import build

SAME, DIFFERS, UNDECIDED, NOT_ASKED = "same", "DIFFERS", "undecided", "not asked"
WORDS = {True: SAME, False: DIFFERS, None: UNDECIDED}


def models_of(scenario, folder):
    """Return the file of a scenario's model; write it and that of the drafter if missing. Raise BadInput."""
    drafter = str(scenario.server.get("model_draft") or "")
    wanted = {find_model(scenario.model).file: scenario.model, **({f"tiny-{drafter}.gguf": drafter} if drafter else {})}
    for name, model in wanted.items():
        if not (folder / name).exists():
            write_model(model, folder / name)
    return folder / next(iter(wanted))


def look(scenario, profile, server, models, play=on_server):
    """Return the name of a scenario, its outcome, and the reason if it is not the same."""
    try:
        found = play(scenario, profile, server, models_of(scenario, models))
    except BadInput as bad:
        return scenario.id, NOT_ASKED, bad.cause
    why = found.undecided or "; ".join(f"{row.number}: {row.why or row.first}" for row in found.rows if not row.same)
    return scenario.id, WORDS[found.same], why


def code_of(cases):
    """Return 0 if none differs and most are the same."""
    counts = Counter(outcome for _, outcome, _ in cases)
    return int(counts[DIFFERS] > 0 or counts[SAME] < 0.9 * len(cases))


def main(argv):
    parser = argparse.ArgumentParser(prog="python -m tests.live.verify_all", description=__doc__)
    parser.add_argument("--server", type=Path, help="llama-server (default: the pinned build)")
    parser.add_argument("--profile", default="llama_cpp@b11549", help="its rule set")
    parser.add_argument("--models", type=Path, default=build.cache() / "models")
    parser.add_argument("--jobs", type=int, default=2)
    args = parser.parse_args(argv)
    try:
        server = args.server or build.server_of(args.profile.partition("@")[2])
    except build.Missing as why:
        print(why, file=sys.stderr)
        return 2
    args.models.mkdir(parents=True, exist_ok=True)
    each = load_each(find([corpus_root() / args.profile.partition("@")[0]]))
    scenarios = [one for one in each if not isinstance(one, BadInput)]
    with ThreadPoolExecutor(args.jobs) as pool:
        cases = list(pool.map(lambda one: look(one, args.profile, server, args.models), scenarios))
    for name, outcome, why in cases:
        if outcome != SAME:
            print(f"{name:42} {outcome:10} {why}")
    print(f"{len(cases)} scenarios on the real server: {dict(Counter(outcome for _, outcome, _ in cases))}")
    return code_of(cases)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
