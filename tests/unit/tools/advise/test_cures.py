"""Tests of advice for known cases: the cure is among the first three, and all advice is correct."""

from __future__ import annotations

import json

import pytest

from cachesim.cli.main import main

CURES = {
    "llama-24714-date-near-beginning-hybrid": "changing part last",
    "llama-21831-reasoning-removed-hybrid": "keep the answer",
    "llama-20153-shared-header-hybrid": "warm up",
    # creates a checkpoint after the three common tokens
    "llama-24055-spacing-without-effect-hybrid": "llama_cpp@b9765",
    "llama-24143-entry-removed-hybrid": "llama_cpp@pr24143-on-b10587",
    "llama-24176-changing-message-window": "swa_full",
    "llama-24035-oldest-checkpoint-evicted-recurrent": "ctx_checkpoints",
    "llama-24035-large-ubatch-hybrid": "ubatch_size",
    "llama-24755-named-slot-no-lookup": "no id_slot",
    "llama-no-cache-prompt": "cache_prompt",
    "llama-16560-cache-ram-token-limit": "ctx_size",
    "ik-1888-exact-checkpoint-refused-hybrid": "ik_llama@pr1888",
    "mlx-eviction-order": "prompt_cache_size",
}
"""Scenario -> its cure, as stated in its text or its source."""


def printed(capsys, *words):
    """Return the JSON that a command prints."""
    main([*words, "--json", "-q"])
    return json.loads(capsys.readouterr().out)


@pytest.mark.long
@pytest.mark.parametrize("name", CURES)
def test_the_known_cure_is_among_the_first_three(name, capsys):
    """An unreleased rule set follows what is certain."""
    (data,) = printed(capsys, "advise", name)["advise"]
    certain, others = ([one for one in data["advice"] if one["certain"] == is_certain] for is_certain in (True, False))
    first_three = [*certain[:3], *others[:3], *data["not_released"][:3]]
    first = [change["name"] for one in first_three for change in one["changes"]]
    assert CURES[name] in first
    for one in data["advice"]:
        assert not one["wrong"] and one["evaluated"] < data["base"]["evaluated"]
