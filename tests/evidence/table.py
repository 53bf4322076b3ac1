"""Conversion of findings into the stored table, and back into the recordings to try first."""

from __future__ import annotations

import json

from cachesim.base.files import write_whole
from cachesim.engines.registry import BUILTIN
from cachesim.engines.rule_outcomes import Outcome, graded_rules
from cachesim.judging.evidence import (
    Grade,
    GradedOutcome,
    GradeTable,
    path_of_table,
    released_rules,
    rules_between,
    table_of,
)
from tests.evidence import digests, peer_runs
from tests.evidence.search import Found
from tests.shared import ROOT

KEPT_HERE = ("tests/data/", "tests/unit/", "scenarios/")
COMPARED = "tests/unit/"                # answers of released code, stored for the unit tests


def rules_of_engine(engine):
    """Return all rules of the built-in rule sets and between them, by id."""
    own = {fn.rule: fn for rules in BUILTIN[engine].profiles.values() for fn in graded_rules(rules).values()}
    return rules_between(engine) | own


def met(surveys, engine):
    """Return the alternative answers to each outcome that occurs in a recording on which the simulation agrees, by
    outcome."""
    found = {}
    for one in surveys:
        if one.agrees and one.engine == engine:
            for outcome, others in one.met.items():
                found.setdefault(outcome, set()).update(others)
    return found


def made(engine, occurs, found, traces):
    """Return the table of an engine."""
    graded, used = {}, set()
    for outcome in occurs:
        mine = [one for one in found if one.outcome == outcome]
        seen = {one.other: _where(one, traces) for one in mine if one.file}
        used |= {one.file for one in mine if one.file}
        unseen = tuple(one.other for one in mine if not one.file and not one.crashes)
        crashes = tuple(one.other for one in mine if one.crashes)
        graded[outcome] = GradedOutcome(_grade(engine, outcome, mine), seen, unseen, crashes)
    code = {name: digests.of_rule(rule) for name, rule in rules_of_engine(engine).items()}
    return GradeTable(graded, code, {_name(file, traces): digests.of_file(file) for file in used})


def _grade(engine, outcome, found):
    """Return the grade of an outcome: seen if an alternative answer fails anywhere."""
    files = [one.file for one in found if one.file]
    if files:
        compared = engine == peer_runs.ENGINE or files[-1].is_relative_to(ROOT / COMPARED)
        return Grade.COMPARED if compared else Grade.RECORDED
    return Grade.READ if outcome.rule in released_rules(engine) else Grade.OURS


def _name(file, traces):
    return file.relative_to(traces if file.is_relative_to(traces) else ROOT).as_posix()


def _where(found, traces):
    """Return the place that refutes an answer, as a line."""
    unit = "request" if found.what.startswith("scenario") else "step"
    return f"{_name(found.file, traces)} {found.what}" + (f" at {unit} {found.step}" if found.step >= 0 else "")


def file_of(where, traces):
    """Return the file of such a line."""
    name = where.partition(" ")[0]
    return ROOT / name if name.startswith(KEPT_HERE) else traces / name


def known(traces):
    """Return the recording that refuted each pair last time."""
    return {
        (engine, outcome, other): file_of(where, traces)
        for engine in BUILTIN if (table := table_of(engine)) for outcome, one in table.graded.items()
        for other, where in one.seen.items()
    }


def key(pair):
    """Return the journal key of a pair, which includes the digest of its rule."""
    rule = rules_of_engine(pair.engine).get(pair.outcome.rule)
    return pair.engine, *pair.outcome, pair.other, digests.of_rule(rule)


def line(found, traces):
    """Return a line of the journal."""
    name = found.file and _name(found.file, traces)
    return [*key(found), name, found.step, found.what, found.crashes]


def journal(file, traces):
    """Return the findings of an interrupted run, by key."""
    lines = file.read_text("utf-8").splitlines() if file.exists() else []
    found = {}
    for engine, rule, case, other, code, name, *rest in map(json.loads, lines):
        one = Found(engine, Outcome(rule, case), other, name and file_of(name, traces), *rest)
        found[engine, rule, case, other, code] = one
    return found


def write_table(engine, table):
    """Store the grades of an engine, sorted."""
    rules = {rule: {"code": code, "cases": {}} for rule, code in sorted(table.code.items())}
    for outcome, one in sorted(table.graded.items()):
        case = {"grade": one.grade}
        case |= {"seen": dict(sorted(one.seen.items()))} if one.seen else {}
        case |= {name: sorted(names) for name in ("unseen", "inadmissible") if (names := getattr(one, name))}
        rules[outcome.rule]["cases"][outcome.case] = case
    data = {"rules": rules, "recordings": dict(sorted(table.recordings.items()))}
    write_whole(path_of_table(engine), (json.dumps(data, indent=1) + "\n").encode())
    table_of.cache_clear()
