"""What a server derives at its start from one of the newest memories, and from quantized rows.

Source: llama.cpp tools/server/server-context.cpp load_model, src/models/minimax-m3.cpp (b11549).
"""

from __future__ import annotations

from dataclasses import replace

from cachesim.base.limits import WINDOW
from cachesim.engines.llama_cpp.memory.index_memory import LATENT
from cachesim.engines.llama_cpp.memory.model_layout import ModelKind
from cachesim.engines.llama_cpp.memory.newest_layout import NEWEST, QUANTIZED
from cachesim.engines.llama_cpp.profiles import Rules
from cachesim.engines.llama_cpp.server_flags import Settings
from cachesim.engines.rule import Decision
from cachesim.model import Model, make_model


def model_as_read(rules: Rules, kind: ModelKind, fixed: Settings, model: Model | None) -> Model | None:
    """Return the model as the server reads its rows: without a choice of blocks if the build reads all of them."""
    if model is None or kind.kind != "msa" or not rules.msa_read(fixed.n_slots, fixed.unified).value:
        return model
    layers = tuple(replace(layer, count=WINDOW.now) if layer.kind == "B" else layer for layer in model.spec.layers)
    return make_model(replace(model.spec, layers=layers), model.exact, model.seed)


def newest_decisions(rules: Rules, kind: ModelKind, fixed: Settings) -> list[Decision]:
    """Return the decisions that concern such a memory or quantized rows."""
    found = []
    if kind.mrope:
        found.append(rules.kv_mrope())
    if kind.types[0] in QUANTIZED:
        found.append(rules.kv_quant(kind.head, True))
    if kind.kind == "dsv4":
        found += [
            rules.window_told(kind.n_swa, kind.kind),
            rules.kv_streams(fixed.unified, kind.kind),
            rules.rows_read(),
        ]
    if kind.kind == "msa":
        found.append(rules.msa_read(fixed.n_slots, fixed.unified))
    if kind.kind in LATENT:
        found += [rules.index_shift(), rules.kv_index()]
    if kind.kind == "hybrid_idx":
        found.append(rules.pool_read())
    return found


def flag_notes(rules: Rules, kind: ModelKind, fixed: Settings) -> list[str]:
    """Return sentences about flags that change answers or end the process with this memory."""
    flags, moves = fixed.flags, bool(fixed.n_cache_reuse or fixed.context_shift)
    given = {"--cache-reuse": flags.cache_reuse, "--context-shift": flags.context_shift}
    asked = [name for name, on in given.items() if on]
    both, found = " and ".join(asked), []
    if asked and not moves and kind.kind in NEWEST:
        found.append(f"the server switches {both} off: positions of this memory cannot be moved")
    if moves and kind.kind in LATENT and rules.index_shift().value:
        found.append(f"{both}: moving index rows ends the process (LC-INDEX-SHIFT)")
    elif moves and kind.kind in LATENT and rules.kv_index().value:
        most = max(layer.count for layer in kind.spec.layers)
        found.append(f"{both}: index keys of moved tokens are spoilt; answers change beyond {most:,} tokens "
                     "(LC-KV-INDEX)")  # fmt: skip
    if moves and kind.mrope and rules.kv_mrope().value == "ends":
        found.append(f"{both}: moving 2-D positions ends the process (LC-KV-MROPE)")
    if moves and rules.kv_quant(kind.head, kind.types[0] in QUANTIZED).value:
        found.append(f"{both}: moving quantized rows of {kind.head} numbers ends the process (LC-KV-QUANT)")
    if kind.kind == "msa" and rules.msa_read(fixed.n_slots, fixed.unified).value:
        found.append("slots share the cells, so all rows are read instead of the chosen blocks: -np 1 or -no-kvu "
                     "(LC-MSA-READ)")  # fmt: skip
    if kind.kind == "dsv4" and fixed.unified and fixed.n_slots > 1:
        found.append(f"-kvu gives each of {fixed.n_slots} slots the whole context: this memory is never shared "
                     "(LC-KV-STREAMS)")  # fmt: skip
    return found
