"""Tests of stored evidence against the simulator's expectations. They need no server."""

from __future__ import annotations

import json
import re

import pytest

from cachesim.scenarios.corpus import corpus_files, corpus_root
from cachesim.scenarios.load import load
from tests.live.evidence import chosen, expected, otherwise

PROFILE = "llama_cpp@b11549"
STORED = json.loads((corpus_root() / "evidence" / "b11549.json").read_text("utf-8"))["scenarios"]
NAMES = ("llama-one-token-checkpoint", "llama-draft-removal-refused-mamba2", "llama-completion-copied-early",
    "llama-draft-longer-than-batch")


def wanted(name):
    return expected(load(corpus_files()[name]), PROFILE)


def changed(name, number, **fields):
    """Return the stored requests of a scenario, a single request with changed fields."""
    return [{**one, **fields} if one["n"] == number else one for one in STORED[name]["requests"]]


@pytest.mark.parametrize("name", NAMES)
def test_what_was_stored_is_as_expected(name):
    assert otherwise(STORED[name]["requests"], wanted(name)) == ""


@pytest.mark.parametrize("name, number, fields, told", [
    ("llama-one-token-checkpoint", 2, {"differs": False}, "wrong: [], expected [2]"),
    ("llama-one-token-checkpoint", 1, {"differs": True}, "wrong: [1, 2], expected [2]"),
    ("llama-one-token-checkpoint", 2, {"cache_n": 0}, "2: 0 reused, expected 1"),
    ("llama-one-token-checkpoint", 0, {"died": -6}, "wrong: [0, 2], expected [2]"),
    ("llama-completion-copied-early", 2, {"error": "another"}, "2: 'another', expected 'Invalid input batch.'"),
])  # fmt: skip
def test_another_outcome_is_named(name, number, fields, told):
    assert told in otherwise(changed(name, number, **fields), wanted(name))


def test_an_error_may_name_other_numbers():
    name = "llama-oversized-prompt-refused"
    refused = next(one for one in STORED[name]["requests"] if "error" in one)
    other = re.sub(r"[0-9]+", "7", refused["error"])
    assert other != refused["error"]
    assert otherwise(changed(name, refused["n"], error=other), wanted(name)) == ""


def test_scenarios_of_faults_are_chosen_where_none_are_named():
    ids = [one.id for one in chosen([], PROFILE)]
    correct = "llama-one-token-checkpoint-default-llama"
    assert "llama-one-token-checkpoint" in ids and correct not in ids and "mlx-oldest-token-hidden" not in ids
    assert [scenario.id for scenario in chosen([correct], PROFILE)] == [correct]
