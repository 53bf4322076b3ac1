"""Outcomes that occur in recordings, and whether each recording refutes another answer."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import count
from pathlib import Path

from cachesim.base import limits
from cachesim.base.errors import BadInput, Crash
from cachesim.engines.registry import BUILTIN, profiles, rules_of
from cachesim.engines.rule_outcomes import Outcome, replace_outcome, report_outcomes, variants_of
from cachesim.replay.recorded_trace import read_trace
from cachesim.replay.replay import replay
from cachesim.tools.replay.command import checker

ORDERS = 40              # orders of concurrent requests to try with an alternative answer
ASKED = 100              # decisions allowed per recorded event: an alternative answer may cause an endless loop
DECISION, VERDICT = "decision", "verdict"


@dataclass(frozen=True)
class Survey:
    """Recording with its outcomes."""

    file: Path
    engine: str
    agrees: bool                             # every decision of the simulation is the recorded decision
    groups: bool                             # some requests were sent together
    wrong: bool                              # an answer differs from a cold run, or the server died
    size: int                                # bytes
    met: dict[Outcome, frozenset[str]]       # alternative answers to each outcome that occurs


@cache
def variants(engine):
    """Return the rules of all built-in rule sets, by field."""
    return variants_of(BUILTIN[engine].profiles.values())


def survey(file):
    """Replay a recording by positions and record the possible answers of its outcomes."""
    try:
        trace = read_trace(file, profiles())
    except BadInput:
        return None
    engine = trace.profile.partition("@")[0]
    if trace.out or engine not in BUILTIN:
        return None
    met = {}

    def hear(outcome, others):
        met.setdefault(outcome, set()).update(others)

    rules = report_outcomes(rules_of(trace.profile), variants(engine), hear)
    try:
        found = replay(trace, table=rules)
    except BadInput:                          # a model that this build cannot load
        return None
    agrees = found.first is None and found.steps_agree + found.steps_undecided == found.steps
    groups = any(len(step.members) > 1 for step in trace.steps)
    wrong = bool(trace.inexact) or any(step.died for step in trace.steps)
    return Survey(file, engine, agrees and found.steps_agree > 0, groups, wrong, file.stat().st_size,
                  {outcome: frozenset(others) for outcome, others in met.items()})


def disagrees(file, outcome, alternative, mode):
    """Return the first step at which a recording differs with the alternative answer, and whether a decision or a
    verdict differs; None if nothing differs. Raise any exception of the simulated server."""
    trace = read_trace(file, profiles())
    engine = trace.profile.partition("@")[0]
    rules = replace_outcome(rules_of(trace.profile), variants(engine), outcome, alternative)
    classes = trace.classes["steps"] if trace.classes else ()
    events = sum(len(step.events) for step in trace.steps) + sum(len(step.get("ev", ())) for step in classes)
    left = count(ASKED * (100 + events), -1)

    def asked(outcome, others):
        if not next(left):
            raise Crash("the server gets nowhere")

    rules = report_outcomes(rules, {}, asked)
    limits.ORDERS.now = ORDERS
    try:
        found = replay(trace, mode, checker(), rules, brief=True)
    finally:
        limits.ORDERS.now = limits.ORDERS.value
    if found.unsearched is not None:
        return None
    if found.first is not None or found.differing:
        return (found.first or {"step": found.differing[0]})["step"], DECISION
    if mode == "none" or found.verdicts_agree in (None, found.steps) or not judged_alike(file):
        return None
    if trace.classes is not None:
        return next(number for number, agrees in found.verdicts.items() if not agrees), VERDICT
    return trace.steps[found.verdicts_agree].number, VERDICT


@cache
def judged_alike(file):
    """True if our verdicts are the recorded verdicts without any change."""
    found = replay(read_trace(file, profiles()), "provenance", checker())
    return found.first is None and found.verdicts_agree == found.steps
