"""``python -m tests.live.seen_on``: writes scenarios/SEEN_ON.txt from the stored results of the wheels.

A fault shows on a build if the real server answered as the simulator, and the simulator finds what the scenario's
symptom says: a wrong or missing answer, or tokens that are evaluated again.
"""

from __future__ import annotations

import sys
from collections import Counter

from cachesim.base.files import write_whole
from cachesim.judging.judged_run import run_judged
from cachesim.scenarios.corpus import corpus_files, corpus_root
from cachesim.scenarios.load import load
from cachesim.scenarios.real_builds import SEEN_ON
from tests.evidence.digests import of_case
from tests.evidence.server_runs import rule_set
from tests.live.evidence import RIGHT
from tests.live.real_scenarios import EQUAL, FOLDER, state_of, stored

WRONG = ("wrong-answer", "crash", "error")
"""Symptoms that are a wrong or missing answer; tokens that are evaluated again do not show such a fault."""


def builds():
    """Return the builds with stored results, the oldest first."""
    names = [file.stem.removeprefix("wheel-") for file in FOLDER.glob("wheel-b*.json")]
    return sorted(names, key=lambda name: int(name[1:]))


def shows(scenario, entry):
    """True if a fault of a scenario showed in a stored result: a wrong or missing answer of the real server where the
    simulator finds one, a refused action (a restore), or tokens that the simulator charges. None if the simulator finds
    a wrong answer that the real server did not give: it depends on when the requests arrive."""
    if scenario.symptom in (RIGHT, ""):
        return False
    run = run_judged(scenario, rule_set(entry["profile"]), "provenance")
    refused = [n for n in run.refused if scenario.steps[n].action is not None]
    if run.broken or (refused and scenario.symptom == "error") or any(one.answer.died for one in run.requests):
        return any(map(is_wrong, entry["requests"])) or None
    return scenario.symptom not in WRONG and any(one.ledger.charges for one in run.requests)


def is_wrong(request):
    """True if a stored request of a real server has no answer, an error, or another answer than a cold run."""
    answers = (request, *request.get("children", ()))
    return any(name in request for name in ("died", "stuck", "error")) or any(one.get("differs") for one in answers)


def lines():
    """Return the lines of the file: a count for each build, then the scenarios."""
    counts, seen, files = [], {}, corpus_files()
    for build in builds():
        results = stored(build)
        states = Counter(state_of(entry) for entry in results.values())
        counts.append(f"{build}: " + " ".join(f"{state.replace(' ', '-')}={n}" for state, n in sorted(states.items())))
        for name, entry in results.items():
            if state_of(entry) == EQUAL and name in files and of_case(files[name]) == entry["scenario"]:
                shown = shows(load(files[name]), entry)
                seen.setdefault(name, []).extend([] if shown is None else [f"{build}{'-+'[shown]}"])
    return [*counts, *(f"{name}: {' '.join(found)}" for name, found in sorted(seen.items()) if found)]


def main():
    write_whole(corpus_root() / SEEN_ON, ("\n".join(lines()) + "\n").encode())
    return 0


if __name__ == "__main__":
    sys.exit(main())
