"""The blocks of a pool as pictures show them, after the requests of the lesson on blocks and groups."""

from __future__ import annotations

from cachesim.engines.base import Request
from cachesim.engines.registry import engine_of

A, B, C = range(100, 114), range(200, 214), range(300, 314)


def after(*prompts, model="A", **flags):
    server = engine_of("vllm@0.33.0").start("vllm@0.33.0", model, {"block_size": 4, "num_gpu_blocks": 9, **flags},
                                            "provenance")  # fmt: skip
    for prompt in prompts:
        server.complete(Request(tuple(prompt), 1))
    return server.cache_cells.blocks()


def test_a_key_stands_for_the_tokens_up_to_the_end_of_its_block():
    found = after(A)
    assert [(cell.id, cell.tokens, cell.keys, cell.owner, cell.refs) for cell in found[:5]] == [
        (1, 4, 1, 0, 0), (2, 8, 1, 0, 0), (3, 12, 1, 0, 0), (4, 0, 0, 0, 0)]  # fmt: skip


def test_blocks_without_a_key_are_taken_first_and_the_beginning_of_a_prompt_last():
    places = {cell.id: cell.place for cell in after(A)}
    assert places == {4: 0, 3: 5, 2: 6, 1: 7}              # blocks 5 to 8 lie between: no request took them


def test_the_end_of_the_first_prompt_is_evicted_first():
    """Three prompts of four blocks on eight blocks: one block of the first prompt is left."""
    kept = {(cell.owner, cell.tokens) for cell in after(A, B, C) if cell.keys}
    assert kept == {(0, 4), (1, 4), (1, 8), (1, 12), (2, 4), (2, 8), (2, 12)}


def test_each_group_has_blocks_of_its_own():
    found = after(range(100, 121), model="AS", num_gpu_blocks=24)
    assert sorted((cell.group, cell.tokens) for cell in found if cell.keys) == [
        (0, 4), (0, 8), (0, 12), (0, 16), (0, 20), (1, 20)]  # fmt: skip
