"""``python -m tests.live.real_scenarios BUILD... [--ids ID...]``: scenarios of llama.cpp on real builds from the index.

Every scenario that a client can send runs on every build beside the simulator, with a tiny model of its layers. The
results are stored in ``scenarios/evidence/wheel-<build>.json``: the outcome of each request, and a digest of what was
sent. A stored result is kept while the scenario sends the same; ``--again`` repeats it. ``--changes`` runs a scenario
only on both sides of a change: on builds whose simulated outcome differs from that of a neighbouring wheel. The last
lines are a table: equal, different, undecided, not sent. Exit code 1 if a scenario differs.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from itertools import pairwise

from cachesim.base.errors import BadInput
from cachesim.judging.judged_run import run_judged
from cachesim.scenarios.corpus import corpus_files, corpus_root
from cachesim.scenarios.load import load
from cachesim.tools.live.llama_server.real.comparison import compare_case
from cachesim.tools.live.llama_server.real.real_server import find_servers, rule_set_of
from cachesim.tools.live.llama_server.real.wheels import WHEELS
from tests.evidence.digests import digest, of_case
from tests.live.evidence_file import entry_of, store

FOLDER = corpus_root() / "evidence"
EQUAL, DIFFERENT, UNDECIDED, NOT_SENT = "equal", "different", "undecided", "not sent"
STATES = {True: EQUAL, False: DIFFERENT, None: UNDECIDED}


def file_of(build):
    """Return the file with the results of a build."""
    return FOLDER / f"wheel-{build}.json"


def result_of(scenario, server):
    """Return the stored result of a scenario on a build: an entry, or why there is none."""
    try:
        compared = compare_case(scenario, server)
    except BadInput as bad:
        return {"scenario": of_case(scenario.file), "why": bad.cause}
    found = compared.found
    if found is None or found.recording is None:
        return {"scenario": of_case(scenario.file), "why": compared.left_out}
    entry = entry_of(scenario, server.profile, found.recording, compared.same)
    del entry["base_flags"]
    why = next((f"request {row.number}: {row.first or row.why or 'answer'}" for row in found.rows if not row.same), "")
    return {**entry, "sent": digest_of(found.recording), **({"why": why} if why else {})}


def digest_of(recording):
    """Return a digest of the flags and requests that a server received."""
    steps = [[one.get("flags"), *(member.get("request") for member in one.get("steps", [one]))]
             for one in recording["steps"]]  # fmt: skip
    return digest(json.dumps([recording["model"], recording["flags"], steps], sort_keys=True).encode())


def state_of(entry):
    """Return the state of a stored result."""
    return STATES[entry["as_simulated"]] if "requests" in entry else NOT_SENT


def stored(build):
    """Return the stored results of a build by scenario."""
    file = file_of(build)
    return json.loads(file.read_text("utf-8"))["scenarios"] if file.exists() else {}


def outcome(scenario, build):
    """Return the simulated outcome of each request under the rule set of a build; a text if it cannot be run."""
    profile, _ = rule_set_of(build)
    try:
        requests = run_judged(scenario, profile, "provenance", with_ledger=False).requests
    except BadInput as bad:
        return bad.cause
    return [(one.answer.status, one.answer.cache_n, one.answer.prompt_n, bool(one.answer.died), one.judged.equal_cold)
            for one in requests]  # fmt: skip


def beside_changes(scenario):
    """Return the builds whose simulated outcome differs from that of a neighbouring wheel."""
    outcomes = {wheel.build: outcome(scenario, wheel.build) for wheel in WHEELS}
    return {build for pair in pairwise(outcomes) if outcomes[pair[0]] != outcomes[pair[1]] for build in pair}


def run_all(scenarios, servers, again, only_changes):
    """Run scenarios on builds, store each result, and return the results by build and scenario."""
    results = {server.build: stored(server.build) for server in servers}
    for number, scenario in enumerate(scenarios):
        wanted = beside_changes(scenario) if only_changes else set(results)
        for server in [server for server in servers if server.build in wanted]:
            known = results[server.build].get(scenario.id)
            if again or known is None or known["scenario"] != of_case(scenario.file):
                results[server.build][scenario.id] = result_of(scenario, server)
                store(file_of(server.build), server.build, server.source, results[server.build])
        states = ", ".join(f"{build} {state_of(found[scenario.id])}" for build, found in results.items()
                           if scenario.id in found)  # fmt: skip
        print(f"{number + 1}/{len(scenarios)} {scenario.id}: {states}", flush=True)
    return results


def table(results):
    """Return the table: builds in rows, states in columns."""
    states = (EQUAL, DIFFERENT, UNDECIDED, NOT_SENT)
    lines = [f"{'build':8}" + "".join(f"{state:>11}" for state in states)]
    for build, found in results.items():
        counts = Counter(map(state_of, found.values()))
        lines.append(f"{build:8}" + "".join(f"{counts[state]:>11}" for state in states))
    return "\n".join(lines)


def chosen(ids):
    """Return the scenarios of llama.cpp with these ids, all without ids."""
    own = corpus_root() / "llama_cpp"
    files = [file for name, file in sorted(corpus_files().items()) if file.is_relative_to(own)]
    return [one for one in map(load, files) if not ids or one.id in ids]


def main(argv):
    parser = argparse.ArgumentParser(prog="python -m tests.live.real_scenarios", description=__doc__)
    parser.add_argument("builds", nargs="+", help="such as b11549; missing wheels are installed")
    parser.add_argument("--ids", nargs="+", default=[], help="scenarios (default: all of llama.cpp)")
    parser.add_argument("--changes", action="store_true", help="only builds beside a change of the simulated outcome")
    parser.add_argument("--again", action="store_true", help="repeat stored results")
    args = parser.parse_args(argv)
    servers = find_servers(",".join(args.builds), may_install=True)
    results = run_all(chosen(set(args.ids)), servers, args.again, args.changes)
    print(table(results))
    different = [f"{name} on {build}: {one['why']}" for build, found in results.items()
                 for name, one in sorted(found.items()) if state_of(one) == DIFFERENT]  # fmt: skip
    print("\n".join(different))
    return int(bool(different))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
