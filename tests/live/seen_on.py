"""``python -m tests.live.seen_on``: writes scenarios/SEEN_ON.txt from the stored results of the wheels.

A fault shows on a build if the real server answered as the simulator, and the simulator finds a wrong or missing
answer, or tokens that are evaluated again.
"""

from __future__ import annotations

import sys
from collections import Counter

from cachesim.base.files import write_whole
from cachesim.engines.build_names import resolve_name
from cachesim.engines.registry import profiles
from cachesim.judging.judged_run import run_judged
from cachesim.scenarios.corpus import corpus_files, corpus_root
from cachesim.scenarios.load import load
from cachesim.scenarios.real_builds import SEEN_ON
from tests.evidence.digests import of_case
from tests.live.real_scenarios import EQUAL, FOLDER, state_of, stored


def builds():
    """Return the builds with stored results, the oldest first."""
    names = [file.stem.removeprefix("wheel-") for file in FOLDER.glob("wheel-b*.json")]
    return sorted(names, key=lambda name: int(name[1:]))


def shows(scenario, profile):
    """True if the simulator finds a fault in a scenario under a rule set."""
    if profile not in profiles():
        resolve_name(profile)
    run = run_judged(scenario, profile, "provenance")
    return bool(run.broken) or any(one.answer.died or one.ledger.charges for one in run.requests)


def lines():
    """Return the lines of the file: a count for each build, then the scenarios."""
    counts, seen, files = [], {}, corpus_files()
    for build in builds():
        results = stored(build)
        states = Counter(state_of(entry) for entry in results.values())
        counts.append(f"{build}: " + " ".join(f"{state.replace(' ', '-')}={n}" for state, n in sorted(states.items())))
        for name, entry in results.items():
            if state_of(entry) == EQUAL and name in files and of_case(files[name]) == entry["scenario"]:
                mark = "+" if shows(load(files[name]), entry["profile"]) else "-"
                seen.setdefault(name, []).append(f"{build}{mark}")
    return [*counts, *(f"{name}: {' '.join(found)}" for name, found in sorted(seen.items()))]


def main():
    write_whole(corpus_root() / SEEN_ON, ("\n".join(lines()) + "\n").encode())
    return 0


if __name__ == "__main__":
    sys.exit(main())
