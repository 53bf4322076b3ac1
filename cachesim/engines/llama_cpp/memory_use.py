"""Memory that llama-server takes for a real model, and the bytes of its checkpoints.

Source: llama.cpp src/llama-model.cpp create_memory, src/llama-kv-cache-iswa.cpp, common/speculative.cpp
common_base_params_to_speculative, tools/server/server-context.cpp create_checkpoint (b11549).
"""

from __future__ import annotations

from dataclasses import fields, replace
from functools import partial
from typing import Mapping, NamedTuple, Sequence

import numpy as np

from cachesim.base.errors import BadInput, quoted
from cachesim.engines.capabilities import Flag, Option
from cachesim.engines.llama_cpp.flags import Options, drafters_of
from cachesim.engines.llama_cpp.memory.hybrid_memory import window_cells
from cachesim.engines.llama_cpp.memory.model_layout import ModelKind, model_kind
from cachesim.engines.llama_cpp.memory.newest_layout import Dsv4Shape, Widths, dsv4_shape
from cachesim.engines.llama_cpp.memory.saved_state import AttentionShape, RecurrentShape, StateForm
from cachesim.engines.llama_cpp.newest_start import flag_notes
from cachesim.engines.llama_cpp.profiles import Rules
from cachesim.engines.llama_cpp.server_flags import Settings, settings
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
from cachesim.engines.shared.newest_models import CONFIGS, POOLED
from cachesim.engines.shared.size_formulas import F32, LayerSize

TYPES = tuple(BLOCKS)
FLAGS = (
    Flag("cache_type_k_draft", "f16", choices=TYPES, spellings=("-ctkd", "--cache-type-k-draft", "--spec-draft-type-k"),
         help="Type of the draft context's K rows."),
    Flag("cache_type_v_draft", "f16", choices=TYPES, spellings=("-ctvd", "--cache-type-v-draft", "--spec-draft-type-v"),
         help="Type of the draft context's V rows."),
)  # fmt: skip
POOLS_CHANGED = "qwen4exp"
"""Architecture whose index rows differ between builds."""
LOWER: Mapping[str, tuple[Option, ...]] = {
    "ctx_checkpoints": (1, 0), "cache_ram": (256, 0), "swa_full": (False,), "cache_type_v": ("q8_0", "q4_0"),
    "cache_type_k": ("q8_0", "q4_0"), "parallel": (1, 1), "ctx_size": (256, 256),
}  # fmt: skip


def index_row(layer: LayerSize) -> LayerSize:
    """Return the index row of a layer as a row of its own."""
    return LayerSize(layer.kind, layer.index_key, layer.index_value)


