"""Requests that store and load chunks. ``python -m tests.peers.vllm_compare --offload`` runs a server with them beside
vLLM's."""

from __future__ import annotations

import pytest

from cachesim.engines.vllm.kv_offload.chunk_lookup import OffloadedGroup
from cachesim.engines.vllm.kv_offload.cpu_manager import CPUOffloadingManager
from cachesim.engines.vllm.kv_offload.transfer_jobs import (
    OfferedTokens,
    OffloadConfig,
    RequestOffloadState,
    TransferJobs,
)
from cachesim.engines.vllm.rules.offload import chunk_with_reachable, end_of_others, touch_nothing

HASHES = [*range(100, 108)]
BLOCKS = [*range(1, 9)]


def server(chunks=8, per_chunk=1, caching=True):
    """Return transfers of a pool with one group of blocks of four tokens."""
    return TransferJobs(
        CPUOffloadingManager(chunks),
        OffloadConfig([OffloadedGroup(4, 4 * per_chunk)], per_chunk, 4, caching, chunk_with_reachable, touch_nothing,
                      end_of_others))


def client_of(transfers, local=0, found=0):
    """Return a client that finds so many tokens behind the local ones; it has blocks 1, 2, ..."""
    client = RequestOffloadState(1)
    assert transfers.lookup(client, HASHES, local, 4 * len(HASHES)) == found
    client.block_ids = [BLOCKS]
    return client


def offer_of(transfers, client, tokens):
    """Offer the first tokens of a prompt, all of whose blocks can be found again."""
    return transfers.offer(client, HASHES, OfferedTokens(tokens, decoding=False), lambda group, first, last: None)


def offered(transfers, client, tokens):
    """Store what is missing in the beginning of a prompt, all or nothing."""
    offer = offer_of(transfers, client, tokens)
    room = offer.free + len(offer.idle)
    return transfers.begin_store(offer, len(offer.missing)) if len(offer.missing) <= room else None


def store(transfers, tokens, end=True):
    """Store the beginning of the prompt for a new request."""
    client = client_of(transfers)
    made = offered(transfers, client, tokens)
    if end:
        transfers.complete(made.job_id)
        transfers.manager.on_request_finished(client.access)
    return client, made


def test_only_complete_chunks_are_stored_and_each_once():
    client, made = store(transfers := server(per_chunk=2), 23)
    assert (made.keys, made.copies) == (((101, 0), (103, 0)), ((1, 0), (2, 1), (3, 2), (4, 3)))
    assert offered(transfers, client, 23) is None
    assert offered(transfers, client, 24).copies == ((5, 4), (6, 5))


def test_a_stored_prefix_is_loaded_behind_the_blocks_that_the_pool_holds():
    store(transfers := server(), 20)
    client = client_of(transfers, 8, 12)
    made = transfers.begin_load(client, [[1, 2, 11, 12, 13, 14]], 12)
    assert (made.keys, made.copies) == (((102, 0), (103, 0), (104, 0)), ((11, 2), (12, 3), (13, 4)))
    assert (made.is_store, made.evicted, made.is_whole) == (False, 0, True)
    client.block_ids = [[1, 2, 11, 12, 13, 14]]
    transfers.complete(made.job_id)
    assert offered(transfers, client, 24).copies == ((14, 5),)


def test_a_load_may_begin_inside_a_chunk():
    store(transfers := server(per_chunk=2), 24)
    made = transfers.begin_load(client_of(transfers, 4, 20), [[1, 12, 13, 14, 15, 16]], 20)
    assert made.copies == ((12, 1), (13, 2), (14, 3), (15, 4), (16, 5)) and len(made.keys) == 3


def test_a_request_waits_for_chunks_that_are_written_or_loaded():
    _, made = store(transfers := server(), 20, end=False)
    client_of(transfers, found=None)
    transfers.complete(made.job_id)
    first = client_of(transfers, found=20)
    load = transfers.begin_load(first, [[*range(11, 19)]], 20)
    client_of(transfers, found=None)
    assert transfers.lookup(first, HASHES, 0, 32) is None
    transfers.complete(load.job_id)
    client_of(transfers, found=20)


def test_without_prefix_caching_two_requests_load_the_same_chunks():
    store(transfers := server(caching=False), 20)
    transfers.begin_load(client_of(transfers, found=20), [[*range(11, 19)]], 20)
    client_of(transfers, found=20)


def test_a_store_without_room_is_offered_again():
    client, made = store(transfers := server(chunks=2), 8, end=False)
    assert offered(transfers, client, 16) is None
    transfers.complete(made.job_id)
    later = offered(transfers, client, 16)
    assert (later.keys, later.evicted) == (((102, 0), (103, 0)), 2)


def test_what_is_offered_and_there_already_makes_no_room():
    store(transfers := server(chunks=3), 8)
    offer = offer_of(transfers, client_of(transfers, found=8), 16)
    assert (offer.missing, offer.free, offer.idle) == ([(102, 0), (103, 0)], 1, set())


