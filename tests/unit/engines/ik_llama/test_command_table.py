"""Readers of arguments with values of their own."""

from __future__ import annotations

import pytest

from cachesim.base.errors import BadInput
from cachesim.tools.run.pasted_command import read_pasted


@pytest.mark.parametrize(("words", "options"), [
    ("-fa auto", {"flash_attn": True}), ("-fa off", {"flash_attn": False}), ("-no-fa", {"flash_attn": False}),
    ("--context-shift 0", {"context_shift": False}), ("--no-context-shift", {"context_shift": False}),
    ("--spec-type mtp:n_max=4", {"spec_type": "mtp", "spec_draft_n_max": 4}),
])  # fmt: skip
def test_switches_and_drafters_are_read_as_the_server_reads_them(words: str, options: dict[str, object]) -> None:
    assert read_pasted(f"ik_llama.cpp/llama-server -m M {words}", []).command.options == options


def test_another_value_of_a_switch_is_refused() -> None:
    with pytest.raises(BadInput, match="flag '-fa': expected on or off, found 'yes'"):
        read_pasted("ik_llama.cpp/llama-server -m M -fa yes", [])
