"""Tests of ``profiles`` and ``explain`` for the rules of every engine, with those of nested tables."""

from __future__ import annotations

import json

import pytest

from cachesim.base import exits
from cachesim.cli.main import main
from cachesim.engines import registry
from cachesim.engines.registry import ENGINES, profiles, rules_of
from cachesim.tools.rulebook import profiles_command
from tests.unit.tools.command_arguments import arguments
from tests.unit.tools.rulebook.toy_engine import with_toy_engine

MLX = ("mlx_lm@d78bf58e", "mlx_lm@pr1006a")


def printed(capsys, *argv):
    """What a command prints; it must succeed."""
    assert main([*argv]) == exits.HOLDS
    return capsys.readouterr().out


@pytest.mark.parametrize("profile", [*profiles()][::7])
def test_a_profile_is_shown_as_json(capsys, profile):
    shown = json.loads(printed(capsys, "profiles", "show", profile, "--json"))
    for name, value in rules_of(profile).fields().items():
        if callable(value):
            assert shown[name] == value.rule


def test_rules_of_inner_tables_are_fields_of_their_own():
    fields = rules_of("mlx_lm@d78bf58e").fields()
    assert fields["lru.hand_out"].rule == "ML-LRU-HAND.copy"
    assert fields["caches.state"].rule == "ML-STATE-SAVE.cut"
    assert not {"lru", "caches"} & fields.keys()


def test_show_prints_the_rules_of_inner_tables(capsys):
    out = printed(capsys, "profiles", "show", "mlx_lm@d78bf58e")
    assert "-- batchable" in out and "-- lru.hand_out" in out and "ML-LRU-HAND.copy" in out


def test_diff_of_inner_tables_names_rules_not_objects(capsys):
    fields = json.loads(printed(capsys, "profiles", "diff", *MLX, "--json"))["fields"]
    assert {"field": "caches.arrays_state", "a": "ML-STATE-ARRAYS.padded", "b": "ML-STATE-ARRAYS.slots"} in fields
    out = printed(capsys, "profiles", "diff", *MLX)
    assert "lru.victim" in out and "<function" not in out


@pytest.mark.parametrize("kit", ENGINES.values(), ids=ENGINES)
def test_any_two_neighbours_can_be_compared(capsys, kit):
    for pair in zip(kit.line, kit.line[1:], strict=False):
        for field in json.loads(printed(capsys, "profiles", "diff", *pair, "--json"))["fields"]:
            assert field["field"] not in ("build", "ended")


def test_profiles_of_two_engines_are_not_compared(capsys):
    assert main(["profiles", "diff", "llama_cpp@b10587", "ik_llama@main"]) == exits.BAD_INPUT
    assert "profiles of one engine" in capsys.readouterr().err


def test_explain_names_the_profiles_that_use_a_rule_of_an_inner_table(capsys):
    [rule] = json.loads(printed(capsys, "explain", "ML-LRU-HAND.copy", "--json"))["rules"]
    assert "mlx_lm@d78bf58e" in rule["profiles"] and "mlx_lm@pr923" not in rule["profiles"]


@pytest.mark.parametrize(("argv", "error"), [
    (["lst"], "did you mean 'list'?"), (["xyzzy"], "'xyzzy'"), (["show"], "1 name"),
    (["list", "mlx_lm@pr923"], "0 names"), (["diff", "mlx_lm@pr923"], "2 names"),
    (["show", "mlx_lm@pr1185"], "did you mean 'mlx_lm@pr1186'?"),
    (["diff", "mlx_lm@pr923", "mlx_lm@pr1185"], "did you mean 'mlx_lm@pr1186'?"),
    (["diff", "mlx_lm@pr923", "ik_llama@main"], "one engine"),
])  # fmt: skip
def test_a_wrong_use_is_one_line(capsys, argv, error):
    assert main(["profiles", *argv]) == exits.BAD_INPUT
    out, err = capsys.readouterr()
    assert out == "" and error in err and err.count("\n") == 1


def test_rule_sets_are_listed_in_their_order_with_the_newest_of_each_engine(capsys):
    data = json.loads(printed(capsys, "profiles", "list", "--json"))
    assert [row["name"] for row in data["profiles"]] == [*profiles()] and data["latest"] == dict(registry.latest())
    rows = {row["name"]: row for row in data["profiles"]}
    for name in ("mlx_lm@pr923", "llama_cpp@b10587"):
        rules = rules_of(name)
        assert (rows[name]["build"], rows[name]["source"]) == (rules.build, rules.source)
    table = printed(capsys, "profiles", "list").splitlines()
    assert all(any(line.split()[:1] == [name] for line in table) for name in ("mlx_lm@pr923", "vllm@0.33.0"))


def test_the_text_of_a_rule_set_has_a_section_for_each_rule(capsys, monkeypatch):
    with_toy_engine(monkeypatch)
    lines = printed(capsys, "profiles", "show", "toy@3").splitlines()
    assert lines[0].split()[0] == "toy@3"
    assert [line.split()[:2] for line in lines if line.startswith("--")] == [["--", "keep"], ["--", "count_rule"]]
    assert [line.split()[0] for line in lines if line.startswith("TOY-")] == ["TOY-KEEP.2", "TOY-COUNT"]


def test_differences_are_the_fields_with_effect(capsys):
    pair = "mlx_lm@pr923", "mlx_lm@pr923-shared"
    data = json.loads(printed(capsys, "profiles", "diff", *pair, "--json"))
    assert (data["a"], data["b"]) == pair and data["fields"][0] == {
        "field": "key", "a": "ML-KEY.BARE.PR923", "b": "ML-KEY.BARE.FIRST"}  # fmt: skip
    lines = printed(capsys, "profiles", "diff", *pair).splitlines()
    assert lines[1].split() == ["key", "ML-KEY.BARE.PR923", "->", "ML-KEY.BARE.FIRST"]
    assert [line.split()[0] for line in lines[1:]] == [row["field"] for row in data["fields"]]
    assert printed(capsys, "profiles", "diff", pair[0], pair[0]) == "no differences\n"


def test_an_engine_names_its_newest_rule_set():
    found = arguments(profiles_command.add_arguments, ["diff", "llama_cpp", "mlx_lm@0.32.2"])
    assert (found["action"], found["names"], found["profiles"]) == (
        "diff", [ENGINES["llama_cpp"].newest, "mlx_lm@0.32.2"], [])  # fmt: skip
