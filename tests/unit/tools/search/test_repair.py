"""Tests of ``cachesim repair``: groups of failures by cure, and prices of changes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from cachesim.base import exits
from cachesim.cli.main import main
from cachesim.judging.rule_exchange import RuleVariant
from cachesim.tools.search.property_failure import SIMULATOR, PropertyFailure
from cachesim.tools.search.repair import RepairResults, groups, numbers, repair_data
from cachesim.tools.search.rule_mutations import ChangePrice, CureTrial, MutationRun, MutationSearch
from tests.shared import ROOT

REPAIRS = Path(__file__).resolve().parents[4] / "scenarios" / "llama_cpp" / "repairs"
LATEST, REPAIRED = "llama_cpp@b11549", "llama_cpp@b11549-repaired"
FREE = ChangePrice({"A": 100}, {"A": 100}, 0)
FAULTY = "ik_llama@1889-base"
DRAWN = ("repair", FAULTY, "--model", "GA", "--examples", "4", "--seed", "3")


def call(capsys, *argv):
    code = main([*map(str, argv)])
    got = capsys.readouterr()
    return code, got.out, got.err


def failed(number, *cures):
    found = (PropertyFailure("survives", 0, "", {"error": "it: 3"}),)
    return CureTrial(MutationRun(number, "A", 10, found), frozenset(cures))


def test_the_change_that_cures_most_comes_first_and_each_failure_is_in_one_group():
    tried = [failed(0, 1, 2), failed(1, 2), failed(2, 1, 3), failed(3, 1, 3, 4), failed(4)]
    found = list(groups(tried, dict.fromkeys(range(5), FREE)))
    assert [(one.change, len(one.cured)) for one in found] == [(1, 3), (2, 1)]
    assert found[0].others == ((3, 2), (2, 1), (4, 1))


KNOWN = tuple(RuleVariant(f"field{i}", "R.1", f"R.{i}", f"x@{i}") for i in range(4))


def test_the_data_of_a_repair():
    """Two failures have a cure, one only a pair; two conversations are correct, one of them undecided."""
    tried = [failed(0, 1, 2), failed(1, 1), failed(2)._replace(pairs=((2, 3),))]
    runs = [*(one.run for one in tried), MutationRun(3, "A", 10, ()), MutationRun(4, "A", 10, None)]
    dear = ChangePrice({"R": 100, "A": 100}, {"R": 150, "A": 100}, 2)
    found = RepairResults(MutationSearch(LATEST, ("survives",)), 7, 0, KNOWN, runs, tried, {1: FREE, 2: dear},
                          list(groups(tried, {1: FREE, 2: dear})), dear, 1)  # fmt: skip
    data = repair_data(found)
    assert {name: data[name] for name in ("profile", "seed", "properties", "files", "examples", "right", "undecided",
                                          "failing", "tried")} == {
        "profile": LATEST, "seed": 7, "properties": ["survives"], "files": 0, "examples": 5, "right": 1,
        "undecided": 1, "failing": 3, "tried": 4}  # fmt: skip
    [group] = data["groups"]
    assert (group["field"], group["new"], group["failures"]) == ("field1", "R.1", 2)
    assert (group["cost"], group["broken"]) == (0.0, 0)
    assert (group["conversation"], group["conversations"]) == ("0", ["0", "1"])
    assert group["findings"] == [{"property": "survives", "rule": "it", "times": 2}]
    [other] = group["others"]
    assert (other["field"], other["cures"], other["cost"], other["broken"]) == ("field2", 1, 0.25, 2)
    assert other["kinds"] == {"A": {"before": 100, "after": 100, "cost": 0.0},
                              "R": {"before": 100, "after": 150, "cost": 0.5}}  # fmt: skip
    [left] = data["uncured"]
    assert (left["conversation"], left["property"], left["text"]) == ("2", "survives", "it: 3")
    assert [[one["field"] for one in pair] for pair in left["pairs"]] == [["field2", "field3"]]
    assert (data["together"]["held"], data["together"]["cost"]) == (1, 0.25)
    assert repair_data(RepairResults(found.search, 7, 0, KNOWN, runs))["together"] is None
    assert found.has_crashed is False and found.uncured == [tried[2]]


def test_one_that_breaks_or_costs_too_much_for_a_kind_is_the_last_choice():
    dear = ChangePrice({"A": 900, "R": 100}, {"A": 900, "R": 103}, 0)
    breaks = ChangePrice({"A": 100}, {"A": 90}, 1)
    tried = [failed(0, 1, 2, 3), failed(1, 1, 2), failed(2, 1)]
    found = list(groups(tried, {1: breaks, 2: dear, 3: FREE}))
    assert [one.change for one in found] == [3, 2, 1]
    cheap = ChangePrice({"A": 100}, {"A": 99}, 0)
    assert next(groups(tried[:1], {1: FREE, 2: cheap, 3: FREE})).change == 2


def test_a_price_counts_conversations_that_no_change_touches_as_they_were():
    runs = [MutationRun(n, "A", 10, (), {n: 1}) for n in range(3)]
    found = RepairResults(MutationSearch(LATEST, ()), 0, 0, (), runs)
    assert found.touched([1, 2]) == [1, 2]
    assert found.price([MutationRun(1, "A", 15, ())]) == ChangePrice({"A": 30}, {"A": 35}, 0)


def test_with_files_the_drawn_conversations_only_tell_the_price():
    fails = (PropertyFailure("survives", 0, "", {}),)
    runs = [MutationRun(n, "A", 10, fails if n in (0, 2) else ()) for n in range(4)]
    found = RepairResults(MutationSearch(LATEST, ()), 0, 2, (), runs)
    assert [one.source for one in found.failing] == [0]
    assert [one.source for one in found.right] == [1, 3]


@pytest.mark.parametrize(("files", "change", "cost", "others"), [
    (["draft-length"], "draft_max", 0.0, {"slots_open": 0.01875, "spec_batch": 0.0}),
    (["draft-length", "cache-reuse-recurrent"], "slots_open", 0.01875, {"draft_max": 0.0, "end": -0.00625}),
])  # fmt: skip
def test_the_change_that_cures_most_is_chosen_at_its_price_and_proved(capsys, files, change, cost, others):
    """Two drawn conversations that are correct, of 160 evaluated tokens, tell the prices. With a single slot, which
    cures both files, 163 tokens are evaluated."""
    paths = [REPAIRS / f"llama-repair-{name}.toml" for name in files]
    code, out, _ = call(capsys, "repair", LATEST, *paths, "--examples", "2", "--model", "A", "--no-shrink", "--json")
    data = json.loads(out)
    [group] = data["groups"]
    assert (code, data["schema"], data["failing"], data["uncured"]) == (exits.BROKEN, 1, len(files), [])
    assert (group["field"], group["failures"], group["cost"], group["broken"]) == (change, len(files), cost, 0)
    assert others.items() <= {one["field"]: one["cost"] for one in group["others"]}.items()
    assert (data["together"]["held"], data["together"]["cost"]) == (len(files), cost)


@pytest.mark.long
def test_drawn_conversations_are_grouped_priced_and_shown_within_80_columns(capsys):
    code, out, _ = call(capsys, *DRAWN)
    assert code == exits.BROKEN
    lines = out.splitlines()
    assert max(len(line) for line in lines if not line.startswith(("cachesim run ", "source "))) <= 80
    assert lines[0].startswith(f"{FAULTY}  seed 3, 4 conversations, ")
    assert "single changes cure" in lines[1] and ": IK-" in out and " -> " in " ".join(out.split())
    assert "all changes together: " in out and "--model GA" in out


@pytest.mark.long
def test_the_same_in_any_number_of_processes(capsys):
    one = call(capsys, *DRAWN, "--no-shrink", "--json")
    assert one[0] == exits.BROKEN
    assert call(capsys, *DRAWN, "--no-shrink", "--json", "-j", "2") == one


def test_a_rule_set_that_holds_has_nothing_to_repair(capsys):
    code, out, _ = call(capsys, "repair", REPAIRED, "--model", "GA", "--examples", "1")
    assert code == exits.HOLDS
    assert "nothing to repair: no failure of warm-equals-cold, stored-equals-cold, survives" in out


@pytest.mark.long
def test_what_no_single_change_cures_is_listed(capsys):
    """A context shift ends the process if every layer has a window; two changes together cure it."""
    [file] = (Path(__file__).resolve().parents[4] / "scenarios").rglob("llama-context-shift-assertion-window.toml")
    code, out, _ = call(capsys, "repair", LATEST, file, "--examples", "0")
    assert code == exits.BROKEN
    assert "no single change cures 1" in out
    assert "\n-  survives: GGML_ASSERT(buffer) failed" in out and "cured by kv_shift: " in out


@pytest.mark.parametrize(("argv", "says"), [
    (("unknown@x",), "unknown profile"),
    ((LATEST, "--property", "warm"), "unknown property"),
    ((LATEST, "--examples", "0"), "must be at least 1"),
    ((LATEST, "--model", "Q"), "unknown model for this engine"),
    ((LATEST, "no-such-file"), "no-such-file"),
    (("mlx_lm@d78bf58e", REPAIRS), "no scenario for mlx_lm"),
])  # fmt: skip
def test_bad_input_is_one_line(capsys, argv, says):
    code, out, err = call(capsys, "repair", *argv)
    assert (code, out) == (exits.BAD_INPUT, "")
    assert says in err and len(err.splitlines()) <= 2


def test_conversations_of_a_seed():
    assert list(numbers(2, 3)) == [2 << 32, (2 << 32) + 1, (2 << 32) + 2]


RULES = """
from dataclasses import replace
from cachesim.engines.llama_cpp.profiles import NEWEST, PROFILES
from cachesim.engines.rule import Decision, Role, rule


