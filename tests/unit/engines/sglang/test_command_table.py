"""Readers of arguments with values of their own."""

from __future__ import annotations

import pytest

from cachesim.engines.sglang.command_table import COMMAND_TABLE, read_algorithm


@pytest.mark.parametrize(("text", "option"), [
    ("EAGLE", "EAGLE"), ("EAGLE3", "EAGLE"), ("NEXTN", "EAGLE"), ("NGRAM", "NGRAM"),
])  # fmt: skip
def test_an_algorithm_of_drafts_is_that_of_its_keys(text: str, option: str) -> None:
    assert read_algorithm(text).options == {"speculative_algorithm": option}


def test_another_algorithm_is_not_simulated() -> None:
    assert read_algorithm("DFLASH").refused == ("'DFLASH'",)


def test_the_strategy_of_states_has_the_name_of_its_release() -> None:
    older, newer = (COMMAND_TABLE.of_release(COMMAND_TABLE.releases[place]) for place in (0, -1))
    assert "--mamba-scheduler-strategy" in older and "--mamba-scheduler-strategy" not in newer
    assert "--mamba-radix-cache-strategy" in newer and "--mamba-radix-cache-strategy" not in older
