"""The memory of a model, by the kinds of its layers.

Source: llama.cpp src/llama-model.cpp create_memory (b11549).
"""

from __future__ import annotations

from typing import Mapping

from cachesim.engines.llama_cpp.memory.attention import Emit
from cachesim.engines.llama_cpp.memory.dsv4 import KVCacheDSV4
from cachesim.engines.llama_cpp.memory.hybrid_memory import Memory, Sizes
from cachesim.engines.llama_cpp.memory.index_memory import KVCacheDSA, KVCacheDSAISWA, KVCacheMSA, MemoryHybridIdx
from cachesim.engines.llama_cpp.memory.model_layout import ModelKind
from cachesim.engines.llama_cpp.memory.recurrent import Refuses
from cachesim.engines.llama_cpp.memory.saved_state import KeepCells
from cachesim.engines.llama_cpp.memory.ubatch import BuildTraits
from cachesim.model import Model

CLASSES: Mapping[str, type[Memory]] = {
    "dsa": KVCacheDSA, "dsa_iswa": KVCacheDSAISWA, "msa": KVCacheMSA, "hybrid_idx": MemoryHybridIdx,
    "dsv4": KVCacheDSV4,
}  # fmt: skip
"""Kind of model -> class of its memory; all others have a ``Memory``."""


def create_memory(
    kind: ModelKind, sizes: Sizes, model: Model | None, keep: KeepCells, refuses: Refuses, emit: Emit,
    traits: BuildTraits = BuildTraits(),  # noqa: B008 - immutable
) -> Memory:
    """Return the memory of a model. ``model`` None = positions only."""
    return CLASSES.get(kind.kind, Memory)(kind, sizes, model, keep, refuses, emit, traits)
