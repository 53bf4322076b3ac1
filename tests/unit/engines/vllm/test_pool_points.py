"""Restore points of a block pool: what keys, copies and losses of its blocks report."""

from __future__ import annotations

from typing import Any

import pytest

from cachesim.base.tokens import TokenList
from cachesim.engines.base import Request
from cachesim.engines.vllm import ENGINE
from cachesim.engines.vllm.core.block_pool import CLEARED, ERASED, EVICTED, REPLACED, BlockMask
from cachesim.engines.vllm.pool_points import PIECES, PoolPoints
from cachesim.engines.vllm.prefix_points import ALL, CHUNK, STATE, WINDOW, GroupPieces
from cachesim.events import Decided, Gained, Lost

EVERY = BlockMask(kept=None, rule="R", missing_rule="")


class Pool:
    """A pool with blocks of four tokens, and requests whose blocks are keyed as a test states."""

    def __init__(self) -> None:
        self.server = ENGINE.start("vllm@0.33.0", "A", {"block_size": 4, "num_gpu_blocks": 9}, "none")
        self.points: PoolPoints = self.server.points
        self.blocks = self.points.pool

    def received(self, *prompt: int) -> Any:
        self.server.submit(Request(prompt, 1))
        self.server.take_tasks()
        request = self.server.slots[-1]
        request.text.token_ids = TokenList(prompt)          # as the worker has them after the first step
        return request

    def key(self, request: Any, *blocks: int, cached: int = 0) -> None:
        self.blocks.cache_full_blocks(request, blocks, num_cached_blocks=cached, num_full_blocks=len(blocks),
                                      block_size=4, kv_cache_group_id=0, mask=EVERY)  # fmt: skip

    def told(self) -> list[tuple[Any, ...]]:
        """Return the restore points that were gained and lost, and forget them."""
        events = [*self.server.log.events]
        self.server.log.events.clear()
        return [("gained", event.point.n) if isinstance(event, Gained) else ("lost", event.cause, event.rule)
                for event in events if isinstance(event, Gained | Lost)]


@pytest.fixture
def pool() -> Pool:
    return Pool()


def test_a_group_of_each_kind_keeps_its_pieces() -> None:
    assert PIECES == {"full": ALL, "rswa": ALL, "swa": WINDOW, "chunked": CHUNK, "mamba": STATE}
    options = {"kv_groups": "A/8 W6/4 S/16", "prefix_match_unit": 4}
    server = ENGINE.start("vllm@0.33.0", "A W6 S", options, "none")
    points = server.points
    config = server.vllm_config.kv_cache_config
    assert [GroupPieces(PIECES[group.kind], group.block_size, group.window) for group in config.kv_cache_groups] == (
        points.groups)
    assert set(points.groups) == {
        GroupPieces(ALL, 8), GroupPieces(WINDOW, 4, 6), GroupPieces(STATE, 16)}
    assert (points.unit, points.align) == (config.hash_block_size, config.cache_hit_alignment_tokens)


def test_a_key_is_a_restore_point_once_its_block_is_computed(pool: Pool) -> None:
    pool.key(pool.received(*range(9)), 1, 2)
    assert pool.told() == []
    pool.points.computed()
    assert pool.told() == [("gained", 4), ("gained", 8)] and pool.points.entered == []
    pool.points.computed()
    pool.key(pool.received(*range(12)), 1, 2, 3, cached=2)
    pool.points.computed()
    assert pool.told() == [("gained", 12)]


def test_blocks_of_two_requests_are_reported_with_their_own_tokens(pool: Pool) -> None:
    pool.key(pool.received(*range(4)), 1)
    pool.key(pool.received(*range(50, 58)), 2, 3)
    pool.points.computed()
    kept = [pool.points.prefix(key) for key in pool.points.kept()]
    assert [(prefix.end, prefix.unit) for prefix in kept] == [
        (4, (0, 1, 2, 3)), (4, (50, 51, 52, 53)), (8, (54, 55, 56, 57))]


def test_a_block_that_loses_its_key_before_it_is_computed_is_not_reported(pool: Pool) -> None:
    pool.key(pool.received(*range(8)), 1, 2)
    pool.blocks.remove_cached_block_hashes(2, REPLACED)
    pool.points.computed()
    assert pool.told() == [("gained", 4)]
    pool.blocks.remove_cached_block_hashes(2, REPLACED)
    assert pool.told() == []


@pytest.mark.parametrize(("cause", "rule"), [
    (EVICTED, "evict"), (REPLACED, "partial_rows"), (CLEARED, "reset_preempts"), (ERASED, "state_inside")])
def test_a_lost_block_names_the_rule_that_took_its_key(pool: Pool, cause: str, rule: str) -> None:
    pool.key(pool.received(*range(8)), 1, 2)
    pool.points.computed()
    pool.told()
    pool.blocks.remove_cached_block_hashes(1, cause)
    decided = [(event.rule, event.value) for event in pool.server.log.events if isinstance(event, Decided)]
    name = getattr(pool.points.rules, rule).rule
    assert decided == ([(name, 1)] if cause == EVICTED else [])
    assert pool.told() == [("lost", cause, name)] * 2, "the longer prefix needs this block, too"


def test_the_last_of_two_blocks_of_a_prefix_is_its_restore_point(pool: Pool) -> None:
    for block in (1, 2):
        pool.key(pool.received(*range(4)), block)
    pool.points.computed()
    assert pool.told() == [("gained", 4)]
    pool.blocks.remove_cached_block_hashes(2, CLEARED)
    assert pool.told() == []
    pool.blocks.remove_cached_block_hashes(1, CLEARED)
    assert [word for word, *_ in pool.told()] == ["lost"]


@pytest.mark.parametrize("is_computed", [True, False])
def test_a_copy_takes_the_place_of_its_block(pool: Pool, is_computed: bool) -> None:
    pool.key(pool.received(*range(50, 58)), 1, 2)
    if is_computed:
        pool.points.computed()
    pool.blocks.move_block_hashes(2, 3)
    pool.points.computed()
    assert pool.told() == [("gained", 4), ("gained", 8)]
    pool.points.computed()
    pool.blocks.remove_cached_block_hashes(3, CLEARED)
    pool.blocks.remove_cached_block_hashes(2, CLEARED)
    assert [word for word, *_ in pool.told()] == ["lost"]


def test_a_recording_reports_no_restore_points(pool: Pool) -> None:
    pool.points.reports = False
    pool.key(pool.received(*range(4)), 1)
    pool.points.reports = True
    pool.points.computed()
    assert pool.told() == [] == pool.points.kept()
