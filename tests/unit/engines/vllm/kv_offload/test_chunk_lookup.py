"""Lookups of chunks in CPU memory: where the prefix that can be loaded ends, per kind of group."""

from __future__ import annotations

import pytest

from cachesim.engines.vllm.kv_offload.chunk_lookup import ChunkLookup, ChunkQuery, OffloadedGroup
from cachesim.engines.vllm.kv_offload.cpu_manager import HIT, MISS, PENDING
from cachesim.engines.vllm.rules.offload import end_at_state, end_of_others

STATES = {"+": HIT, "-": MISS, "?": PENDING}
FULL = OffloadedGroup(4, 4)
EAGLE = OffloadedGroup(4, 4, is_eagle=True)
WINDOW = OffloadedGroup(4, 4, window_chunks=2, window=5)
STATE = OffloadedGroup(4, 4, window_chunks=1, is_state=True)
ONE_CHUNK = OffloadedGroup(4, 4, window_chunks=1, window=3)
LARGE_STATE = OffloadedGroup(8, 8, window_chunks=1, is_state=True)
WIDE = OffloadedGroup(4, 4, window_chunks=3, window=9)
EAGLE_WINDOW = WINDOW._replace(is_eagle=True)


def found(groups, chunks, local=0, end=None, load_end=end_of_others):
    """Return what a lookup finds. ``chunks``: a word for each group with a sign for each chunk."""
    states = {(at, group): STATES[sign] for group, word in enumerate(chunks) for at, sign in enumerate(word)}
    keys = [[(at, group) for at in range(len(word))] for group, word in enumerate(chunks)]
    return ChunkLookup(groups, states.__getitem__, load_end).find(
        ChunkQuery(keys, local, 4 * len(chunks[0]) if end is None else end))  # fmt: skip


@pytest.mark.parametrize(("chunks", "local", "end", "tokens"), [
    ("+++", 0, None, 12), ("++-", 0, None, 8), ("-++", 0, None, 0), ("++-", 4, None, 4), ("-++", 4, None, 8),
    ("+++", 12, None, 0), ("+++", 9, None, 0), ("+++", 8, None, 4), ("+++", 0, 10, 10), ("+++", 0, 3, 0), ("", 0, 0, 0),
    ("+++", 0, 20, 12), ("?++", 0, None, None), ("+?+", 0, None, None), ("+-?", 0, None, 4), ("-?+", 0, None, 0),
])  # fmt: skip
def test_full_attention_needs_all_chunks_from_the_first_on(chunks, local, end, tokens):
    assert found([FULL], [chunks], local, end) == tokens


@pytest.mark.parametrize(("chunks", "tokens"), [("+++", 8), ("++-", 4), ("+--", 0), ("-++", 0), ("++?", None)])
def test_the_drafter_drops_a_chunk(chunks, tokens):
    assert found([EAGLE], [chunks]) == tokens


@pytest.mark.parametrize(("group", "tokens", "chunks"), [
    (FULL, 8, 0), (WINDOW, 8, 2), (WINDOW, 9, 2), (WINDOW, 10, 2), (WINDOW._replace(window=6), 8, 2),
    (WINDOW._replace(window=6), 9, 2), (WINDOW._replace(window=7), 9, 3), (WINDOW._replace(window=9), 8, 2),
    (WINDOW._replace(window=10), 8, 3), (STATE, 9, 1),
])  # fmt: skip
def test_chunks_before_the_end_of_a_load(group, tokens, chunks):
    assert group.load_window(tokens) == chunks


@pytest.mark.parametrize(("groups", "order", "windows", "state_chunk"), [
    ([WINDOW, FULL, STATE], [1, 0, 2], [0, 2], 4), ([STATE, WINDOW, FULL], [2, 1, 0], [1, 0], 4),
    ([FULL, EAGLE], [0, 1], [], 0),
])  # fmt: skip
def test_groups_with_full_attention_and_long_windows_come_first(groups, order, windows, state_chunk):
    lookup = ChunkLookup(groups, str, end_of_others)
    assert (lookup.order, lookup.windows, lookup.state_chunk) == (order, windows, state_chunk)


