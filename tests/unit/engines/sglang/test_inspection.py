"""What inspection finds of nodes, states and requests, on the device and in host memory; all of it is right."""

from __future__ import annotations

import pytest

from cachesim.base.errors import Crash
from cachesim.engines.base import Request
from cachesim.engines.inspection import ExceededLimit, TokenPrefix
from cachesim.engines.sglang.mem_cache.unified_cache.component_type import SWA
from cachesim.judging.compare_stored import compare_stored
from cachesim.judging.verdict import CORRECT
from cachesim.oracle.cold_run import cold
from tests.unit.engines.sglang import conversations
from tests.unit.engines.sglang.conversations import P, Q


def found(stored):
    """Return window, positions and layers of the rows, and place and layers of the state."""
    rows = [(part.window, part.pos.tolist(), [*part.rows]) for part in stored.rows]
    return rows, None if stored.state is None else (stored.state.pos, [*stored.state.rows])


def layers_of(srv):
    """Return the layers with rows of all positions, of a window, and with states."""
    layers = [*enumerate(srv.kind.layers)]
    return ([i for i, layer in layers if layer.part == "base"], [i for i, layer in layers if layer.part == "swa"],
            [i for i, layer in layers if layer.recurrence])  # fmt: skip


@pytest.mark.parametrize("name", [name for name in conversations.CONVERSATIONS if not name.startswith("crowd ")])
def test_a_node_has_its_rows_and_a_state_that_after_its_end(name):
    srv = conversations.run(name)
    core, inspection = srv.scheduler.tree_cache.tree_core, srv.inspection
    full, window, states = layers_of(srv)
    ends = []
    for key in inspection.kept():
        kind, owner, _ = key
        node = core.nodes_by_id[owner]
        stored = inspection.stored(key)
        assert (stored.kind, stored.owner, stored.resume, stored.length) == (kind, owner, node.end, node.end)
        assert (inspection.content(key).rows == ()) is (kind == "state")
        if kind == "state":
            assert found(stored) == ([], (node.end - 1, states)) and len(stored.tokens) == node.end
            assert compare_stored(stored, cold(srv.model, stored.tokens, logits_at=())) == CORRECT
            ends.append(node.end)
            continue
        has_window = node.value[SWA] is not None or node.host_value[SWA] is not None
        positions = [*range(node.start, node.end)]
        rows = [(0, positions, full), *([(0, positions, window)] if has_window else [])]
        assert found(stored) == (rows, None) and stored.start == node.start
        assert stored.tokens is node.text or (not node.start and stored.tokens == node.text[: node.end])
        assert compare_stored(stored, cold(srv.model, stored.tokens, logits_at=())) == CORRECT
    assert inspection.kept() and inspection.checkpoints(0) == sorted(ends)
    assert (inspection.occupied_slots(), inspection.exceeded_limits()) == ([], [])


@pytest.mark.parametrize("model", ["A", "GA", "W8 A"])
@pytest.mark.parametrize("rounds", [1, 2, 5])
def test_a_request_in_progress_has_the_rows_and_states_of_its_tokens(model, rounds):
    srv = conversations.server(model, mode="provenance", disable_overlap_schedule=True)
    for prompt in (P[:30], Q):
        srv.submit(Request(prompt, 9))
    for _ in range(rounds):
        srv.iterate()
    full, window, states = layers_of(srv)
    inspection = srv.inspection
    assert inspection.occupied_slots() == [0, 1]
    for slot in inspection.occupied_slots():
        req = srv.slots[slot]
        n = req.seq_len
        stored = inspection.stored(("slot", slot, 0))
        text = req.text()[:n]
        assert (stored.kind, stored.owner, stored.resume, stored.tokens) == ("slot", slot, n, ())
        first = max(0, n - 8)
        rows = [(0, [*range(n)], full), *([(8, [*range(first, n)], window)] if window else [])] if n else []
        assert found(stored) == (rows, (n - 1, states) if states else None)
        assert not n or compare_stored(stored, cold(srv.model, text, logits_at=())) == CORRECT
        assert inspection.prefix_of(slot) == TokenPrefix(req.text(), n)
        content = inspection.content(("slot", slot, 0))
        assert [part.pos.tolist() for part in content.rows] == [pos for _, pos, _ in rows]


def test_more_running_requests_than_allowed_are_an_excess():
    srv = conversations.server("A")
    for prompt in (P[:3], Q[:3]):
        srv.submit(Request(prompt, 9))
    srv.iterate()
    for most, wanted in ((2, []), (1, [ExceededLimit("requests at work", 2, 1)])):
        srv.scheduler.max_running_requests = most
        assert srv.inspection.exceeded_limits() == wanted


@pytest.mark.parametrize("model", ["A", "W8 A", "GA"])
def test_slots_and_states_of_requests_in_progress_are_in_use(model):
    srv = conversations.server(model, disable_overlap_schedule=True)
    for prompt in (P[:30], Q):
        srv.submit(Request(prompt, 9))
    for _ in range(6):
        srv.iterate()
        srv.inspection.check()
    kv = srv.slots[0].kv
    assert kv.cache_protected_len < kv.kv_allocated_len
    kv.kv_allocated_len -= 1
    with pytest.raises(Crash, match="pages are free or in use"):
        srv.inspection.check()
    kv.kv_allocated_len += 1
    srv.inspection.check()
    if model == "GA":
        kv.mamba_pool_idx = None
        with pytest.raises(Crash, match="slots of states are free or in use"):
            srv.inspection.check()


def test_the_parents_of_nodes_are_shown():
    srv = conversations.run("window")
    nodes = [*srv.scheduler.tree_cache.tree_core.nodes()]
    cells = srv.cache_cells.nodes()
    assert [(cell.id, cell.parent, cell.start, cell.end) for cell in cells] == [
        (node.id, node.parent.id, node.start, node.end) for node in nodes]  # fmt: skip
    assert {0} < {cell.parent for cell in cells}
