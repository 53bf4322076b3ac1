"""Tests of advice for known cases: the cure is among the first three, all advice is correct, and the printed commands
give the stated results."""

from __future__ import annotations

import json
import shlex

import pytest

from cachesim.cli.main import main

CURES = {
    "lc-77-date-in-front": "changing part last",
    "lc-77-reasoning-removed": "keep the answer",
    "lc-77-shared-header": "warm up",                     # creates a checkpoint after the three common tokens
    "lc-83-spacing-without-effect": "llama_cpp@user-turns",
    "seed-24143-dense": "llama_cpp@pr24143-on-head",
    "seed-24143-hybrid": "llama_cpp@pr24143-on-head",
    "lc-06-pure-extension": "llama_cpp@base-24143",
    "lc-16-dynamic-context-window": "swa_full",
    "lc-17-densest": "ctx_checkpoints",
    "lc-22-large-ubatch": "ubatch_size",
    "lc-35-pinned-client": "no id_slot",
    "no-cache-prompt": "cache_prompt",
    "d12-token-limit": "ctx_size",
    "d10-interval-batch-2048": "batch_size",
    "bound-of-1888": "ik_llama@pr1888",
    "consumed-on-hit": "mlx_lm@v911",
    "who-goes-first": "prompt_cache_size",
}
"""Scenario -> its cure, as stated in its text or its source."""


def printed(capsys, *words):
    """Return the JSON that a command prints."""
    main([*words, "--json", "-q"])
    return json.loads(capsys.readouterr().out)


@pytest.mark.long
@pytest.mark.parametrize("name", CURES)
def test_the_known_cure_is_among_the_first_three(name, capsys):
    (data,) = printed(capsys, "advise", name)["advise"]
    first = [change["name"] for one in data["advice"][:3] for change in one["changes"]]
    assert CURES[name] in first
    for one in data["advice"]:
        assert not one["wrong"] and one["evaluated"] < data["base"]["evaluated"]


@pytest.mark.parametrize("name", ["lc-77-reasoning-removed", "lc-83-spacing-without-effect", "consumed-on-hit"])
def test_every_command_shows_what_is_said(name, capsys):
    """``test_corpus``, which is slow, covers all scenarios."""
    (data,) = printed(capsys, "advise", name)["advise"]
    for one in (*data["advice"], *data["traps"]):
        (again,) = printed(capsys, *shlex.split(one["command"])[1:], "--provenance")["runs"]
        assert [each["prompt_n"] for each in again["requests"]] == one["each"]
        assert again["broken"] == one["wrong"]