@pytest.mark.parametrize(("groups", "chunks", "tokens"), [
    ([FULL, FULL], ["++++", "++--"], 8), ([FULL, STATE], ["++++", "-+--"], 8), ([FULL, STATE], ["++++", "--+-"], 12),
    ([FULL, STATE], ["++++", "---+"], 0), ([FULL, STATE], ["++--", "--++"], 0), ([FULL, STATE], ["++++", "+-?-"], None),
    ([FULL, WINDOW], ["++++", "--++"], 15), ([FULL, WINDOW], ["++++", "-++-"], 12),
    ([FULL, WINDOW], ["++++", "+-+-"], 4),
    ([FULL, WINDOW], ["++++", "-+-+"], 0), ([FULL, EAGLE], ["++++", "++++"], 12),
    ([FULL, WINDOW, STATE], ["++++", "++++", "+---"], 4), ([FULL, WINDOW, STATE], ["++++", "-++-", "+-+-"], 12),
    ([FULL, ONE_CHUNK, STATE], ["++++", "+-++", "++--"], 4), ([FULL, ONE_CHUNK, STATE], ["++++", "+-++", "-+--"], 0),
    ([FULL, FULL], ["?+++", "+---"], None), ([FULL, FULL], ["++?+", "+---"], 4),
])  # fmt: skip
def test_each_group_shortens_the_prefix_of_the_others(groups, chunks, tokens):
    assert found(groups, chunks) == tokens


@pytest.mark.parametrize(("groups", "chunks", "released", "repaired"), [
    ([EAGLE, LARGE_STATE], ["++++-", "++"], 12, 8), ([EAGLE, LARGE_STATE], ["++++-", "-+"], 12, 0),
    ([EAGLE, LARGE_STATE], ["++++-", "+-"], 8, 8), ([EAGLE, LARGE_STATE], ["+++++", "++"], 16, 16),
    ([FULL, LARGE_STATE], ["+++--", "++"], 12, 8), ([FULL, LARGE_STATE], ["+++--", "+?"], None, 8),
    ([FULL, WINDOW, LARGE_STATE], ["+++++", "+++--", "++"], 12, 8),
    ([FULL, WINDOW, LARGE_STATE], ["+++++", "-++--", "++"], 12, 0),
    ([FULL, ONE_CHUNK, LARGE_STATE], ["+++++", "++-+-", "-+"], 16, 16),
])  # fmt: skip
def test_a_load_may_end_inside_a_chunk_of_states_unless_the_rule_forbids_it(groups, chunks, released, repaired):
    assert found(groups, chunks, end=20) == released
    assert found(groups, chunks, end=20, load_end=end_at_state) == repaired


def test_the_states_of_tokens_in_the_pool_allow_no_shorter_load():
    assert found([FULL, LARGE_STATE], ["+++--", "++"], local=8, end=20, load_end=end_at_state) == 0


def test_only_groups_of_states_move_the_end_of_a_load():
    assert found([FULL], ["+++"], end=10, load_end=end_at_state) == 10
    assert found([FULL, STATE], ["+++", "+++"], end=11, load_end=end_at_state) == 8


@pytest.mark.parametrize(("groups", "chunks", "tokens"), [
    ([WINDOW], ["++++"], 7), ([WINDOW], ["+++-"], 4), ([WINDOW], ["-+++"], 7), ([WINDOW], ["++-+"], 0),
    ([FULL, WINDOW], ["++++", "+++-"], 4), ([FULL, WINDOW], ["++++", "++--"], 0), ([FULL, STATE], ["++++", "+++-"], 4),
    ([FULL, STATE], ["++++", "---+"], 0), ([FULL, STATE], ["++++", "++--"], 0),
])  # fmt: skip
def test_chunks_of_tokens_in_the_pool_are_not_looked_at(groups, chunks, tokens):
    """The pool has eight of sixteen tokens; a window of two chunks may begin there."""
    assert found(groups, chunks, local=8) == tokens


@pytest.mark.parametrize(("chunk", "tokens"), [("+", 7), ("?", None), ("-", 0)])
def test_a_window_longer_than_the_prompt_needs_all_its_chunks(chunk, tokens):
    assert found([FULL, WIDE], ["++", f"{chunk}+"]) == tokens


@pytest.mark.parametrize(("shorter", "signs", "tokens"), [
    (ONE_CHUNK._replace(is_eagle=True), "-++---", 8), (ONE_CHUNK, "++----", 4), (ONE_CHUNK, "-+----", 0),
])  # fmt: skip
def test_a_drafters_chunk_is_dropped_once_unless_another_group_shortens_the_prefix(shorter, signs, tokens):
    """The first window drops the sixth chunk; the second group then leaves two chunks, and the third one is missing."""
    assert found([EAGLE_WINDOW, shorter], ["++-+++", signs]) == tokens
