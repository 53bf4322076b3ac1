"""Memory that mlx-lm's server takes for a real model.

Rows and inputs of convolutions have the type of the model, recurrent matrices are F32.
Source: mlx-lm mlx_lm/models/cache.py, gated_delta.py, ssm.py (0.32.2).
"""

from __future__ import annotations

from typing import Iterator, Sequence

from cachesim.engines.capabilities import Option
from cachesim.engines.shared.memory_use import (
    AgentForms,
    MemoryForms,
    MemoryPart,
    MemoryQuestion,
    MemoryUse,
    context_of,
)
from cachesim.engines.shared.model_layers import RealModel
from cachesim.engines.shared.size_formulas import F16, F32, LayerSize

KEPT = (10, 40, 160)        # numbers of stored conversations for agents
STEP = 256                  # rows by which a cache grows


def conversation_bytes(model: RealModel, tokens: int) -> int:
    """Return the bytes of the caches of a conversation of this many tokens."""
    grown = -(-tokens // STEP) * STEP
    return row(model.full) * grown + row(model.windows) * min(grown, model.window) + state(model)


def row(layers: Sequence[LayerSize]) -> int:
    """Return the bytes of a token's rows in these layers."""
    return sum(one.row for one in layers)


def state(model: RealModel) -> int:
    """Return the bytes of the states of a conversation."""
    return sum(one.conv * F16 + one.matrix * F32 for one in model.states)


def use(ask: MemoryQuestion) -> MemoryUse:
    """Return the memory of a server whose conversations all have the same length."""
    model = ask.model
    options = ask.options
    tokens = context_of(ask)
    each = conversation_bytes(model, tokens) + (conversation_bytes(ask.draft, tokens) if ask.draft else 0)
    running = 1 if ask.draft else options["decode_concurrency"]                 # a draft model disables batching
    limit, kept = options["prompt_cache_bytes"], options["prompt_cache_size"]
    entries = MemoryPart("prompt cache", each, kept, "conversations")
    if limit and limit < entries.bytes:
        entries = MemoryPart("prompt cache", limit, 1, "limit")
    parts = (MemoryPart("running requests", each, running, "conversations"), entries)
    pool = {"conversations": ask.room // each} if ask.room and each else {}
    return MemoryUse(
        row(model.full),
        row(model.windows),
        state=state(model),
        checkpoint=0,
        parts=parts,
        pool=pool,
        chosen={"tokens": tokens},
    )


def agent_settings(ask: MemoryQuestion, clients: int) -> Iterator[dict[str, Option]]:
    """Yield numbers of running and of stored conversations; these get the bytes that the running ones leave."""
    for running in dict.fromkeys((clients, 1)):
        left = ask.room - running * conversation_bytes(ask.model, ask.tokens)
        for kept in sorted({clients, *KEPT}):
            yield {"prompt_cache_size": kept, "prompt_cache_bytes": max(1, left), "decode_concurrency": running}


AGENTS = AgentForms(("mlx_lm.server", "--model"), agent_settings, "decode_concurrency")
FORMS = MemoryForms(use, (), {"prompt_cache_size": (1, 1), "decode_concurrency": (1, 1)}, AGENTS)
