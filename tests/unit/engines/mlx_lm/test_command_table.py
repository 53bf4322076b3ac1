"""Readers of arguments with values of their own."""

from __future__ import annotations

import pytest

from cachesim.base.errors import BadInput
from cachesim.engines.mlx_lm.command_table import read_bytes


@pytest.mark.parametrize(("text", "number"), [("1000", 1000), ("2M", 2_000_000), ("1.5GB", 1_500_000_000)])
def test_a_size_has_decimal_units(text: str, number: int) -> None:
    assert read_bytes(text).options == {"prompt_cache_bytes": number}


def test_a_size_above_the_largest_option_is_a_limit() -> None:
    found = read_bytes("70G")
    assert (found.options, found.limits) == ({}, ("70G",))


@pytest.mark.parametrize("text", ["", "G", "1K", "-1", "1e9", "70 GiB"])
def test_another_text_is_no_size(text: str) -> None:
    with pytest.raises(BadInput, match="expected a size"):
        read_bytes(text)


def test_the_largest_size_of_an_option_is_not_a_limit():
    assert read_bytes("2147483647").options == {"prompt_cache_bytes": 2**31 - 1}
    found = read_bytes("2147483648")
    assert (found.options, found.limits) == ({}, ("2147483648",))
