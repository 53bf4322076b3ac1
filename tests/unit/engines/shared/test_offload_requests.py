"""Requests that store and load chunks. ``python -m tests.peers.vllm_offload_requests`` runs them beside vLLM."""

from __future__ import annotations

from cachesim.engines.shared.cpu_offload import Offload
from cachesim.engines.shared.offload_requests import OffloadClient, Transfers

HASHES = [*range(100, 108)]


def server(chunks=8, per_chunk=1, caching=True):
    """Return transfers of a pool with one group of blocks of four tokens."""
    return Transfers(Offload(chunks), [4], per_chunk, 4, caching)


def store(transfers, tokens, end=True):
    """Store the beginning of the prompt for a new request, in blocks 1, 2, ..."""
    client = OffloadClient(1)
    assert transfers.match(client, HASHES, 0, 4 * len(HASHES), reads=False) == 0
    client.blocks[0] = [*range(1, len(HASHES) + 1)]
    made = transfers.store(client, tokens)
    if end:
        transfers.end(made.number)
        transfers.offload.finish(client.access)
    return client, made


def test_only_complete_chunks_are_stored_and_each_once():
    client, made = store(transfers := server(per_chunk=2), 23)
    assert (made.keys, made.blocks) == (((101, 0), (103, 0)), (1, 2, 3, 4))
    assert transfers.store(client, 23) is None
    assert transfers.store(client, 24).blocks == (5, 6)


def test_a_stored_prefix_is_loaded_after_the_blocks_that_the_pool_holds():
    store(transfers := server(), 20)
    client = OffloadClient(1)
    assert transfers.match(client, HASHES, 8, 32, reads=True) == 12
    made = transfers.load(client, [[1, 2, 11, 12, 13, 14]], 12)
    assert (made.keys, made.places, made.blocks) == (((102, 0), (103, 0), (104, 0)), (2, 3, 4), (11, 12, 13))
    client.blocks[0] = [1, 2, 11, 12, 13, 14]
    transfers.end(made.number)
    assert transfers.store(client, 24).blocks == (14,)


def test_a_request_waits_for_chunks_that_are_written_or_loaded():
    _, made = store(transfers := server(), 20, end=False)
    first, second = OffloadClient(1), OffloadClient(1)
    assert transfers.match(first, HASHES, 0, 32, reads=True) is None
    transfers.end(made.number)
    assert transfers.match(first, HASHES, 0, 32, reads=True) == 20
    load = transfers.load(first, [[*range(11, 19)]], 20)
    assert transfers.match(second, HASHES, 0, 32, reads=True) is None
    assert transfers.match(first, HASHES, 0, 32, reads=True) is None
    transfers.end(load.number)
    assert transfers.match(second, HASHES, 0, 32, reads=True) == 20


def test_without_prefix_caching_two_requests_load_the_same_chunks():
    store(transfers := server(caching=False), 20)
    transfers.match(client := OffloadClient(1), HASHES, 0, 32, reads=True)
    transfers.load(client, [[*range(11, 19)]], 20)
    assert transfers.match(OffloadClient(1), HASHES, 0, 32, reads=True) == 20


def test_a_store_without_room_is_offered_again():
    client, made = store(transfers := server(chunks=2), 8, end=False)
    assert transfers.store(client, 16) is None
    transfers.end(made.number)
    later = transfers.store(client, 16)
    assert (later.keys, later.evicted) == (((102, 0), (103, 0)), ((101, 0), (100, 0)))


def test_a_reset_forgets_chunks_and_ends_what_is_open():
    client, made = store(transfers := server(), 20, end=False)
    transfers.reset([client])
    transfers.end(made.number)
    assert not transfers.offload.places
    assert len(transfers.store(client, 20).keys) == 5
