"""The draft context follows the target: which tokens of a view it evaluates."""

from __future__ import annotations

import pytest

from cachesim.engines.ik_llama.speculative_decoding import warm_up
from cachesim.engines.shared.batch import DecodeBatch
from tests.unit.engines.ik_llama.feature_conversations import Client


def view(start: int, n: int) -> DecodeBatch:
    """Return a view of n tokens from a position on."""
    batch = DecodeBatch()
    batch.extend(list(range(n)), start, 0)
    return batch


@pytest.mark.parametrize(("first", "stop", "n"), [(0, 5, 5), (2, 5, 3), (2, 3, 1)])
def test_the_draft_context_evaluates_the_tokens_of_the_prompt_in_a_view(first, stop, n):
    core = Client("main", "A+M", spec_type="mtp").server.core
    [slot], kv = core.slots, core.companion.kv
    warm_up(core, slot, view(10, 5), first, stop)
    assert kv.cells.pos[kv.cells.of(0)].tolist() == [*range(10 + first, 10 + first + n)]


@pytest.mark.parametrize(("version", "later"), [("2205", [0, 20]), ("main", [])])
def test_rows_from_the_first_token_of_a_view_on_are_evaluated_again(version, later):
    """Rows that were made from a later state than their own are noted, and forgotten when they are replaced."""
    core = Client(version, "A+M", spec_type="mtp").server.core
    [slot], kv = core.slots, core.companion.kv
    for start, n in ((0, 30), (25, 2), (20, 4)):
        core.known_next.add(0)
        warm_up(core, slot, view(start, n), 0, n)
    assert kv.cells.pos[kv.cells.of(0)].tolist() == [*range(24)]
    assert core.known_next == set()
    assert core.later[0] == later
