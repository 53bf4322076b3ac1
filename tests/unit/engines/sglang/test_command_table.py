"""Readers of arguments with values of their own."""

from __future__ import annotations

import pytest

from cachesim.engines.sglang.command_table import ANY_USE, BY_DEVICE, COMMAND_TABLE, LATENT, read_algorithm
from cachesim.engines.shared.command_table import AllowedSizes, ParsedArgument


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


@pytest.mark.parametrize(("argument", "known"), [
    ("--attention-backend", {**LATENT, **ANY_USE}), ("--decode-attention-backend", {**LATENT, **ANY_USE}),
    ("--prefill-attention-backend", ANY_USE),
    ("--speculative-draft-attention-backend", {"trtllm_mha": ANY_USE["trtllm_mha"]}),
])  # fmt: skip
def test_a_backend_of_attention_takes_pages_of_its_own(argument: str, known: dict[str, tuple[AllowedSizes]]) -> None:
    read = COMMAND_TABLE.readers[argument]
    for name in (*LATENT, *ANY_USE):
        expected = ParsedArgument(allowed=known[name]) if name in known else ParsedArgument(limits=(name,))
        assert read(name) == expected
    for name, pages in BY_DEVICE.items():
        assert read(name).needs == {"page_size": pages}
    assert read("triton") == ParsedArgument(limits=("triton",))


def test_pages_of_a_backend_changed_between_releases() -> None:
    old, new = ANY_USE["trtllm_mha"]
    assert old == AllowedSizes("page_size", (16, 32, 64), 64, until="sglang@0.5.9")
    assert new == AllowedSizes("page_size", (16, 32, 64, 128), 64, since="sglang@0.5.20")
    assert LATENT["cutlass_mla"] == (AllowedSizes("page_size", (128,), 128),)


def test_numbers_of_tokens_may_be_written_as_people_do() -> None:
    for option in ("max_total_tokens", "max_prefill_tokens"):
        read = COMMAND_TABLE.readers[f"--{option.replace('_', '-')}"]
        assert read("16k") == ParsedArgument({option: 16_000})