@rule("MY-SHIFT", Role.MEMORY, "an idea of mine")
def skips() -> Decision:
    '''Nothing is turned where there are no layers. Value: does the process end?'''
    return Decision(0, {})


MINE = replace(PROFILES[NEWEST], name="llama_cpp@mine", kv_shift=skips)
"""


def test_rules_of_a_file_are_tried_too(tmp_path):
    """Runs in a separate process: rules stay registered."""
    (tmp_path / "mine.py").write_text(RULES)
    words = [sys.executable, "-m", "cachesim", "repair", LATEST,
        str(REPAIRS / "llama-repair-shift-without-layers.toml"), "-p", "mine.py",
             "--examples", "0", "--no-shrink", "--json"]  # fmt: skip
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False, env=env)
    assert (done.returncode, done.stderr) == (exits.BROKEN, "")
    [group] = json.loads(done.stdout)["groups"]
    assert "MY-SHIFT" in {group["new"], *(one["new"] for one in group["others"])}


def test_a_crash_of_the_simulator_is_one_of_the_failures():
    crash = MutationRun(3, "A", 10, (PropertyFailure(SIMULATOR, 0, "", {}),))
    runs = [failed(0).run, MutationRun(1, "A", 10, ()), crash]
    assert RepairResults(MutationSearch(LATEST, ()), 0, 0, (), runs).has_crashed is True
    assert RepairResults(MutationSearch(LATEST, ()), 0, 0, (), runs[:2]).has_crashed is False