def test_a_chunk_that_was_loaded_in_part_is_not_offered_again():
    store(transfers := server(per_chunk=2), 16)
    client = RequestOffloadState(1)
    assert transfers.lookup(client, HASHES, 4, 15) == 11
    client.block_ids = [BLOCKS]
    transfers.complete(transfers.begin_load(client, client.block_ids, 11).job_id)
    for _ in range(2):                                  # its last token is evaluated: only one chunk is complete
        assert offer_of(transfers, client, 15).missing == []
        assert client.next_stored_chunk_idx == [2]
        transfers.begin_store(offer_of(transfers, client, 15), 0)


def test_a_state_goes_to_the_last_place_of_its_chunk():
    transfers = server(per_chunk=2)
    client = client_of(transfers)
    offer = transfers.offer_state(client, (103, 0), 16)
    assert (offer.missing, offer.free, offer.idle, client.ends[103, 0]) == ([(103, 0)], 8, set(), 16)
    made = transfers.begin_state_store(offer, 9)
    assert (made.keys, made.copies, made.is_store, made.evicted) == (((103, 0),), ((9, 1),), True, 0)
    offer = transfers.offer_state(client, (103, 0), 16)
    assert (offer.missing, offer.free, offer.idle) == ([], 0, set()), "nothing needs room"


def test_blocks_that_a_window_gave_back_are_not_copied():
    transfers = server(per_chunk=2)
    client = client_of(transfers)
    client.block_ids = [[0, 2, 3, 4]]
    made = transfers.begin_store(offer_of(transfers, client, 16)._replace(missing=[(101, 0), (103, 0)]), 2)
    assert (made.copies, made.is_whole) == (((2, 1), (3, 2), (4, 3)), True)


@pytest.mark.parametrize(("tokens", "decoding", "eagle", "stored"), [
    (16, False, False, 4), (16, True, False, 4), (16, False, True, 4), (16, True, True, 3), (19, True, True, 3),
    (4, True, True, 0), (3, True, True, 0), (3, False, True, 0), (40, False, False, 8),
])  # fmt: skip
def test_the_last_chunk_of_a_drafters_group_waits_while_a_request_generates(tokens, decoding, eagle, stored):
    """There are eight blocks, and as many hashes."""
    transfers = TransferJobs(
        CPUOffloadingManager(8), OffloadConfig([OffloadedGroup(4, 4, is_eagle=eagle)], 1, 4, True,
                                               chunk_with_reachable, touch_nothing, end_of_others))  # fmt: skip
    client = client_of(transfers)
    offer = transfers.offer(client, HASHES, OfferedTokens(tokens, decoding), lambda group, first, last: None)
    assert len(offer.missing) == stored


@pytest.mark.parametrize(("found", "touched"), [(0, [100, 101, 102, 103, 104]), (12, [102, 103, 104]),
                                                         (20, [104])])  # fmt: skip
def test_a_release_may_touch_the_chunks_from_a_length_on(found, touched):
    seen = []
    manager = CPUOffloadingManager(8)
    manager.touch = lambda keys: seen.append([block_hash for block_hash, _ in keys])
    groups = [OffloadedGroup(4, 4), OffloadedGroup(4, 4, 1)]
    transfers = TransferJobs(manager, OffloadConfig(
        groups, 1, 4, True, chunk_with_reachable,
        lambda chunks, window: None if window else max(0, chunks - 1), end_of_others))  # fmt: skip
    state = RequestOffloadState(2)
    state.offload_keys = [[(block_hash, 0) for block_hash in range(100, 105)], [(1, 1)]]
    state.num_hit_tokens = found
    transfers.touch(state)
    assert seen == [touched]


def test_a_request_that_starts_again_may_offer_its_chunks_again():
    transfers = server()
    client, _ = store(transfers, 20)
    assert (client.next_stored_chunk_idx, client.block_ids) == ([5], [BLOCKS])
    client.restart(offers_again=False)
    assert (client.next_stored_chunk_idx, client.block_ids) == ([5], [[]])
    client.restart(offers_again=True)
    assert client.next_stored_chunk_idx == [0]


def test_a_prompt_whose_chunks_are_all_stored_asks_for_no_room():
    store(transfers := server(chunks=3), 8)
    offer = offer_of(transfers, client_of(transfers, found=8), 8)
    assert (offer.ends, offer.missing, offer.free, offer.idle) == ([2], [], 0, set())


def test_transfers_are_numbered_from_0():
    transfers = server()
    client, first = store(transfers, 4)
    jobs = [first, offered(transfers, client, 8), offered(transfers, client, 12)]
    assert [job.job_id for job in jobs] == [0, 1, 2] and [*transfers.jobs] == [1, 2]


def test_a_lookup_and_a_store_touch_chunks():
    transfers = server()
    store(transfers, 20)
    transfers.config = transfers.config._replace(touches=lambda chunks, window: chunks - 1)
    seen = []
    transfers.manager.touch = lambda keys: seen.append([block_hash for block_hash, _ in keys])
    client = client_of(transfers, found=20)
    assert seen == [HASHES[4:]]
    assert offered(transfers, client, 20) is None and seen == [HASHES[4:]], "nothing is missing"
    offered(transfers, client, 24)
    assert seen == [HASHES[4:]] * 2


