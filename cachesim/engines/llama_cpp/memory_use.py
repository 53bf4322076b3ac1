"""Memory that llama-server takes for a real model, and the bytes of its checkpoints.

Source: llama.cpp src/llama-model.cpp create_memory, src/llama-kv-cache-iswa.cpp, common/speculative.cpp
common_base_params_to_speculative, tools/server/server-context.cpp create_checkpoint (b11549).
"""

from __future__ import annotations

from dataclasses import fields
from typing import NamedTuple, Sequence

import numpy as np

from cachesim.base.errors import BadInput
from cachesim.engines.llama_cpp.flags import Options
from cachesim.engines.llama_cpp.memory.hybrid_memory import window_cells
from cachesim.engines.llama_cpp.memory.model_layout import model_kind
from cachesim.engines.llama_cpp.memory.saved_state import HOST_HEADER, AttentionShape, RecurrentShape, StateForm
from cachesim.engines.llama_cpp.profiles import Rules
from cachesim.engines.llama_cpp.server_flags import Settings, settings
from cachesim.engines.shared.flags import flag, flags_of
from cachesim.engines.shared.memory_use import (
    BLOCKS,
    MIB,
    Ask,
    MemoryForms,
    MemoryPart,
    MemoryUse,
    context_of,
    row_bytes,
)
from cachesim.engines.shared.model_layers import RealModel
from cachesim.engines.shared.model_sizes import short_notation
from cachesim.engines.shared.size_formulas import LayerSize

TYPES = tuple(BLOCKS)


class SizeFlags:
    """Flags that change sizes only."""

    cache_type_k: str = flag("f16", "-ctk", "--cache-type-k", choices=TYPES, help="Type of K rows.")


class Sized(NamedTuple):
    """A context of the library: its model, its settings, the types of its rows, its rules."""

    model: RealModel
    fixed: Settings
    types: tuple[str, str]
    rules: Rules

    @property
    def streams(self) -> int:
        """Number of cell tables."""
        return 1 if self.fixed.unified else self.fixed.n_slots

    def rows(self, layers: Sequence[LayerSize]) -> int:
        """Return the bytes of a token's rows in these layers."""
        return sum(row_bytes(layer, *self.types) for layer in layers)

    def saved_rows(self, layers: Sequence[LayerSize], n: int) -> int:
        """Return the bytes of n saved cells of these layers."""
        form = StateForm(self.rules.ext_bytes, self.rules.data_header)
        without_values = sum(not layer.value for layer in layers)
        size = AttentionShape(len(layers), 0, self.model.mrope, form).size(n, self.streams)
        return size + (n and n * self.rows(layers) - 12 * without_values)

    def saved_states(self) -> int:
        """Return the bytes of the saved states of a conversation, 0 without recurrent layers."""
        states = self.model.states
        return RecurrentShape(len(states), sum(one.state for one in states)).size(True) if states else 0
