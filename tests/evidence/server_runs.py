"""Outcomes that occur in scenarios run by an unmodified real server, and whether its output refutes another answer.

The outputs are in scenarios/evidence, a file per build.
"""

from __future__ import annotations

import json
from collections import Counter
from functools import cache

from cachesim.engines.build_names import resolve_name
from cachesim.engines.registry import profiles, rules_of
from cachesim.engines.rule_outcomes import TooManyDecisions, limit_decisions, replace_outcome, report_outcomes
from cachesim.judging.evidence import ENDLESS
from cachesim.judging.judged_run import run_judged
from cachesim.scenarios.load import load
from tests.evidence.digests import of_case
from tests.evidence.search import Found
from tests.evidence.survey import variants
from tests.shared import ROOT

FOLDER = ROOT / "scenarios" / "evidence"


def engines():
    """Return the engines of which there are outputs."""
    stored = (json.loads(file.read_text("utf-8"))["scenarios"].values() for file in FOLDER.glob("*.json"))
    return {one.get("profile", "").partition("@")[0] for scenarios in stored for one in scenarios}


def stored_runs(only=None, engine=""):
    """Yield (file, file of the scenario, output) of every output that matches the current scenario. ``only``: a file
    and the name of a scenario; ``engine``: "" = of all."""
    files = {file.stem: file for file in (ROOT / "scenarios").rglob("*.toml")}
    for file in sorted(FOLDER.glob("*.json")):
        for name, one in sorted(json.loads(file.read_text("utf-8"))["scenarios"].items()):
            wanted = only in (None, (file, name)) and (not engine or one.get("profile", "").startswith(f"{engine}@"))
            case = files.get(name) if wanted else None
            fresh = case and of_case(case) == one["scenario"]
            profile = rule_set(one["profile"]) if fresh and one.get("as_simulated") else ""
            if profile:
                yield file, case, {**one, "profile": profile}


@cache
def runs(engine):
    """Return (file, scenario, output) of every output of an engine that matches the current scenario and its
    simulation."""
    return [(file, load(case), one) for file, case, one in stored_runs(engine=engine)
            if first_difference(load(case), one, None) is None]


def rule_set(profile):
    """Return the rule set of a stored profile: itself, or the one composed of the rules that are dated before its
    build, whose name follows the dates of the rules; "" if there is none."""
    if profile in profiles():
        return profile
    found = resolve_name(profile)
    return "" if found is None else found.profile


def first_difference(scenario, stored, rules):
    """Return the first request in which a simulated run differs from the real server, None if there is no
    difference."""
    run = run_judged(scenario, stored["profile"], "provenance", table=rules, with_ledger=False)
    for theirs in stored["requests"]:
        ours = run.requests[theirs["n"]]
        counts = {name: theirs[name] for name in ("cache_n", "prompt_n") if theirs.get(name) is not None}
        if any(getattr(ours.answer, name) != n for name, n in counts.items()):
            return theirs["n"]
        if theirs.get("status", 200) != ours.answer.status or ("died" in theirs) != bool(ours.answer.died):
            return theirs["n"]
        if "differs" in theirs and (ours.judged.answer.equal_cold is False) != theirs["differs"]:
            return theirs["n"]
    return None


@cache
def met(engine):
    """Return the alternative answers to each outcome of an engine that occurs in these runs, with the runs; and the
    number of decisions in each run."""
    found, asked = {}, Counter()
    for number, (_, scenario, stored) in enumerate(runs(engine)):

        def hear(outcome, others, number=number):
            asked[number] += 1
            for other in others:
                found.setdefault((engine, outcome, other), {})[number] = None

        rules = report_outcomes(rules_of(stored["profile"]), variants(engine), hear)
        run_judged(scenario, stored["profile"], "provenance", table=rules, with_ledger=False)
    return found, asked


def refuting_request(pair, place, name):
    """Return the request of a scenario in which the output of the real server, stored in the file ``place``, disagrees
    with an alternative answer."""
    engine, outcome, other = pair
    [(_, case, stored)] = stored_runs((place, name))
    scenario = load(case)
    asked = Counter()

    def hear(*_):
        asked["decisions"] += 1

    rules = report_outcomes(rules_of(stored["profile"]), variants(engine), hear)
    run_judged(scenario, stored["profile"], "provenance", table=rules, with_ledger=False)
    rules = replace_outcome(rules_of(stored["profile"]), variants(engine), outcome, other)
    return first_difference(scenario, stored, limit_decisions(rules, ENDLESS * asked["decisions"]))


def search(pair):
    """Return the first output of a real server that disagrees with an alternative answer, None if all agree."""
    engine, outcome, other = pair
    others, asked = met(engine)
    for number in others.get(pair, ()):
        file, scenario, stored = runs(engine)[number]
        rules = replace_outcome(rules_of(stored["profile"]), variants(engine), outcome, other)
        rules = limit_decisions(rules, ENDLESS * asked[number])
        try:
            wrong = first_difference(scenario, stored, rules)
        except (Exception, TooManyDecisions):   # the simulated server fails: inadmissible here
            continue
        if wrong is not None:
            return Found(engine, outcome, other, file, wrong, f"scenario {scenario.id}")
    return None