def test_each_chunk_ends_at_a_length_of_the_prompt():
    transfers = server(per_chunk=2)
    client = client_of(transfers)
    assert client.ends == {(101, 0): 8, (103, 0): 16, (105, 0): 24, (107, 0): 32}
    assert client.offload_keys == [[*client.ends]]
    transfers.update_offload_keys(client, [*HASHES, 108, 109])
    assert client.offload_keys[0][4:] == [(109, 0)] and client.ends[109, 0] == 40


@pytest.mark.parametrize(("local", "tokens", "found"), [(0, 12, 12), (0, 16, None), (4, 12, 8), (4, 16, None)])
def test_a_request_waits_only_for_chunks_that_its_load_needs(local, tokens, found):
    """Another request loads the fourth and fifth chunk."""
    store(transfers := server(), 20)
    transfers.begin_load(client_of(transfers, 12, 8), [[1, 2, 3, 14, 15]], 8)
    assert transfers.lookup(RequestOffloadState(1), HASHES, local, tokens) == found


def test_a_request_with_other_tokens_in_the_pool_waits_for_none_of_them():
    """Another request loads the first two chunks, which this one has."""
    store(transfers := server(), 20)
    transfers.begin_load(client_of(transfers, found=20), [[11, 12]], 8)
    assert transfers.lookup(RequestOffloadState(1), HASHES, 8, 32) == 12


@pytest.mark.parametrize(("tables", "is_whole"), [
    ([[1, 2, 3, 4], [5, 6, 7, 8]], True), ([[1, 2, 3, 4], [5, 0, 7, 0]], False), ([[1, 0, 3, 0], [5, 6, 7, 8]], False),
    ([[0, 2, 3, 4], [0, 6, 7, 8]], True),
])  # fmt: skip
def test_a_store_is_whole_if_the_chunks_of_every_group_get_their_blocks(tables, is_whole):
    """Chunks have two blocks. The worker takes two blocks for a single chunk if each of two chunks has one."""
    groups = [OffloadedGroup(4, 8), OffloadedGroup(4, 8, window_chunks=1)]
    transfers = TransferJobs(CPUOffloadingManager(8), OffloadConfig(groups, 2, 4, True, chunk_with_reachable,
                                                                    touch_nothing, end_of_others))  # fmt: skip
    client = RequestOffloadState(2)
    client.block_ids = tables
    transfers.update_offload_keys(client, HASHES)
    offer = offer_of(transfers, client, 16)._replace(missing=[(101, 0), (103, 0), (101, 1), (103, 1)])
    assert transfers.begin_store(offer, 4).is_whole is is_whole


def window_jobs(per_chunk=1):
    """Return transfers of a group of all tokens and of a window of five tokens."""
    groups = [OffloadedGroup(4, 4 * per_chunk), OffloadedGroup(4, 4 * per_chunk, window_chunks=2, window=5)]
    return TransferJobs(CPUOffloadingManager(20), OffloadConfig(groups, per_chunk, 4, True, chunk_with_reachable,
                                                                touch_nothing, end_of_others))  # fmt: skip


def test_a_group_whose_blocks_no_token_reads_loads_no_chunk():
    transfers, state = window_jobs(per_chunk=2), RequestOffloadState(2)
    transfers.update_offload_keys(state, HASHES)
    keys = [key for part in state.offload_keys for key in part]
    transfers.manager.prepare_store(keys, set(), state.access)
    transfers.manager.complete_store(keys, success=True)
    job = transfers.begin_load(state, [[1, 2, 3, 4], [0, 0, 0, 0]], 12)
    assert (job.keys, [block for block, _ in job.copies]) == (((101, 0), (103, 0)), [1, 2, 3])
    assert state.next_stored_chunk_idx == [2, 2]


@pytest.mark.parametrize(("n", "keys", "copies"), [
    (1, ((100, 0),), ((1, 0),)), (2, ((100, 0), (101, 0)), ((1, 0), (2, 1))),
    (3, ((100, 0), (101, 0), (102, 0)), ((1, 0), (2, 1), (3, 2))),
])  # fmt: skip
def test_the_first_missing_chunks_are_stored(n, keys, copies):
    transfers = server()
    client = client_of(transfers)
    job = transfers.begin_store(offer_of(transfers, client, 12), n)
    assert (job.keys, job.copies, client.next_stored_chunk_idx) == (keys, copies, [3])


@pytest.mark.parametrize(("reads", "found"), [(True, 12), (False, 0)])
def test_a_request_that_reads_nothing_finds_the_tokens_of_the_pool_alone(reads, found):
    transfers, client = server(), RequestOffloadState(1)
    store(transfers, 16)
    assert transfers.lookup(client, HASHES, 4, 4 * len(HASHES), reads=reads) == found
    assert (client.num_locally_computed_tokens, client.num_hit_tokens) == (4, 4 + found)
