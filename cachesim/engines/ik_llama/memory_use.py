"""Memory that ik_llama.cpp's server takes for a real model, and the bytes of its checkpoints.

MiniMax M3 has the rows of plain attention: ik_llama.cpp keeps no index for it.
Source: ik_llama.cpp src/llama.cpp llama_kv_cache_init, src/graphs/build_minimaxm3.cpp (8337e4cd3).
"""

from __future__ import annotations

from dataclasses import fields, replace
from functools import partial
from typing import Any, Iterator, Mapping

from cachesim.base.errors import BadInput, quoted
from cachesim.engines.capabilities import Flag, Option
from cachesim.engines.ik_llama.compressed_memory import CompressedMemory, compressed_memory
from cachesim.engines.ik_llama.flags import Options
from cachesim.engines.ik_llama.memory.model_layout import ModelKind, model_kind, saved_bytes
from cachesim.engines.ik_llama.profiles import Rules
from cachesim.engines.ik_llama.server_flags import Settings, settings
from cachesim.engines.shared.agent_settings import slot_settings
from cachesim.engines.shared.memory_use import (
    BLOCKS,
    MIB,
    AgentForms,
    MemoryForms,
    MemoryPart,
    MemoryQuestion,
    MemoryUse,
    context_of,
    row_bytes,
)
from cachesim.engines.shared.model_layers import RealModel
from cachesim.engines.shared.model_sizes import short_notation
from cachesim.engines.shared.size_formulas import LayerSize

TYPES = tuple(BLOCKS)
FLAGS = (
    Flag("cache_type_k", "f16", choices=TYPES, spellings=("-ctk", "--cache-type-k"), help="Type of K rows."),
    Flag("cache_type_v", "f16", choices=TYPES, spellings=("-ctv", "--cache-type-v"), help="Type of V rows."),
    Flag("indexer_cache_type_k", "f16", choices=TYPES, spellings=("-ictk", "--indexer-cache-type-k"),
         help="Type of index rows."),
)
LOWER: Mapping[str, tuple[Option, ...]] = {
    "ctx_checkpoints": (1, 0), "cache_ram": (256, 0), "cache_type_v": ("q8_0", "q4_0"),
    "cache_type_k": ("q8_0", "q4_0"), "parallel": (1, 1), "ctx_size": (256, 256),
}  # fmt: skip


NOT_RECORDED = "the sizes of this model's caches are read in the source of ik_llama.cpp, not recorded"
KINDS = "DB"                # beside those that are simulated


def started(ask: MemoryQuestion) -> tuple[ModelKind, Settings]:
    """Return the model's kind and the numbers that the server fixes at its start. Raise BadInput."""
    if not isinstance(ask.rules, Rules):
        raise BadInput(f"{quoted(ask.rules.name)} is not a rule set of this engine")
    opts = Options(**{row.name: ask.options[row.name] for row in fields(Options)})
    if opts.swa_compress:
        raise BadInput("the size of compacted windows is not known", hint="without --swa-compress")
    if ask.model.compressed and opts.spec_type == "mtp":
        raise BadInput("the rows of this model's MTP head are not known: they depend on whether it has its own file",
                       hint="without --spec-type mtp")  # fmt: skip
    kind = model_kind(short_notation(ask.model) + ("+M" if ask.model.heads else ""))
    kind = replace(kind, private=bool(ask.model.compressed))
    return kind, settings(replace(opts, ctx_size=context_of(ask)), kind, ask.rules)


def checkpoint_bytes(model: RealModel, tokens: int, row: int = 0) -> int:
    """Return the bytes of a checkpoint of this many tokens, or (``row``: bytes of a token's rows) of all of its
    state; without compressed rows."""
    layers, has_values = len(model.layers) + len(model.heads), not model.compressed
    return saved_bytes(layers, tokens, row, states=sum(one.state for one in model.states), has_values=has_values)


def use(ask: MemoryQuestion) -> MemoryUse:
    """Return the memory of a server. Raise BadInput for options with which it does not start."""
    kind, fixed = started(ask)
    options = ask.options
    model = ask.model if options["spec_type"] == "mtp" else ask.model._replace(heads=())
    own = compressed_memory(model, fixed.n_ctx, options["cache_type_k"], options["indexer_cache_type_k"])
    layers = [*model.full, *model.windows, *model.heads]
    row, state = rows(layers, options), sum(one.state for one in model.states)
    parts = [MemoryPart("attention rows", row, fixed.n_ctx, "cells"),
             MemoryPart("states", state, fixed.n_slots, "states"),
             MemoryPart("compressed rows", own.rows, fixed.n_slots, "slots"),
             MemoryPart("rings", own.rings, fixed.n_slots, "rings")]  # fmt: skip
    if options["spec_type"] == "mtp":
        parts.append(MemoryPart("draft: attention rows", rows(list(model.heads), options), fixed.n_ctx, "cells"))
    assert isinstance(ask.rules, Rules)
    makes = bool(ask.rules.ckpt_on(fixed.max_checkpoints, bool(kind.states), kind.private).value)
    size = checkpoint_bytes(model, fixed.n_ctx_slot) + own.saved if makes else 0
    if makes:
        parts.append(MemoryPart(
            "checkpoints", size, number=fixed.n_slots * fixed.max_checkpoints, unit="checkpoints", host=True
        ))
    if options["cache_ram"]:
        entry = checkpoint_bytes(model, fixed.n_ctx_slot, row) + own.saved + size * fixed.max_checkpoints
        bounded = MemoryPart("prompt cache", MIB, number=fixed.limit_size // MIB, unit="MiB", host=True)
        parts.append(bounded if fixed.limit_size else MemoryPart(
            "prompt cache", entry, number=1, unit="conversation", host=True
        ))
    return MemoryUse(
        rows([*model.full, *model.heads], options),
        rows(model.windows, options),
        state=state,
        checkpoint=size,
        parts=tuple(part for part in parts if part.each),
        unlimited="cache_ram" if options["cache_ram"] < 0 else "",
        chosen={"ctx_size": fixed.n_ctx},
        notes=tuple(_notes(model, fixed, own, makes)),
    )  # fmt: skip


def _notes(model: RealModel, fixed: Settings, own: CompressedMemory, makes: bool) -> Iterator[str]:
    """Yield what is particular to models with chosen or compressed rows. ``makes``: checkpoints are created."""
    if own.rows and fixed.n_slots > 1:
        yield f"each of {fixed.n_slots} slots has room for the compressed rows of the whole context"
    if own.rows and makes:
        yield "a checkpoint holds all compressed rows that its slot has room for, however short the conversation is"
    if model.indexed:
        yield "all rows are read: ik_llama.cpp has no index for this model"
    if own.rows or model.indexed:
        yield NOT_RECORDED


def rows(layers: list[LayerSize], options: Any) -> int:
    """Return the bytes of a token's rows in these layers."""
    return sum(row_bytes(layer, options["cache_type_k"], options["cache_type_v"]) for layer in layers)


AGENTS = AgentForms(
    ("llama-server", "-m"), partial(slot_settings, use, unified=False, checkpoints=(32, 128)),
    "parallel", {"cache_type_k": "q8_0", "cache_type_v": "q8_0"},
)
FORMS = MemoryForms(use, FLAGS, lower=LOWER, agents=AGENTS, kinds=KINDS)
