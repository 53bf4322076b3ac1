"""The cache of a server: its manager, the coordinator, and the managers of the groups."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cachesim.engines.base import Request
from cachesim.engines.vllm import ENGINE
from cachesim.engines.vllm.core import kv_cache_coordinator as coordinator
from cachesim.engines.vllm.core import single_type_kv_cache_manager as single
from cachesim.engines.vllm.core.block_pool import EngineCoreDied
from cachesim.engines.vllm.core.kv_cache_events import AskedForBlocks, Got, LookedUp, Refused
from cachesim.engines.vllm.rules.lookup import PromptQuery

NEW = "vllm@0.33.0"


def started(model="A", **flags):
    """Return a server and its cache."""
    server = ENGINE.start(NEW, model, {"block_size": 4, **flags}, "none")
    return server, server.scheduler.kv_cache_manager


def received(server, *prompts):
    """Return requests that wait."""
    for prompt in prompts:
        server.submit(Request(tuple(prompt), 1, forced=(7,)))
    server.take_tasks()
    return server.scheduler.waiting[-len(prompts) :]


@pytest.mark.parametrize("model, kinds", [
    ("A", [single.FullAttentionManager]), ("W8 A", [single.FullAttentionManager, single.SlidingWindowManager]),
    ("K8", [single.ChunkedLocalAttentionManager]), ("GA", [single.FullAttentionManager, single.MambaManager]),
])
def test_each_group_has_a_manager_of_its_kind(model, kinds):
    _, manager = started(model)
    assert [type(one) for one in manager.coordinator.single_type_managers] == kinds
    several = coordinator.HybridKVCacheCoordinator if len(kinds) > 1 else coordinator.UnitaryKVCacheCoordinator
    assert type(manager.coordinator) is several


def test_blocks_are_found_once_they_are_allocated_and_stay_after_the_request():
    server, manager = started()
    first, second = received(server, range(10), range(10))
    assert manager.get_computed_blocks(first).n == 0
    assert manager.allocate_slots(first, 10, manager.empty_kv_cache_blocks) == [[1, 2, 3]]
    manager.free(first)
    found = manager.get_computed_blocks(second)
    assert (found.n, found.tables) == (8, {0: [1, 2]}) and manager.get_block_ids(first.request_id) == [[]]


def test_a_request_that_does_not_fit_gets_nothing_and_its_need_is_known():
    server, manager = started(num_gpu_blocks=4, max_model_len=64, scheduler_reserve_full_isl=False)
    [request] = received(server, range(20))
    assert manager.allocate_slots(request, 20, manager.empty_kv_cache_blocks) is None
    assert manager.num_refused_blocks == 5 and manager.block_pool.get_num_free_blocks() == 3


def test_a_part_of_a_block_is_copied_before_a_sibling_writes_in_it():
    """A block of eight tokens with hashes of four: a hit ends inside it."""
    server, manager = started("AS", kv_groups="A/8 S/8", prefix_match_unit=4)
    first, second = received(server, range(13), [*range(12), 50, 51])
    manager.allocate_slots(first, 12, manager.empty_kv_cache_blocks)
    manager.take_kv_cache_block_copies()
    manager.new_step_starts()
    found = manager.get_computed_blocks(second)
    assert found.n == 12
    manager.allocate_slots(second, 2, found)
    copies = manager.take_kv_cache_block_copies()
    assert [source for source, _ in copies] == [blocks[-1] for blocks in found.tables.values()]
    assert manager.get_block_ids(second.request_id)[0][1] == copies[0][1]


@pytest.mark.parametrize("n", [4, 8])
def test_a_state_of_this_step_is_not_used_in_it(n):
    """The state after four tokens has the first key of all."""
    server, manager = started("S", num_gpu_blocks=16, max_model_len=64, enable_prefix_caching=True)
    first, second = received(server, range(n + 1), range(n + 1))
    manager.allocate_slots(first, n, manager.empty_kv_cache_blocks)
    found = manager.get_computed_blocks(second)
    assert found.n == n and manager.allocate_slots(second, 1, found) is None
    manager.new_step_starts()
    assert manager.allocate_slots(second, 1, found) is not None


def test_a_state_of_an_earlier_step_is_used_while_its_request_goes_on():
    server, manager = started("S", num_gpu_blocks=16, max_model_len=64, enable_prefix_caching=True,
                              prefix_cache_retention_interval=-1)  # fmt: skip
    first, second = received(server, range(20), [*range(4), 50, 51, 52])
    manager.allocate_slots(first, 4, manager.empty_kv_cache_blocks)
    manager.new_step_starts()
    first.num_computed_tokens = 4
    manager.allocate_slots(first, 4)
    found = manager.get_computed_blocks(second)
    assert found.n == 4 and manager.get_block_ids(first.request_id) == [[*found.tables[0], 2]]
    assert manager.allocate_slots(second, 3, found) == [[3]]


def test_windows_give_back_the_blocks_that_the_next_token_does_not_read():
    server, manager = started("W8")
    [request] = received(server, range(30))
    manager.allocate_slots(request, 20, manager.empty_kv_cache_blocks)
    request.num_computed_tokens = 20
    manager.allocate_slots(request, 4)
    [blocks] = manager.get_block_ids(request.request_id)
    assert blocks[:5] == [0, 0, 0, 4, 5] and len(blocks) == 6
    assert manager.block_pool.ref_cnt[1:3] == [0, 0]


def test_a_reset_needs_an_unused_pool():
    server, manager = started()
    [request] = received(server, range(10))
    manager.allocate_slots(request, 10, manager.empty_kv_cache_blocks)
    assert not manager.reset_prefix_cache()
    manager.free(request)
    assert manager.reset_prefix_cache() and manager.get_computed_blocks(request).n == 0


def life(model, steps, **flags):
    """Return for each chunk of a prompt of 30 tokens the blocks that it got, the tables after it, and the blocks to be
    zeroed; then the front of the free queue, and group, tokens and place in the queue of each block with a key, after
    the request."""
    server, manager = started(model, num_gpu_blocks=40, max_model_len=64, **flags)
    [request] = received(server, range(30))
    found = []
    for number, size in enumerate(steps):
        manager.new_step_starts()
        new = None if number else manager.empty_kv_cache_blocks
        got = manager.allocate_slots(request, size, new, num_lookahead_tokens=flags.get("num_speculative_tokens", 0))
        tables = [[*blocks] for blocks in manager.get_block_ids(request.request_id)]
        found.append((got, tables, manager.take_new_block_ids()))
        request.num_computed_tokens += size
    manager.free(request)
    cells = [(cell.id, cell.group, cell.tokens) for cell in manager.block_pool.cells({})]
    return found, list(manager.block_pool.free_block_queue)[:6], cells


STEPS = (8, 8, 8, 6)


@pytest.mark.parametrize(("model", "steps", "flags", "found", "free", "keyed"), [
    ("W8", STEPS, {}, [                                   # two blocks before the window are given back, the last first
        ([[1, 2]], [[1, 2]], [1, 2]), ([[3, 4]], [[1, 2, 3, 4]], [3, 4]), ([[2, 1]], [[0, 0, 3, 4, 2, 1]], [2, 1]),
        ([[4, 3]], [[0, 0, 0, 0, 2, 1, 4, 3]], [4, 3])],
     [3, 2, 5, 6, 7, 8], [(1, 0, 24), (4, 0, 28)]),
    ("W6", (5, 5, 5, 5), {}, [
        ([[1, 2]], [[1, 2]], [1, 2]), ([[3]], [[1, 2, 3]], [3]), ([[1]], [[0, 2, 3, 1]], [1]),
        ([[2]], [[0, 0, 3, 1, 2]], [2])],
     [2, 1, 3, 4, 5, 6], []),
    ("K8", STEPS, {}, [                     # all blocks of a complete chunk are given back, with their keys
        ([[1, 2]], [[1, 2]], [1, 2]), ([[3, 4]], [[0, 0, 3, 4]], [3, 4]), ([[5, 6]], [[0, 0, 0, 0, 5, 6]], [5, 6]),
        ([[7, 8]], [[0, 0, 0, 0, 0, 0, 7, 8]], [7, 8])],
     [8, 9, 10, 11, 12, 13], [(block, 0, 4 * block) for block in range(1, 8)]),
    ("GA", STEPS, {}, [                     # a state at the end of a chunk; the one before the last is freed
        ([[1, 2], [0, 3]], [[1, 2], [0, 3]], [1, 2]), ([[4, 5], [0, 6]], [[1, 2, 4, 5], [0, 3, 0, 6]], [4, 5]),
        ([[3, 7], [0, 8]], [[1, 2, 4, 5, 3, 7], [0, 0, 0, 6, 0, 8]], [3, 7]),
        ([[6, 9], [0, 10]], [[1, 2, 4, 5, 3, 7, 6, 9], [0, 0, 0, 0, 0, 8, 0, 10]], [6, 9])],
     [10, 8, 9, 11, 12, 13],
     [(1, 0, 4), (2, 0, 8), (3, 0, 20), (4, 0, 12), (5, 0, 16), (6, 0, 28), (7, 0, 24)]),
    ("GA", (6, 6, 6), {}, [
        ([[1, 2], [0, 3]], [[1, 2], [0, 3]], [1, 2]), ([[4], [5]], [[1, 2, 4], [0, 3, 5]], [4]),
        ([[3, 6], [0, 7]], [[1, 2, 4, 3, 6], [0, 0, 5, 0, 7]], [3, 6])],
     [7, 5, 6, 8, 9, 10], [(1, 0, 4), (2, 0, 8), (3, 0, 16), (4, 0, 12)]),
    ("GA", (4, 12, 4, 9, 1), {"speculative_method": "ngram", "num_speculative_tokens": 2}, [
        ([[1, 2], [3, 4, 5]], [[1, 2], [3, 4, 5]], [1, 2]),                  # two scratch blocks behind the state
        ([[6, 7, 8], [4, 5, 9]], [[1, 2, 6, 7, 8], [3, 0, 0, 4, 5, 9]], [6, 7, 8]),      # they move to the end
        ([[3], [10]], [[1, 2, 6, 7, 8, 3], [0, 0, 0, 4, 5, 9, 10]], [3]),
        ([[4, 11], [9, 10, 12]], [[1, 2, 6, 7, 8, 3, 4, 11], [0, 0, 0, 0, 5, 0, 0, 9, 10, 12]], [4, 11]),
        ([[], []], [[1, 2, 6, 7, 8, 3, 4, 11], [0, 0, 0, 0, 0, 0, 0, 9, 10, 12]], [])],
     [12, 10, 9, 11, 5, 13],
     [(1, 0, 4), (2, 0, 8), (3, 0, 24), (4, 0, 28), (6, 0, 12), (7, 0, 16), (8, 0, 20)]),
])  # fmt: skip
def test_the_tables_of_a_prompt_in_chunks(model, steps, flags, found, free, keyed):
    assert life(model, steps, **flags) == (found, free, keyed)


def test_cells_have_owner_users_and_place_in_the_free_queue():
    server, manager = started(num_gpu_blocks=8, max_model_len=64)
    first, second = received(server, range(6), range(50, 54))
    manager.allocate_slots(first, 6, manager.empty_kv_cache_blocks)
    manager.allocate_slots(second, 4, manager.empty_kv_cache_blocks)
    manager.free(first)
    assert [tuple(cell) for cell in manager.block_pool.cells(manager.block_owners)] == [
        (1, 0, 4, 0, 0, 5, 1), (2, -1, 0, 0, 0, 0, 0), (3, 0, 4, 1, 1, -1, 1)]
    assert [cell.id for cell in manager.block_pool.cells({})] == [1, 3]


@pytest.mark.parametrize(("tokens", "reserved", "watermark", "fits"), [
    (28, 0, 0.0, True), (29, 0, 0.0, False), (24, 1, 0.0, True), (25, 1, 0.0, False), (24, 0, 0.125, True),
    (28, 0, 0.125, False),
])  # fmt: skip
def test_a_request_is_admitted_while_enough_blocks_stay_free(tokens, reserved, watermark, fits):
    """Seven blocks of four tokens are free."""
    server, manager = started(num_gpu_blocks=8, max_model_len=32, watermark=watermark, scheduler_reserve_full_isl=False)
    [request] = received(server, range(30))
    got = manager.allocate_slots(request, tokens, manager.empty_kv_cache_blocks, reserved_blocks=reserved)
    assert (got is not None) is fits


def test_lookahead_ends_at_the_longest_sequence():
    server, manager = started(num_gpu_blocks=40, max_model_len=32)
    [request] = received(server, range(30))
    assert manager.allocate_slots(request, 25, manager.empty_kv_cache_blocks, num_lookahead_tokens=4) == [
        [*range(1, 9)]]
    request.num_computed_tokens = 25
    assert manager.allocate_slots(request, 5, num_lookahead_tokens=9) == [[]]


@pytest.mark.parametrize(("build", "tokens", "promised", "waits"), [
    (NEW, 6, True, False), (f"{NEW}-repaired", 6, True, True), (f"{NEW}-repaired", 8, True, False),
    (f"{NEW}-repaired", 6, False, False),
])  # fmt: skip
def test_a_request_that_waits_for_a_block_of_this_step_needs_more_blocks_than_there_are(build, tokens, promised, waits):
    """The repaired rules let it wait for a block of which it uses a part: the copy would be made before the step."""
    server = ENGINE.start(build, "A", {"block_size": 4}, "none")
    manager = server.scheduler.kv_cache_manager
    first, second = received(server, range(8), range(8))
    manager.new_step_starts()
    manager.allocate_slots(first, 8, manager.empty_kv_cache_blocks)
    [group] = manager.coordinator.single_type_managers
    if not promised:
        group.cached_blocks_this_step.clear()
    needed = group.get_num_blocks_to_allocate(
        second, 9, manager.get_block_ids(first.request_id)[0], total_computed_tokens=tokens,
        num_local_computed_tokens=tokens, num_tokens_main_model=9, apply_admission_cap=False)
    assert (needed == manager.block_pool.num_gpu_blocks + 1) is waits


def test_only_the_admission_of_a_request_counts_at_most_the_blocks_that_it_holds():
    server = ENGINE.start(NEW, "A", {"block_size": 4}, "none")
    [request] = received(server, range(20))
    [group] = server.scheduler.kv_cache_manager.coordinator.single_type_managers
    group.max_admission_blocks_per_request = 3
    sizes = {"total_computed_tokens": 0, "num_local_computed_tokens": 0, "num_tokens_main_model": 20}
    assert [group.get_num_blocks_to_allocate(request, 20, (), **sizes, apply_admission_cap=capped)
            for capped in (True, False)] == [3, 5]  # fmt: skip


def test_a_lookup_beyond_the_known_hashes_ends_the_process():
    server, manager = started()
    [request] = received(server, range(8))
    [group] = manager.coordinator.single_type_managers

    def beyond(ask):
        return ask.hashes[99] if hasattr(ask, "hashes") else ()[0]

    group.find_rule = beyond
    with pytest.raises(EngineCoreDied, match="IndexError: list index out of range"):
        group.find_longest_cache_hit(request, 8, (0,), drop_eagle_block=False)


@pytest.mark.parametrize(("counted", "column", "found"), [(None, 2, 0), (1, 2, 1), (4, 2, 4)])
def test_a_state_inside_a_chunk_counts_no_block_as_published(monkeypatch, counted, column, found):
    server, manager = started("GA")
    [request] = received(server, range(20))
    group = manager.coordinator.single_type_managers[1]
    manager.allocate_slots(request, 12, manager.empty_kv_cache_blocks)
    monkeypatch.setattr(group, "_keeps_checkpoint", lambda *_: True)
    group.num_cached_block.pop(request.request_id, None)
    if counted is not None:
        group.num_cached_block[request.request_id] = counted
    group._cache_checkpoint(request, 12, (12, column))
    assert group.num_cached_block[request.request_id] == found


def test_a_request_without_blocks_publishes_no_part_of_one():
    server, manager = started("AS", kv_groups="A/8 S/8", prefix_match_unit=4)
    for prompt, tokens in ((range(13), 12), (range(6), 4), (range(13), 0), (range(3), 0)):
        [request] = received(server, prompt)
        for group in manager.coordinator.single_type_managers:
            assert group._cache_partial_tail_block(request, tokens) is None


def test_no_tokens_are_no_state():
    server, manager = started("AS", kv_groups="A/8 S/8", prefix_match_unit=4)
    [request] = received(server, range(3))
    group = manager.coordinator.single_type_managers[1]
    group.req_to_blocks[request.request_id] = [1]
    assert group._cache_partial_tail_block(request, 0) is None and manager.block_pool.keys_of(1) == []


@pytest.mark.parametrize("model", ["A", "W8", "K8", "GA"])
def test_a_request_without_blocks_gives_none_back(model):
    server, manager = started(model, num_gpu_blocks=20, max_model_len=64)
    [request] = received(server, range(13))
    number = request.request_id
    for group in manager.coordinator.single_type_managers:
        assert [*group.pop_blocks_for_free(number)] == []
        group.remove_skipped_blocks(request, 12)
        group.free(number)
    assert manager.get_block_ids(number) == [[]] * len(manager.coordinator.single_type_managers)
    manager.free(request)
    assert manager.block_pool.get_num_free_blocks() == 19


@pytest.mark.parametrize(("total", "blocks"), [(0, 0), (1, 1), (4, 1), (5, 2), (9, 3)])
def test_a_load_gets_blocks_for_its_tokens(total, blocks):
    server, manager = started(num_gpu_blocks=20, max_model_len=64)
    [request] = received(server, range(13))
    [group] = manager.coordinator.single_type_managers
    group.req_to_blocks[request.request_id] = []
    for _ in range(2):                                          # those that it has are enough
        group.allocate_external_computed_blocks(request.request_id, total)
        assert group.req_to_blocks[request.request_id] == [*range(1, blocks + 1)]


def test_a_state_inside_a_chunk_replaces_the_keys_of_its_block(monkeypatch):
    server, manager = started("GA")
    [request] = received(server, range(20))
    group, pool = manager.coordinator.single_type_managers[1], manager.block_pool
    manager.allocate_slots(request, 12, manager.empty_kv_cache_blocks)
    block = group.req_to_blocks[request.request_id][2]
    pool.cache_partial_block(request, block, 12, group.kv_cache_group_id)
    before = pool.keys_of(block)
    monkeypatch.setattr(group, "_keeps_checkpoint", lambda *_: True)
    key = group._cache_checkpoint(request, 12, (8, 2))
    assert len(before) == 1 and pool.keys_of(block) == [key] != before and pool.ends_at(block, 8)
    monkeypatch.setattr(group, "_keeps_checkpoint", lambda *_: False)
    assert group._cache_checkpoint(request, 12, (8, 2)) is None and pool.keys_of(block) == []


@pytest.mark.parametrize(("position", "tokens", "interval", "junction", "found"), [
    (12, 13, 0, 0, (True, False, True, 0, False)), (12, 12, 0, 0, (True, False, False, 0, False)),
    (4, 13, 0, 4, (False, True, True, 0, False)), (8, 13, 0, 0, (False, False, True, 0, False)),
    (8, 13, 8, 0, (False, False, True, 8, True)), (4, 13, 8, 0, (False, False, True, 8, False)),
    (8, 13, -1, 0, (False, False, True, -1, True)), (4, 13, -1, 0, (False, False, True, -1, False)),
    (24, 30, 24, 0, (False, False, True, 24, True)), (16, 30, 24, 0, (False, False, True, 24, False)),
    (48, 50, 24, 0, (False, False, True, 24, True)), (8, 13, 16, 0, (False, False, True, 16, False)),
])  # fmt: skip
def test_a_state_inside_a_chunk_is_kept_by_its_place(position, tokens, interval, junction, found):
    """Blocks have eight tokens, and hits end at multiples of four."""
    server, manager = started("AS", kv_groups="A/8 S/8", prefix_match_unit=4, mamba_prefill_checkpoint_alignment=4,
                              prefix_cache_retention_interval=interval)  # fmt: skip
    [request] = received(server, range(13))
    request.shared_prefix_boundary = junction
    group, asked = manager.coordinator.single_type_managers[1], []
    group.rules = group.rules.changed({"keeps_inside": lambda ask: asked.append(tuple(ask)) or True})
    assert group._keeps_checkpoint(request, position, tokens) and asked == [found]


def test_a_request_that_leaves_is_forgotten_with_its_states():
    server, manager = started("GA")
    [request] = received(server, range(20))
    number, group = request.request_id, manager.coordinator.single_type_managers[1]
    manager.allocate_slots(request, 12, manager.empty_kv_cache_blocks)
    group.checkpoints[number], group.num_retired_blocks[number] = (4, 1), 1
    group.partial_hit_reqs[number] = 1, 1
    [other] = received(server, range(20))
    states = [single.BoundaryState(one, 1, 5, 4) for one in (request, other, request)]
    group.pending_boundary_state_offloads = [*states]
    assert len([*group.pop_blocks_for_free(number)]) == 3
    assert number not in {*group.checkpoints, *group.num_retired_blocks, *group.partial_hit_reqs,
                          *group.num_cached_block, *group.req_to_blocks,
                          *group.allocated_block_reqs}  # fmt: skip
    assert group.pending_boundary_state_offloads == states[1:2]


def test_a_hit_inside_a_block_is_cut_to_whole_blocks():
    _, manager = started("AS", kv_groups="A/8 S/8", prefix_match_unit=4)
    computed = manager.empty_kv_cache_blocks._replace(n=12, tables={0: [1, 2], 1: [0, 3]})
    cut = manager.truncate_computed_blocks(computed)
    assert (cut.n, cut.tables) == (8, {0: [1], 1: [0]})
    assert manager.truncate_computed_blocks(cut) == cut


@pytest.mark.parametrize(("model", "groups", "unit", "alignment"), [
    ("A", "A/8", 0, 1), ("AS", "A/8 S/8", 4, 1), ("AS", "A/8 S/8", 0, 8), ("W8 A", "A/8 W8/4", 0, 8),
])  # fmt: skip
def test_hits_of_several_groups_are_whole_blocks_unless_parts_are_found(model, groups, unit, alignment):
    _, manager = started(model, kv_groups=groups, prefix_match_unit=unit)
    assert manager.coordinator._alignment == alignment


@pytest.mark.parametrize(("tokens", "partial"), [(4, (0, 2)), (8, None), (12, (1, 3))])
def test_a_state_within_a_block_is_a_part_of_it(monkeypatch, tokens, partial):
    server, manager = started("AS", kv_groups="A/8 S/8", prefix_match_unit=4)
    [request] = received(server, range(20))
    group, number = manager.coordinator.single_type_managers[1], request.request_id
    group.req_to_blocks[number], group.num_cached_block[number] = [2, 3], 0
    monkeypatch.setattr(group, "_resumes_at", lambda *_: True)
    key = group._cache_partial_tail_block(request, tokens)
    assert manager.block_pool.keys_of(2 if tokens <= 8 else 3) == [key]
    assert group.partial_hit_reqs.get(number) == partial
    assert group.num_cached_block[number] == (0 if partial is None else partial[0])


@pytest.mark.parametrize(("blocks", "again", "published"), [
    ([2], True, True), ([2], False, False), ([0], True, False),
])  # fmt: skip
def test_a_state_that_has_its_key_is_published_again_by_some_releases(monkeypatch, blocks, again, published):
    """A column without a block has no state."""
    server, manager = started("AS", kv_groups="A/8 S/8", prefix_match_unit=4)
    [request] = received(server, range(20))
    group = manager.coordinator.single_type_managers[1]
    group.req_to_blocks[request.request_id] = blocks
    asked = []
    monkeypatch.setattr(group, "_resumes_at", lambda *_: True)
    monkeypatch.setattr(group.block_pool, "ends_at", lambda block, tokens: True)
    monkeypatch.setattr(group.block_pool, "cache_partial_block", lambda *given: asked.append(given) or 5)
    monkeypatch.setattr(group, "rules", replace(group.rules, key_again=lambda: again))
    assert group._cache_partial_tail_block(request, 4) == (5 if published else None)
    assert asked == [(request, 2, 4, group.kv_cache_group_id)] * published


def test_a_state_inside_a_chunk_is_published_instead_of_that_at_its_end(monkeypatch):
    server, manager = started("AS", kv_groups="A/8 S/8", prefix_match_unit=4)
    [request] = received(server, range(20))
    group, asked = manager.coordinator.single_type_managers[1], []
    group.checkpoints[request.request_id] = 8, 0
    monkeypatch.setattr(group, "_cache_checkpoint", lambda *found: asked.append(found) or 77)
    assert group._cache_partial_tail_block(request, 12) == 77 and asked == [(request, 12, (8, 0))]


@pytest.mark.parametrize(("start", "in_flight", "tokens"), [(20, 0, 20), (20, 8, 12), (4, 8, 0), (8, 8, 0)])
def test_blocks_that_steps_in_flight_read_are_not_given_back(start, in_flight, tokens, monkeypatch):
    server, manager = started("W8")
    [request] = received(server, range(30))
    request.num_in_flight_tokens = in_flight
    asked = []
    monkeypatch.setattr(manager.coordinator, "remove_skipped_blocks", lambda request, n: asked.append(n))
    manager.remove_skipped_blocks(request, start)
    assert asked == [tokens]


@pytest.mark.parametrize(("model", "position"), [("A", None), ("GA", 1), ("S", 0)])
def test_a_reserved_block_of_the_first_group_of_states_is_known(model, position):
    server, manager = started(model, num_gpu_blocks=20, max_model_len=64)
    [request] = received(server, range(13))
    assert not manager.has_checkpoint_block(request.request_id)
    if position is not None:
        manager.coordinator.single_type_managers[position].checkpoints[request.request_id] = 4, 1
        assert manager.has_checkpoint_block(request.request_id)
        assert not manager.has_checkpoint_block(request.request_id + 1)


def test_states_for_the_connector_are_given_once_by_request():
    server, manager = started("GA")
    first, second = received(server, range(20), range(20))
    group = manager.coordinator.single_type_managers[1]
    states = [single.BoundaryState(request, 1, 5, n) for request, n in ((first, 4), (second, 4), (first, 8))]
    group.pending_boundary_state_offloads = [*states]
    assert manager.take_boundary_state_offloads() == {
        first.request_id: [states[0], states[2]], second.request_id: [states[1]]}
    assert manager.take_boundary_state_offloads() == {}


def test_a_popped_request_has_no_blocks_which_are_still_in_use():
    server, manager = started(num_gpu_blocks=8, max_model_len=64)
    [request] = received(server, range(10))
    manager.allocate_slots(request, 10, manager.empty_kv_cache_blocks)
    assert [*manager.pop_blocks_for_free(request)] == [1, 2, 3]
    assert manager.get_block_ids(request.request_id) == [[]] and manager.block_pool.get_num_free_blocks() == 4


@pytest.mark.parametrize("chunks", [0, 8])
@pytest.mark.parametrize("caching", [True, False])
def test_blocks_are_published_only_with_a_prefix_cache(caching, chunks):
    """Offloaded chunks need hashes of the prompt, too."""
    server, manager = started(enable_prefix_caching=caching, num_cpu_chunks=chunks)
    [request] = received(server, range(10))
    manager.allocate_slots(request, 10, manager.empty_kv_cache_blocks)
    assert bool(manager.block_pool.keys_of(1)) is caching
    found = manager.get_computed_blocks(received(server, range(10))[0])
    assert found.n == (8 if caching else 0)
    assert manager.prefix_cache_lookup_enabled(request) is caching


@pytest.mark.parametrize(("computed", "ahead", "blocks"), [
    (0, 0, 5), (0, 1, 6), (0, 4, 6), (0, 5, 7), (8, 0, 3), (8, 1, 4),
])  # fmt: skip
def test_a_request_in_progress_takes_blocks_for_its_known_tokens_and_those_ahead(computed, ahead, blocks):
    server, manager = started(num_gpu_blocks=20, max_model_len=64)
    [request] = received(server, range(20))
    if computed:
        manager.allocate_slots(request, computed, manager.empty_kv_cache_blocks)
        request.num_computed_tokens = computed
    assert manager.get_num_remaining_blocks(request, ahead) == blocks


@pytest.mark.parametrize(("length", "most", "blocks"), [(20, 64, 5), (30, 32, 8), (20, 20, 5)])
def test_a_request_takes_no_more_blocks_than_the_longest_sequence(length, most, blocks):
    server, manager = started(num_gpu_blocks=20, max_model_len=most)
    [request] = received(server, range(length - 1))
    request.append_output_token_ids(7)
    assert manager.get_num_remaining_blocks(request, 0) == blocks


@pytest.mark.parametrize(("whole", "fits"), [(True, False), (False, True)])
def test_a_prompt_that_does_not_fit_as_a_whole_is_refused_if_the_server_reserves_it(whole, fits):
    """Of twenty tokens eight are asked for, and there are four blocks of four."""
    server, manager = started(num_gpu_blocks=5, max_model_len=64, scheduler_reserve_full_isl=whole)
    [request] = received(server, range(20))
    found = manager.allocate_slots(request, 8, manager.empty_kv_cache_blocks)
    assert found == ([[1, 2]] if fits else None)
    assert manager.num_refused_blocks == 0 and manager.block_pool.get_num_free_blocks() == (2 if fits else 4)


def test_lookups_and_allocations_are_logged():
    server, manager = started(num_gpu_blocks=8, max_model_len=64, scheduler_reserve_full_isl=False)
    first, second = received(server, range(10), range(30))
    manager.allocate_slots(first, 10, manager.empty_kv_cache_blocks)
    manager.free(first)
    found = manager.get_computed_blocks(second)
    manager.allocate_slots(second, 22, found, num_lookahead_tokens=3)
    kinds = AskedForBlocks, Got, LookedUp, Refused
    assert [event for event in server.log.events if isinstance(event, kinds)] == [
        AskedForBlocks(0, 0, hit=0, new=10, lookahead=0), Got([[1, 2, 3]]), LookedUp(1, 8, 0, [[1, 2]]),
        AskedForBlocks(1, 0, hit=8, new=22, lookahead=3), Refused()]  # fmt: skip


def test_a_lookup_that_finds_nothing_has_no_tables():
    server, manager = started("GA")
    [request] = received(server, range(10))
    assert manager.get_computed_blocks(request).n == 0
    (event,) = [event for event in server.log.events if isinstance(event, LookedUp)]
    assert (event.request, event.hit, [*event.tables]) == (request.request_id, 0, [])


@pytest.mark.parametrize(("model", "blocks"), [("A", 10), ("W8", 7)])
def test_a_long_prompt_takes_at_most_the_blocks_of_a_window_and_a_step(model, blocks):
    server, manager = started(model, num_gpu_blocks=40, max_model_len=64, max_num_batched_tokens=16,
                              async_scheduling=False)
    [request] = received(server, range(40))
    assert manager.get_num_remaining_blocks(request, 0) == blocks


@pytest.mark.parametrize(("blocks", "runs", "found"), [
    ([], False, (28, 2)), ([0, 0], False, (28, 2)), ([5, 6, 0], False, (28, 2)), ([0, 0, 7], False, None),
    ([0, 0, 7], True, (28, 2)), ([0, 0, 7, 8], True, (28, 2)), ([0, 0, 7, 8, 9], True, None),
    ([0, 7, 8, 9, 10], True, None), ([0, 0, 0, 8, 9], True, (28, 2)),
])  # fmt: skip
def test_a_state_inside_a_chunk_needs_a_column_without_a_state(blocks, runs, found):
    """The chunk ends after 30 tokens, in the fourth column; a running request has two scratch blocks at its end."""
    server, manager = started("AS", kv_groups="A/8 S/8", prefix_match_unit=4, mamba_prefill_checkpoint_alignment=4,
                              num_speculative_tokens=2, speculative_method="ngram",
                              prefix_cache_retention_interval=-1)  # fmt: skip
    [request] = received(server, range(30))
    group = manager.coordinator.single_type_managers[1]
    group.req_to_blocks[request.request_id] = blocks
    if runs:
        group.allocated_block_reqs.add(request.request_id)
    assert group._internal_checkpoint(request, 0, 30) == found


@pytest.mark.parametrize(("boundary", "drop", "ends"), [(0, False, [12]), (0, True, [12]), (8, False, [12, 8]),
                                                        (8, True, [12, 8, 4])])
def test_complete_blocks_are_kept_for_a_sibling_that_resumes_at_a_junction(boundary, drop, ends):
    server, manager = started("W8")
    [request] = received(server, range(20))
    [group] = manager.coordinator.single_type_managers
    request.shared_prefix_boundary, group.use_eagle = boundary, drop
    group.req_to_blocks[request.request_id] = [1, 2, 3]
    asked = []

    def mask(ask):
        asked.append([*ask.ends])

    mask.rule = "R"
    group.mask_rule = mask
    group._cache_full_blocks(request, 0, 3, [12])
    assert asked == [ends]


@pytest.mark.parametrize(("partial", "unit"), [(True, 4), (False, 0)])
def test_a_lookup_knows_the_reach_of_the_hashes_and_the_unit_of_hits_inside_blocks(partial, unit):
    server, manager = started("AS", kv_groups="A/8 S/8", prefix_match_unit=4 if partial else 0)
    [request] = received(server, range(13))
    config = manager.vllm_config.kv_cache_config
    query = manager.coordinator._lookup(request, 12)
    reach = manager.rules.reach(12, len(request.block_hashes) * config.hash_block_size)
    assert query == PromptQuery(12, reach=reach, unit=unit, kinds=config.attention_groups)


@pytest.mark.parametrize(("siblings", "tokens", "boundary", "computed", "junction"), [
    (True, 8, 8, 4, True), (True, 8, 12, 4, False), (True, 8, 0, 4, False), (True, 8, 8, 8, False),
    (True, 8, 8, 7, True), (False, 8, 8, 4, False), (True, 12, 12, 0, True), (True, 16, 16, 0, False),
])  # fmt: skip
def test_a_state_at_a_junction_is_that_of_a_chunk_of_the_prompt(siblings, tokens, boundary, computed, junction):
    """The prompt has 13 tokens, hits end at multiples of four, and lookups of the drafter drop a block."""
    server, manager = started("AS", kv_groups="A/8e S/8", prefix_match_unit=4, speculative_method="eagle",
                              num_speculative_tokens=1, enable_mamba_shared_prefix_checkpoint=siblings)  # fmt: skip
    [request] = received(server, range(13))
    request.shared_prefix_boundary, request.num_computed_tokens = boundary, computed
    group, asked = manager.coordinator.single_type_managers[1], []
    group.rules = group.rules.changed({"state_tail": lambda ask: asked.append(tuple(ask)) or True})
    assert group._resumes_at(request, tokens) is True
    assert asked == [(tokens, 12, 12, 4, 8, junction)]
    assert group._resumes_at(request, tokens + 1) is False and len(asked) == 1


@pytest.mark.parametrize(("chunks", "offered"), [(0, []), (8, [12])])
def test_published_states_are_offered_to_cpu_memory_alone(chunks, offered):
    server, manager = started("GA", num_cpu_chunks=chunks)
    [request] = received(server, range(13))
    manager.allocate_slots(request, 12, manager.empty_kv_cache_blocks)
    states = manager.take_boundary_state_offloads().get(request.request_id, [])
    assert [state.boundary_tokens for state in states] == offered


@pytest.mark.parametrize(("total", "idle"), [(8, 2), (11, 1), (15, 0), (16, 0)])
def test_found_blocks_that_a_load_leaves_behind_the_window_need_no_place(total, idle):
    """Two unused blocks of four tokens are found; tokens behind them are loaded."""
    server, manager = started("W8", num_gpu_blocks=20, max_model_len=64)
    [request] = received(server, range(30))
    [group] = manager.coordinator.single_type_managers
    asked = []
    group.rules = group.rules.changed({"needed": lambda ask: asked.append((ask.hit, ask.idle)) or 0})
    group.get_num_blocks_to_allocate(request, 20, [1, 2], total_computed_tokens=total, num_local_computed_tokens=8,
                                     num_tokens_main_model=20, apply_admission_cap=False)  # fmt: skip
    assert asked == [(2, idle)]


def test_a_request_counts_published_blocks_from_its_first_complete_one_on():
    server, manager = started()
    [request] = received(server, range(10))
    [group] = manager.coordinator.single_type_managers
    for size, published in ((3, {}), (4, {0: 1}), (3, {0: 2})):
        manager.allocate_slots(request, size, None if request.num_computed_tokens else manager.empty_kv_cache_blocks)
        request.num_computed_tokens += size
        assert group.num_cached_block == published


@pytest.mark.parametrize(("prompt", "found"), [(7, None), (8, None), (9, (8, 0)), (13, (12, 0)), (16, (12, 0)),
                                               (17, (16, 1))])
def test_a_state_inside_a_chunk_lies_in_the_column_before_the_last(prompt, found):
    server, manager = started("AS", kv_groups="A/8 S/8", prefix_match_unit=4, mamba_prefill_checkpoint_alignment=4,
                              prefix_cache_retention_interval=-1)  # fmt: skip
    [request] = received(server, range(prompt))
    group = manager.coordinator.single_type_managers[1]
    assert group._internal_checkpoint(request, 0, prompt) == found


def test_the_copy_of_a_running_request_promises_its_first_key():
    server, manager = started("AS", kv_groups="A/8 S/8", prefix_match_unit=4)
    [request] = received(server, range(13))
    group, pool = manager.coordinator.single_type_managers[1], manager.block_pool
    source, copy = pool.get_new_blocks(2)
    for key, tokens in ((11, 12), (13, 12)):
        pool.insert_block_hash(key, source, tokens)
    group.allocated_block_reqs.add(request.request_id)
    group.partial_hit_reqs[request.request_id] = 1, source
    assert group._copy_partial_hit(request.request_id, copy) == []
    assert (pool.keys_of(source), pool.keys_of(copy), group.cached_blocks_this_step) == ([], [11, 13], {11})
    assert (group.pending_cow_copies, pool.ref_cnt[source]) == ([(source, copy)], 2)


@pytest.mark.parametrize(("prompt", "tokens", "junction"), [(12, 12, True), (13, 12, True), (11, 12, False)])
def test_a_junction_is_not_behind_the_prompt(prompt, tokens, junction):
    server, manager = started("AS", kv_groups="A/8e S/8", prefix_match_unit=4, speculative_method="eagle",
                              num_speculative_tokens=1, enable_mamba_shared_prefix_checkpoint=True)  # fmt: skip
    [request] = received(server, range(prompt))
    request.shared_prefix_boundary = tokens
    group, asked = manager.coordinator.single_type_managers[1], []
    group.rules = group.rules.changed({"state_tail": lambda ask: asked.append(ask.junction) or True})
    assert group._resumes_at(request, tokens) and asked == [junction]


def test_the_older_state_of_a_request_lies_before_its_scratch_blocks():
    server, manager = started("GA", num_gpu_blocks=40, max_model_len=64, num_speculative_tokens=2,
                              speculative_method="ngram")  # fmt: skip
    [request] = received(server, range(30))
    group, older = manager.coordinator.single_type_managers[1], []
    for size in (4, 12, 4, 9):
        new = None if request.num_computed_tokens else manager.empty_kv_cache_blocks
        manager.allocate_slots(request, size, new)
        request.num_computed_tokens += size
        older.append(group.last_state_block_idx.get(request.request_id))
    assert older == [None, 0, 3, 4]
    manager.free(request)
    assert [*map(len, (group.last_state_block_idx, group.num_retired_blocks, group.allocated_block_reqs,
                       group.checkpoints, group.num_cached_block, group.req_to_blocks))] == [0] * 6  # fmt: skip


def test_blocks_of_a_token_each_are_found_from_the_first_one_on():
    server, manager = started(block_size=1)
    first, second = received(server, range(3), range(3))
    manager.allocate_slots(first, 3, manager.empty_kv_cache_blocks)
    found = manager.get_computed_blocks(second)
    assert found.n == 2 and manager.allocate_slots(second, 1, found) == [[4]]
    assert manager.get_block_ids(second.request_id) == [[1, 2, 4]]
