"""Tests of counts in messages: singular, plural, and sentences with several counts."""

from __future__ import annotations

import pytest

from cachesim.base.errors import counted
from cachesim.engines.llama_cpp.rules.prompt_cache import Admission
from cachesim.judging.verdict_text import sentence


@pytest.mark.parametrize(("n", "said"), [(0, "0 runs"), (1, "1 run"), (2, "2 runs")])
def test_singular_and_plural(n, said):
    assert counted(n, "run") == said
    assert counted(n, "holds", "hold") == f"{n} {'holds' if n == 1 else 'hold'}"


def test_counts_of_erased_and_kept_checkpoints():
    at = {"pos_next": 9}
    assert sentence("LC-CKPT-ERASE.ER2", (3,), at) == "erases 1 invalidated checkpoint (#3): pos_max > pos_next 9"
    said = sentence("LC-CKPT-ERASE.ER2", (0, 3), at)
    assert said == "erases 2 invalidated checkpoints (#0, #3): pos_max > pos_next 9"
    assert sentence("LC-CLEAR.TOKENS", False, {"checkpoints": 1}) == "slot cleared; 1 checkpoint not erased"
    assert sentence("LC-CLEAR.TOKENS", False, {"checkpoints": 2}) == "slot cleared; 2 checkpoints not erased"


def test_obsolete_and_evicted_entries_are_counted_separately():
    said = sentence("LC-PC-ALLOC.PC6", Admission("store", (0, 1), 3), {"n_tokens": 9, "entries": 7, "size": 1})
    assert said == ("saved to prompt cache: 9 tokens (7 entries before); removes 2 entries that are prefixes of it; "
                    "evicts 3 oldest entries")
