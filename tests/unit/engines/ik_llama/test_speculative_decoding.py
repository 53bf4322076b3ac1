"""The draft context follows the target: which tokens of a view it evaluates."""

from __future__ import annotations

import pytest

from cachesim.engines.base import Draft
from cachesim.engines.ik_llama.speculative_decoding import warm_up
from cachesim.engines.shared.batch import DecodeBatch
from tests.unit.engines.ik_llama.feature_conversations import Client, P, Q


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


@pytest.mark.parametrize("accepted", [0, 1, 2])
@pytest.mark.parametrize(("version", "relabels"), [("main", True), ("main-repaired", False)])
def test_a_wrong_draft_gives_the_last_position_to_the_cell_of_the_sequences_number(version, relabels, accepted):
    client = Client(version, "GGA+M", spec_type="mtp", spec_draft_n_max=3)
    client.send(P[:30], 9, forced=Q[:9], drafts=(Draft(30, 3, accepted),))
    while not any(event.ev == "spec_step" for event in client.log.events):
        client.server.iterate()
    kv, last = client.server.core.memory, 30 + accepted
    assert kv.cells.pos[:3].tolist() == [last if relabels else 0, 1, 2] and kv.cells.own[:3].tolist() == [0, 1, 2]
    assert (kv.pos_max(0), kv.state_pos, kv.cells.used) == (last, [last], last + 1)
    assert client.server.core.context.per_step is False


@pytest.mark.parametrize(("views", "held", "later"), [
    (((0, 30), (29, 2)), 31, [0, 29]), (((0, 30), (30, 2)), 32, [0, 30]), (((0, 30), (20, 2), (20, 4)), 24, [0, 20]),
])  # fmt: skip
def test_a_row_that_is_evaluated_again_is_there_once(views, held, later):
    core = Client("2205", "A+M", spec_type="mtp").server.core
    [slot], kv = core.slots, core.companion.kv
    for start, n in views:
        warm_up(core, slot, view(start, n), 0, n)
    assert sorted(kv.cells.pos[kv.cells.of(0)].tolist()) == [*range(held)] and core.later[0] == later


@pytest.mark.parametrize("version", ["main", "2205", "1889-base"])
@pytest.mark.parametrize("longest", [1, 3, 8])
def test_the_draft_context_follows_the_target_until_the_context_is_full(version, longest):
    """Its cells are as many, and no draft reaches the last position, so that it never lacks a cell."""
    client = Client(version, "A+M", spec_type="mtp", spec_draft_n_max=longest, ctx_size=256)
    core = client.server.core
    client.send((P * 20)[:200], 90, forced=(Q * 9)[:90], draft_else=longest)
    behind = []
    while client.server.working:
        client.server.iterate()
        behind.append(core.memory.pos_max(0) - core.companion.kv.pos_max(0))
    assert (core.memory.pos_max(0), core.memory.cells.used) == (254, 255)
    assert max(behind[:-1]) <= 1
