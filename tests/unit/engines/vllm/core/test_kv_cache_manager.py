"""The cache of a server: its manager, the coordinator, and the managers of the groups."""

from __future__ import annotations

import pytest

from cachesim.engines.base import Request
from cachesim.engines.vllm import ENGINE

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


def test_a_hit_inside_a_block_is_cut_to_whole_blocks():
    _, manager = started("AS", kv_groups="A/8 S/8", prefix_match_unit=4)
    computed = manager.empty_kv_cache_blocks._replace(n=12, tables={0: [1, 2], 1: [0, 3]})
    cut = manager.truncate_computed_blocks(computed)
    assert (cut.n, cut.tables) == (8, {0: [1], 1: [0]})
    assert manager.truncate_computed_blocks(cut) == cut


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


@pytest.mark.parametrize(("model", "blocks"), [("A", 10), ("W8", 7)])
def test_a_long_prompt_takes_at_most_the_blocks_of_a_window_and_a_step(model, blocks):
    server, manager = started(model, num_gpu_blocks=40, max_model_len=64, max_num_batched_tokens=16,
                              async_scheduling=False)
    [request] = received(server, range(40))
    assert manager.get_num_remaining_blocks(request, 0) == blocks


@pytest.mark.parametrize(("chunks", "offered"), [(0, []), (8, [12])])
def test_published_states_are_offered_to_cpu_memory_alone(chunks, offered):
    server, manager = started("GA", num_cpu_chunks=chunks)
    [request] = received(server, range(13))
    manager.allocate_slots(request, 12, manager.empty_kv_cache_blocks)
    states = manager.take_boundary_state_offloads().get(request.request_id, [])
    assert [state.boundary_tokens for state in states] == offered


def test_blocks_of_a_token_each_are_found_from_the_first_one_on():
    server, manager = started(block_size=1)
    first, second = received(server, range(3), range(3))
    manager.allocate_slots(first, 3, manager.empty_kv_cache_blocks)
    found = manager.get_computed_blocks(second)
    assert found.n == 2 and manager.allocate_slots(second, 1, found) == [[4]]
    assert manager.get_block_ids(second.request_id) == [[1, 2, 4]]
