"""``bisect`` for engines whose rule sets have no dates, or no order at all, and for rule files."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from cachesim.base import exits
from cachesim.cli.main import main
from cachesim.engines import registry
from cachesim.engines.build_names import builds_in_order, main_branch, without_place
from cachesim.engines.shared.timeline import Commit, Timeline
from tests.fourth.conftest import install
from tests.shared import forget_engines

OLD, MIDDLE, NEW = LINE = "blockpool@0.15.1", "blockpool@0.20.2", "blockpool@0.33.0"
TWINS = "A36.B9/A.C9{together}"
DAY = Commit(0, "2026-01-01")
UNDATED, ONE_DATED = Timeline(), Timeline(own={OLD: DAY})
FIXED = "reuses 32, output correct at blockpool@0.20.2\n      by guard BP-GUARD.NONE -> BP-GUARD.STEP"

# Rule sets, the line, the dates, and: exit code, rule sets without a place, and texts of the report.
ENGINES = {
    "one rule set in a line": ((NEW,), (NEW,), UNDATED, 3, (), ("not compared: the engine has a single rule set",)),
    "one rule set without a line": ((NEW,), (), UNDATED, 3, (NEW,),
                                    (f"not ordered (without a date and a base): {NEW}",)),
    "without a line": (LINE, (), UNDATED, 3, LINE, (f"not ordered: reuses 32, WRONG OUTPUT at {OLD}",
                                                    f"not ordered: reuses 32, output correct at {NEW}")),
    "a line of one": (LINE, (OLD,), UNDATED, 3, (MIDDLE, NEW), (f"reuses 32, WRONG OUTPUT at {OLD}",
                                                                f"not ordered: reuses 32, output correct at {NEW}")),
    "a line of two": (LINE, (OLD, MIDDLE), UNDATED, 0, (NEW,),
                      (FIXED, f"not ordered (without a date and a base): {NEW}")),
    "a line without dates": (LINE, LINE, UNDATED, 0, (), (FIXED,)),
    "the first has a date": (LINE, LINE, ONE_DATED, 0, (), (FIXED,)),
    "the last has a date": (LINE, LINE, Timeline(own={NEW: DAY}), 0, (), (FIXED,)),
    "two have the same date": (LINE, LINE, Timeline(own={OLD: DAY, NEW: DAY}), 0, (), (FIXED,)),
    "a date outside the line": (LINE, (OLD, MIDDLE), Timeline(own={NEW: DAY}), 0, (NEW,), (FIXED,)),
}  # fmt: skip


@pytest.mark.parametrize("kind", ENGINES)
def test_rule_sets_without_a_date_are_run_and_named(engine, monkeypatch, tmp_path, capsys, kind):
    names, line, when, code, alone, told = ENGINES[kind]
    profiles = {name: engine.profiles[name] for name in names}
    install(monkeypatch, tmp_path, replace(engine, profiles=profiles, line=line, when=when))
    argv = ["bisect", TWINS, "--model", "GA", "-p", names[-1]]
    assert main([*argv, "-v"]) == code
    out, err = capsys.readouterr()
    assert err == "" and all(text in out for text in told), out
    assert main(argv) == code
    answer = capsys.readouterr().out
    assert all(text in answer for text in told if text.startswith("not ordered")), answer
    assert ("by guard BP-GUARD.NONE -> BP-GUARD.STEP" in answer) == (FIXED in told)
    assert main([*argv, "--json"]) == code
    found = json.loads(capsys.readouterr().out)
    assert sorted(found["unordered"]) == sorted(alone)
    for request in found["requests"]:
        assert {one["profile"] for one in request["outcomes"]} == set(names)
        assert all(one["status"] == 200 for one in request["outcomes"])
        assert not {turn["new"] for turn in request["turns"]} & set(alone)


@pytest.mark.parametrize("dated", [(), (OLD,), (MIDDLE,), (NEW,), (OLD, NEW), (MIDDLE, NEW)])
def test_a_rule_set_without_a_date_keeps_its_place(engine, monkeypatch, tmp_path, dated):
    days = {name: Commit(0, f"2026-01-0{LINE.index(name) + 1}") for name in dated}
    there = replace(engine, when=Timeline(own=days))
    install(monkeypatch, tmp_path, there)
    assert builds_in_order(there) == list(LINE) and without_place(there) == []
    assert [rules.name for rules in main_branch(there).line] == list(dated)


def rule_file(folder, base):
    """Write a rule file with a copy of a rule set; return its path."""
    file = folder / "my_rules.py"
    file.write_text(f"from dataclasses import replace\nfrom cachesim.engines.registry import rules_of\n\n"
                    f"MINE = replace(rules_of({base!r}), name={base.partition('@')[0] + '@mine'!r})\n")  # fmt: skip
    return str(file)


@pytest.mark.parametrize("name", [*registry.BUILTIN, "blockpool", "blockpool without a line"])
def test_a_rule_file_is_compared_for_every_engine(engine, monkeypatch, capsys, tmp_path, name):
    name, *bare = name.split(" ", 1)
    forget_engines(monkeypatch)
    if name == engine.name:
        install(monkeypatch, tmp_path / "package", replace(engine, line=()) if bare else engine)
    there = registry.ENGINES[name]
    base = there.newest or next(iter(there.profiles))
    assert main(["bisect", "A9/A", "--model", "A", "-p", rule_file(tmp_path, base)]) == exits.HOLDS
    out, err = capsys.readouterr()
    assert err == "" and f"{name}@mine: same outcomes as {name}@" in out
