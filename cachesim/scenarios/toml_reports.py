"""Reader of the tables ``[[report]]`` of a scenario file: the reported bugs that the scenario shows."""

from __future__ import annotations

from typing import Sequence

from cachesim.base.errors import nearest, quoted
from cachesim.engines.registry import engine_named
from cachesim.engines.rule import about
from cachesim.engines.rule_outcomes import graded_rules
from cachesim.scenarios.schema import PARTLY, STRICT, BugReport
from cachesim.scenarios.toml_requests import TomlTable

_KEYS = ("entry", "rule", "fault", "fixed", "request", "claim", "lacks")


def read_reports(top: TomlTable, profiles: Sequence[str], n_steps: int, engine: str) -> tuple[BugReport, ...]:
    """Return the tables ``[[report]]``, () if there are none. ``profiles``: the profiles of the file. Raise
    BadInput."""
    tables = top.tables("report") if "report" in top.raw else []
    return tuple(_report(table, profiles, n_steps, engine) for table in tables)


def _report(table: TomlTable, profiles: Sequence[str], n_steps: int, engine: str) -> BugReport:
    table.only(_KEYS)
    number = table.integer("request", None, low=0)
    claim = table.text("claim")
    lacks = table.text("lacks", "")
    if number >= n_steps:
        raise table.fault(f"unknown request {number}", "request", f"0 to {n_steps - 1}")
    if claim not in (STRICT, PARTLY):
        raise table.fault(f"unknown claim {quoted(claim)}", "claim", f"{STRICT} or {PARTLY}")
    if (claim == PARTLY) != bool(lacks.strip()):
        raise table.fault(f'lacks belongs to claim = "{PARTLY}", which needs it', "lacks" if lacks else "claim")
    fault, fixed = (_profile(table, key, profiles) for key in ("fault", "fixed"))
    if fault == fixed:
        raise table.fault(f"fault and fixed are both {quoted(fault)}", "fixed")
    rule = table.text("rule", "" if claim == PARTLY else None)
    if rule:
        _check_rule(table, rule, fault, engine)
    return BugReport(table.text("entry"), rule, fault, fixed, number, claim, lacks)


def _profile(table: TomlTable, key: str, profiles: Sequence[str]) -> str:
    name = table.text(key)
    if name not in profiles:
        raise table.fault(f"{key} is {quoted(name)}, which is not in profiles", key,
                          nearest(name, profiles) or ", ".join(profiles))  # fmt: skip
    return name


def _check_rule(table: TomlTable, rule: str, fault: str, engine: str) -> None:
    """Raise BadInput unless the rule set ``fault`` has this rule, or one of this family. Accepts any rule of a rule set
    that is not registered, as one of a file of rules."""
    rules = engine_named(engine).profiles.get(fault)
    if rules is None:
        return
    ids = [about(fn).id for fn in graded_rules(rules).values()]
    if not any(name == rule or name.startswith(f"{rule}.") for name in ids):
        families = [name.partition(".")[0] for name in ids]
        raise table.fault(f"{fault} has no rule {quoted(rule)}", "rule", nearest(rule, [*ids, *families]))
