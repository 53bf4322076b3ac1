"""Bytes of states as reported by the real server: from the table in the recorded traces' README."""

from __future__ import annotations

import pytest

from cachesim.engines.llama_cpp.memory.hybrid_memory import Memory, Sizes
from cachesim.engines.llama_cpp.memory.model_layout import model_kind
from cachesim.engines.llama_cpp.memory.saved_state import HOST_HEADER
from cachesim.engines.llama_cpp.memory.ubatch import DecodeBatch
from cachesim.engines.llama_cpp.rules.seq_rm_and_state import keep_window

# model, tokens, whole state, checkpoint (bytes, one stream, without the header of a blob in host memory)
TABLE = [
    ("llama", 1, 1148, None),
    ("llama", 10, 10472, None),
    ("llama", 40, 41552, None),
    ("gemma3", 1, 1176, 588),
    ("gemma3", 10, 10608, 5304),
    ("gemma3", 32, 33664, 16832),
    ("gemma3", 40, 37856, 16832),
    ("gemma3", 100, 69296, 16832),
    ("mamba2", 1, 74868, 74868),
    ("mamba2", 40, 74868, 74868),
    ("qwen35", 1, 34552, 33956),
    ("qwen35", 10, 39340, 33956),
    ("qwen35", 40, 55300, 33956),
    ("lfm2", 10, 7468, 2164),
    ("lfm2", 40, 23188, 2164),
    ("lfm2swa", 10, 7604, 7468),
    ("lfm2swa", 40, 19492, 18996),
    ("falconh1", 10, 64044, 56156),
    ("falconh1", 40, 87444, 56156),
    ("granitehybrid", 10, 80172, 74868),
    ("granitehybrid", 40, 95892, 74868),
]


def memory(model, n, n_seq=1, unified=True):
    mine = Memory(
        model_kind(model), Sizes(n_seq, unified, 256, 64, False), None,
        keep=lambda pos, last, n: keep_window(pos, last, n).value, refuses=lambda *_: False, emit=lambda event: None,
    )
    batch = DecodeBatch()
    for pos in range(n):
        batch.add(0, pos, 0, False)
    for placed in mine.init_batch(batch, 64) if n else ():
        mine.apply(placed)
    return mine


@pytest.mark.parametrize("model, n, whole, checkpoint", TABLE)
def test_size_of_a_state(model, n, whole, checkpoint):
    mine = memory(model, n)
    assert mine.state_size(0, partial=False) == whole
    if checkpoint is not None:
        assert mine.state_size(0, partial=True) == checkpoint


@pytest.mark.parametrize(
    "model, parts, whole", [("llama", 1, 10472), ("gemma3", 2, 10608), ("mamba2", 0, 74868), ("qwen35", 1, 39340)]
)
@pytest.mark.parametrize("k", [2, 3, 4])
def test_separate_buffers_add_four_bytes_per_further_slot_and_part(model, parts, whole, k):
    assert memory(model, 10, n_seq=k, unified=False).state_size(0, partial=False) == whole + 4 * (k - 1) * parts
    assert memory(model, 10, n_seq=k, unified=True).state_size(0, partial=False) == whole


@pytest.mark.parametrize("model, empty", [
    ("llama", 8), ("gemma3", 16), ("mamba2", 12 + 24 * 4), ("qwen35", 8 + 12 + 24 * 6), ("falconh1", 8 + 12 + 24 * 3),
    ("lfm2", 8 + 12 + 24 * 4), ("lfm2swa", 16 + 12 + 24 * 4), ("granitehybrid", 8 + 12 + 24 * 4),
])
def test_size_of_an_empty_sequence(model, empty):
    assert memory(model, 0).state_size(0, partial=False) == empty


def test_a_blob_in_host_memory_has_eight_more_bytes():
    assert HOST_HEADER == 8
