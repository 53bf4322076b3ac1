"""Is one thing one, and are two counts not taken for each other?"""

from __future__ import annotations

import pytest

from cachesim.counted import counted
from cachesim.engines.llama_cpp.rules.prompt_cache import Admission
from cachesim.reports.sentences import sentence


@pytest.mark.parametrize(("n", "said"), [(0, "0 runs"), (1, "1 run"), (2, "2 runs")])
def test_one_is_not_several(n, said):
    assert counted(n, "run") == said
    assert counted(n, "holds", "hold") == f"{n} {'holds' if n == 1 else 'hold'}"


def test_checkpoints_that_go_and_stay():
    assert sentence("LC-CKPT-ERASE.ER2", (3,), {}) == "1 checkpoint goes: number 3"
    assert sentence("LC-CKPT-ERASE.ER2", (0, 3), {}) == "2 checkpoints go: number 0, 3"
    assert sentence("LC-CLEAR.TOKENS", False, {"checkpoints": 1}) == "1 checkpoint stays behind"
    assert sentence("LC-CLEAR.TOKENS", False, {"checkpoints": 2}) == "2 checkpoints stay behind"


def test_obsolete_entries_are_not_evicted_ones():
    said = sentence("LC-PC-ALLOC.PC6", Admission("store", (0, 1), 3), {"n_tokens": 9, "entries": 7})
    assert "2 obsolete, 3 evicted" in said and "9 tokens, 7 entries" in said
