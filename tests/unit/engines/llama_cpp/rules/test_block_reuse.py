"""Blocks of equal tokens that move, in builds before checkpoints: a first block also shifts what stands after it."""

from __future__ import annotations

import pytest

from cachesim.engines.llama_cpp.rules.before_checkpoints import reuse_open


@pytest.mark.parametrize("held, asked, n_past, least, moved", [
    ("abXcdef", "abcdef", 2, 2, [(4, 3, 2)]), ("abXcdYef", "abcdef", 2, 2, [(2, 3, 2), (2, 6, 4)]),
    ("abXcd", "abcd", 2, 3, []),
    ("ab", "abcd", 2, 1, []), ("abXXcd", "abcd", 2, 2, [(2, 4, 2)]),
])  # fmt: skip
def test_blocks_of_enough_equal_tokens_move(held, asked, n_past, least, moved):
    found = reuse_open(held, asked, n_past, least)
    assert [tuple(block)[:3] for block in found.value] == moved
    assert found.because == {"n_past": n_past, "least": least, "found": len(moved)}