def index_row_in(layer: LayerSize, arch: str, form: StateForm) -> LayerSize:
    """Return the index row of a layer as builds with this state format keep it. ``arch``: architecture of the model;
    only the rows of one have changed."""
    if CONFIGS.get(arch, arch) != POOLS_CHANGED:
        return index_row(layer)
    keys = form.pool_keys // form.pool_tensors
    value = layer.value // max(1, layer.kv_heads) if form.pool_tensors > 1 else 0
    return LayerSize(layer.kind, layer.index_key // POOLED[POOLS_CHANGED] * keys, value)


class SizedContext(NamedTuple):
    """A context of the library: its model, settings, types of K and V rows, and rules."""

    model: RealModel
    kind: ModelKind
    fixed: Settings
    types: tuple[str, str]
    rules: Rules

    @property
    def streams(self) -> int:
        """Number of cell tables."""
        return 1 if self.fixed.sizes.unified else self.fixed.n_slots

    def rows(self, layers: Sequence[LayerSize]) -> int:
        """Return the bytes of a token's rows in these layers."""
        return sum(row_bytes(layer, *self.types) for layer in layers)

    @property
    def index_rows(self) -> int:
        """Bytes of a token's index rows in all layers."""
        return self.rows(self._index_rows())

    def _index_rows(self) -> list[LayerSize]:
        """Return the index rows of all layers."""
        return [index_row_in(layer, self.model.arch, self.rules) for layer in self.model.indexed]

    @property
    def shape(self) -> Dsv4Shape | None:
        """Shape of compressed rows and rings, None for a model without them."""
        first = next(iter(self.model.compressed), None)
        if first is None:
            return None
        index = next((layer for layer in self.model.compressed if layer.index_key), LayerSize("D"))
        widths = Widths(first.key, index.index_key, self.rows([first]), self.rows([index_row(index)]))
        return dsv4_shape([layer.ratio for layer in self.model.windows], widths)

    def parts(self, name: str = "") -> list[MemoryPart]:
        """Return the buffers that the context allocates. ``name`` precedes their names."""
        sizes, shape = self.fixed.sizes, self.shape
        streams = self.streams if shape is None else sizes.n_seq                 # a dsv4 memory never shares its cells
        window = window_cells(self.kind, sizes if shape is None else sizes._replace(unified=False))
        found = [
            MemoryPart(f"{name}attention rows", self.rows(self.model.full), sizes.n_ctx_seq * streams, "cells"),
            MemoryPart(f"{name}index rows", self.index_rows, sizes.n_ctx_seq * streams, "cells"),
            MemoryPart(f"{name}window rows", self.rows(self.model.windows), window * streams, "cells"),
            MemoryPart(f"{name}states", self.state, sizes.n_seq * (1 + sizes.n_rs_seq), "states"),
        ]
        if shape is not None:
            rows = sum(one.layers * one.each * one.cells(sizes.n_ctx_seq) for one in shape.rows)
            rings = sum(ring.bytes for ring in shape.rings)
            found += [MemoryPart(f"{name}compressed rows", rows, sizes.n_seq, "slots"),
                      MemoryPart(f"{name}rings", rings, sizes.n_seq * (1 + sizes.n_rs_seq), "rings")]  # fmt: skip
        return [part for part in found if part.each]

    @property
    def state(self) -> int:
        """Bytes of the recurrent states of a conversation."""
        return sum(one.state + one.history * F32 for one in self.model.states)

    def saved(self, tokens: int, cells: int, partial: bool) -> int:
        """Return the bytes of a saved conversation of this many tokens in host memory, with this many cells of window
        layers. ``partial``: without what can be rolled back."""
        full = self.model.full
        windows = self.model.windows
        states = self.model.states
        size, shape = int(self.rules.host_header), self.shape
        if (full or windows) and not (partial and (windows or states)):
            size += self._saved_rows(full, tokens)
            if self.model.indexed:
                size += self._saved_rows(self._index_rows(), tokens)
        if windows:
            size += self._saved_rows(windows, cells)
        if shape is not None:
            size += shape.size(tokens, partial)
        histories = sum(1 for one in states if one.history > 0)
        return size + (RecurrentShape(len(states), self.state, histories).size(True) if states else 0)

    def _saved_rows(self, layers: Sequence[LayerSize], n: int) -> int:
        streams = self.streams if self.shape is None else self.fixed.n_slots
        header = AttentionShape(len(layers), 0, self.model.mrope, self.rules).size(n, streams)
        return header + (n and n * self.rows(layers) - 12 * sum(1 for layer in layers if not layer.value))

    def kept_cells(self, tokens: int, held: int | None = None) -> int:
        """Return how many cells of the window layers a saved state of this many tokens has. ``held``: cells that the
        memory holds, None = as many as it can."""
        held = window_cells(self.kind, self.fixed.sizes) if held is None else held
        pos = np.arange(max(0, tokens - held), tokens)
        return int(np.count_nonzero(self.rules.kv_state(pos, tokens - 1, self.model.window).value))


def contexts(ask: MemoryQuestion) -> list[SizedContext]:
    """Return the contexts of a server: the target, and the draft context if it has one. Raise BadInput."""
    rules, options = ask.rules, ask.options
    if not isinstance(rules, Rules):
        raise BadInput(f"{quoted(rules.name)} is not a rule set of this engine")
    opts = Options(**{row.name: options[row.name] for row in fields(Options)})
    if not (opts.ctx_size or opts.kv_unified_per_slot):
        opts = replace(opts, ctx_size=context_of(ask))
    opts = replace(opts, n_ctx_train=ask.model.context)
    kind = model_kind(short_notation(ask.model))
    fixed = settings(replace(opts, model_draft="A"), kind, rules)
    types = options["cache_type_k"], options["cache_type_v"]
    for name in types:
        if (ask.model.full or ask.model.windows) and ask.model.head % BLOCKS[name][0]:
            raise BadInput(f"the server does not store heads of {ask.model.head} numbers as {name}",
                           hint=f"their width must be a multiple of {BLOCKS[name][0]}")  # fmt: skip
    if types[0] != types[1] and any(layer.key and not layer.value for layer in ask.model.layers):
        raise BadInput("the server does not start: V rows of this model are part of its K rows and need their type, "
                       f"not {types[0]} and {types[1]}", hint=f"-ctk {types[0]} -ctv {types[0]}")  # fmt: skip
    target = SizedContext(ask.model, kind, fixed, types, rules)
    draft = draft_model(ask) if fixed.draft is not None else None
    if draft is None:
        return [target]
    types = (options["cache_type_k_draft"], options["cache_type_v_draft"])
    own = replace(fixed, sizes=fixed.sizes._replace(n_rs_seq=0))
    return [target, SizedContext(draft, model_kind(short_notation(draft)), fixed=own, types=types, rules=rules)]


def draft_model(ask: MemoryQuestion) -> RealModel:
    """Return the model of the draft context. Raise BadInput if there is none."""
    if "draft-mtp" in drafters_of(ask.options["spec_type"]):
        if not ask.model.heads:
            raise BadInput("the model has no MTP head for --spec-type draft-mtp")
        windows = any(layer.kind == "W" for layer in ask.model.heads)
        return ask.model._replace(layers=ask.model.heads, window=ask.model.window * windows)
    if ask.draft is None:
        raise BadInput("the draft model is missing", hint="-md FILE")
    return ask.draft


def checkpoint_bytes(of: Sequence[SizedContext], tokens: int, held: int | None = None) -> int:
    """Return the bytes of a checkpoint of this many tokens. ``held``: cells of the window layers in the memory, None =
    as many as it can hold."""
    return sum(one.saved(tokens, one.kept_cells(tokens, held), True) for one in of)


def entry_bytes(of: Sequence[SizedContext], tokens: int) -> int:
    """Return the bytes of a conversation in the prompt cache, without its checkpoints."""
    return sum(one.saved(tokens, one.kept_cells(tokens), False) for one in of)


def use(ask: MemoryQuestion) -> MemoryUse:
    """Return the memory of a server. Raise BadInput for options with which it does not start."""
    of = contexts(ask)
    target, fixed = of[0], of[0].fixed
    parts = [part for one, name in zip(of, ("", "draft: "), strict=False) for part in one.parts(name)]
    makes = target.rules.ckpt_on(fixed.max_checkpoints, fixed.exact, fixed.n_swa).value
    size = checkpoint_bytes(of, fixed.n_ctx_slot) if fixed.exact or fixed.n_swa else 0
    if makes:
        parts.append(MemoryPart(
            "checkpoints", size, number=fixed.n_slots * fixed.max_checkpoints, unit="checkpoints", host=True
        ))
    if fixed.has_cache:
        entry = entry_bytes(of, fixed.n_ctx_slot) + makes * size * fixed.max_checkpoints
        bounded = MemoryPart("prompt cache", MIB, number=fixed.limit_size // MIB, unit="MiB", host=True)
        parts.append(bounded if fixed.limit_size else MemoryPart(
            "prompt cache", entry, number=1, unit="conversation", host=True
        ))
    return MemoryUse(target.rows(ask.model.full) + target.index_rows, target.rows(ask.model.windows),
                     state=target.state, checkpoint=size, parts=tuple(parts),
                     unlimited="cache_ram" if fixed.has_cache and not fixed.limit_size else "",
                     chosen={"ctx_size": fixed.n_ctx, "parallel": fixed.n_slots},
                     notes=tuple(flag_notes(target.rules, _as_started(target), fixed)))  # fmt: skip


def _as_started(target: SizedContext) -> ModelKind:
    """Return the model with the types of its rows and the width of its heads."""
    rows = target.model.full or target.model.windows
    return replace(target.kind, types=target.types, head=target.model.head if rows else 0)


AGENTS = AgentForms(
    ("llama-server", "-m"), partial(slot_settings, use, unified=True, checkpoints=(32, 8)),
    "parallel", {"cache_type_k": "q8_0", "cache_type_v": "q8_0"},
)
FORMS = MemoryForms(use, FLAGS, LOWER, AGENTS)
