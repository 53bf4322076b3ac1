"""What inspection finds of prefixes and requests: rows that the next token reads, and states; all of them are right."""

from __future__ import annotations

import numpy as np
import pytest

from cachesim.engines.base import Request
from cachesim.engines.inspection import ExceededLimit, TokenPrefix
from cachesim.engines.vllm import ENGINE
from cachesim.judging.compare_stored import compare_stored
from cachesim.judging.verdict import CORRECT
from cachesim.oracle.cold_run import cold
from tests.unit.engines.vllm import conversations
from tests.unit.engines.vllm.conversations import P, Q

KINDS = ("evicted", "window", "states", "chunks", "parts_of_blocks", "eagle_window", "offloaded_states",
         "long_drafts")  # fmt: skip


def read_from(group, n):
    """Return the first position that the token after n tokens reads in a group."""
    if group.kind == "swa":
        return max(0, n - group.window + 1)
    return n // group.window * group.window if group.kind == "chunked" else 0


def contents(srv, n, start):
    """Return what a prefix of n tokens must have, from ``start`` on: window, positions, layers; then of its state."""
    rows, layers = [], []
    for group in srv.vllm_config.kv_cache_config.kv_cache_groups:
        if group.kind == "mamba":
            layers += group.layers
        else:
            first = start if group.kind == "full" else read_from(group, n)
            window = 0 if group.kind == "full" else n - first + 1
            rows.append((window, [*range(first, n)], [*group.layers]))
    return rows, (n - 1, layers) if layers else None


def found(stored):
    rows = [(part.window, part.pos.tolist(), [*part.rows]) for part in stored.rows]
    return rows, None if stored.state is None else (stored.state.pos, [*stored.state.rows])


@pytest.mark.parametrize("name", KINDS)
def test_a_prefix_has_what_the_next_token_reads_and_it_is_right(name):
    srv = conversations.run(name)
    inspection, lengths = srv.inspection, []
    for key in inspection.kept():
        node = inspection.points.prefix(key)
        stored = inspection.stored(key)
        assert (stored.kind, stored.owner, stored.resume, stored.start) == ("block", -1, node.end, node.start)
        assert found(stored) == contents(srv, node.end, node.start)
        assert len(stored.tokens) == node.end if not node.start else len(stored.tokens) >= node.end
        assert compare_stored(stored, cold(srv.model, stored.tokens, logits_at=())) == CORRECT
        later = inspection.stored(key, start=node.end - 1)
        assert found(later) == contents(srv, node.end, node.end - 1) and later.start == node.end - 1
        lengths.append(node.end)
    assert lengths and inspection.checkpoints(0) == sorted(lengths)
    assert inspection.occupied_slots() == [] and inspection.exceeded_limits() == []


def in_progress(model, rounds, **flags):
    srv = conversations.server(model, "provenance", async_scheduling=False, **flags)
    for prompt in (P, Q):
        srv.submit(Request(prompt, 6))
    for _ in range(rounds):
        srv.iterate()
    return srv


@pytest.mark.parametrize("model", ["A", "GA", "W8 A", "K8"])
@pytest.mark.parametrize("rounds", [1, 2, 4])
def test_a_request_in_progress_has_the_rows_and_states_of_its_computed_tokens(model, rounds):
    srv = in_progress(model, rounds)
    inspection = srv.inspection
    assert inspection.occupied_slots() == ([0] if rounds == 1 and model != "K8" else [0, 1])
    for slot in inspection.occupied_slots():
        request = srv.slots[slot]
        n = request.num_computed_tokens
        stored = inspection.stored(("slot", slot, 0))
        assert (stored.kind, stored.owner, stored.resume, stored.tokens) == ("slot", slot, n, ())
        assert found(stored) == contents(srv, n, 0)
        assert compare_stored(stored, cold(srv.model, request.text.full()[:n], logits_at=())) == CORRECT
        assert inspection.prefix_of(slot) == TokenPrefix(request.text.full(), n)
        assert inspection.tokens_of(slot) == request.text.full()[:n]


def test_a_request_that_the_worker_does_not_know_has_no_rows():
    srv = in_progress("A", 1)
    stored = srv.inspection.stored(("slot", 1, 0))
    assert (stored.resume, stored.rows, stored.state, srv.inspection.tokens_of(1)) == (0, (), None, ())


@pytest.mark.parametrize("flags", [{"async_scheduling": True}, {"async_scheduling": False,
                                   "speculative_method": "ngram", "num_speculative_tokens": 1}])  # fmt: skip
def test_states_that_are_ahead_of_the_tokens_are_not_compared(flags):
    srv = conversations.server("GA", "provenance", **flags)
    srv.submit(Request(P[:20], 9))
    for _ in range(3):
        srv.iterate()
    stored = srv.inspection.stored(("slot", 0, 0))
    assert stored.state is None and [part.pos.tolist() for part in stored.rows] == [[*range(stored.resume)]]


def test_more_running_requests_than_allowed_are_an_excess():
    srv = in_progress("A", 2)
    srv.inspection.running += [srv.slots[0]] * 30
    assert srv.inspection.exceeded_limits() == []
    srv.inspection.running.append(srv.slots[0])
    assert srv.inspection.exceeded_limits() == [ExceededLimit("requests at work", 33, 32)]


def test_a_part_of_a_block_is_read_from_the_longer_block_that_holds_it():
    """A hit ends inside a block of 16 tokens of states' groups; the rows lie in a block that was completed later."""
    srv = conversations.server("GA", "provenance", mamba_block_size=16, prefix_match_unit=4)
    srv.complete(Request(P[:21], 12))
    ends = srv.inspection.checkpoints(0)
    assert ends == sorted(srv.inspection.points.prefix(key).end for key in srv.inspection.kept()) and 20 in ends
    key = next(key for key in srv.inspection.kept() if srv.inspection.points.prefix(key).end == 20)
    [part] = srv.inspection.stored(key).rows
    assert np.array_equal(part.pos, np.arange(part.pos[0], 20))


@pytest.mark.parametrize("groups", ["S/8 A/8", "A/8 S/8"])
def test_rows_and_states_are_read_whichever_group_is_first(groups):
    server = ENGINE.start("vllm@0.33.0", "AS", {"kv_groups": groups}, "provenance")
    server.submit(Request(tuple(range(20)), 3))
    while not server.slots or server.slots[0].num_output_tokens < 1:
        server.iterate()
    found = [server.inspection.stored(key) for key in server.inspection.kept()]
    assert found and all([*part.rows] for one in found for part in one.rows)
    assert any(one.rows for one in found) and any(one.state for one in found)
    both = [one for one in found if one.state is not None]
    assert all(one.rows for one in both)
