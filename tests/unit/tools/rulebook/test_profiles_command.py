"""Tests of ``profiles`` and ``explain`` for the rules of every engine, with those of nested tables."""

from __future__ import annotations

import json

import pytest

from cachesim.base import exits
from cachesim.cli.main import main
from cachesim.engines.registry import ENGINES, profiles, rules_of
from cachesim.tools.rulebook.profiles_command import _plain

MLX = ("mlx_lm@d78bf58e", "mlx_lm@pr1006a")


def printed(capsys, *argv):
    """What a command prints; it must succeed."""
    assert main([*argv]) == exits.HOLDS
    return capsys.readouterr().out


@pytest.mark.parametrize("profile", profiles())
def test_every_profile_is_shown_as_json(capsys, profile):
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


def test_values_of_a_rule_set_are_plain_data():
    assert _plain({"a": {"b": frozenset({2, 1})}, "c": 3, "d": "x"}) == {"a": {"b": [1, 2]}, "c": 3, "d": "x"}
