"""Sizes of the server's pool and of its CPU memory. Source: vLLM vllm/v1/core/block_pool.py (0.33.0)."""

from __future__ import annotations

from cachesim.engines.shared.capacity import CapacityForms, CapacityQuestion, CapacitySize
from cachesim.engines.vllm.assumed_pool import SPARE, smallest_block
from cachesim.engines.vllm.flags import options
from cachesim.engines.vllm.stack_distances import STACK


def _blocks(question: CapacityQuestion) -> tuple[int, int]:
    """Return the blocks of the longest request, and of all conversations at their longest, with the null block."""
    block = smallest_block(options(question.options))
    load = question.load
    most = load.total // block + load.conversations * SPARE
    return -(-load.longest // block) + SPARE + 1, most + 1


def _chunks(question: CapacityQuestion) -> tuple[int, int]:
    """Return the chunks of the longest request, and of all conversations at their longest."""
    opts = options(question.options)
    chunk = smallest_block(opts) * opts.blocks_per_chunk
    return max(1, question.load.longest // chunk), max(1, question.load.total // chunk)


FORMS = CapacityForms(
    (CapacitySize("num_gpu_blocks", "blocks", _blocks, filled=True), CapacitySize("num_cpu_chunks", "chunks", _chunks)),
    shared=("num_gpu_blocks", "num_cpu_chunks"),
    stack=STACK,
    direct="chunks are stored when blocks are computed, which depends on the pool",
)
