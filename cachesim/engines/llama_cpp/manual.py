"""Capabilities of the simulated llama.cpp server: options, models, and the settings that a search draws."""

from __future__ import annotations

from typing import Any, Iterator, Mapping

from cachesim.engines.capabilities import (
    IMAGES,
    INVALID,
    MOST_DRAWN_BATCHES,
    ContextOption,
    DrawnServer,
    Field,
    Manual,
    ServerLoad,
    draw_batches,
)
from cachesim.engines.llama_cpp.flags import FLAGS, IGNORED
from cachesim.engines.shared import advice
from cachesim.engines.shared.drawn_requests import context_parts, draw_fields, slot_count
from cachesim.engines.shared.images import image_sizes
from cachesim.engines.shared.known_models import MODELS
from cachesim.model.hash_mixing import Rng
from cachesim.model.layer_kinds import KINDS
from cachesim.model.spec import TRAINED_ON


def _slots(now: Mapping[str, Any], load: ServerLoad) -> Iterator[advice.Try]:
    """Yield option sets with a slot per conversation (separate or unified context), then a single slot for all."""
    for n in advice.slot_counts(now, load):
        yield {"parallel": n, "kv_unified": True, **advice.widen_context(now, load.total)}
        yield {**advice.separate_contexts(now, load, n), "kv_unified": False}
        yield {**advice.separate_contexts(now, load, n), "slot_prompt_similarity": advice.UNLIKE}
    if now["parallel"] != 1:
        yield {"parallel": 1}
        yield from advice.other_values("kv_unified", now, not now["kv_unified"])


TRIES = advice.tries_of(
    FLAGS, "cache_prompt", "slot_prompt_similarity", "cache_idle_slots", "checkpoint_min_step",
    advice.ample(advice.CHECKPOINTS_OF_SLOT), advice.smaller_batches, _slots, advice.ample(advice.PROMPT_CACHE),
    "swa_full", advice.ample(advice.CONTEXT), "context_shift", advice.fewer_drafts, "cache_reuse",
)
"""Candidate changes: first those without cost, then those that cost memory, last those that give wrong
answers with some models."""


def draw(rng: Rng, model: str) -> DrawnServer:
    """Draw a server for this model: edge values of its options, small batches, a small context."""
    batch, ubatch = draw_batches(rng)
    if "W" in model and ubatch < 16 and rng.chance(50):
        batch, ubatch = max(batch, 64), 16       # otherwise no prompt would exceed the 256 cells of the window cache
    server: dict[str, Any] = {
        "batch_size": batch, "ubatch_size": ubatch, "ctx_size": rng.one((512, 1024, 1024, 2048)), "parallel": 1,
    }  # fmt: skip
    if rng.chance(40):
        server["parallel"] = rng.one((2, 2, 3))
        server["kv_unified"] = rng.chance(50)
        server["slot_prompt_similarity"] = rng.one((0.0, 0.1, 0.5))
        if server["kv_unified"]:        # conversations share a context: purges, halved batches, failed loads
            server["ctx_size"] = rng.one((256, 256, 512, server["ctx_size"]))
    if rng.chance(40):
        server["ctx_checkpoints"] = rng.one((0, 1, 2, 3))
    if rng.chance(60):
        server["checkpoint_min_step"] = rng.one((0, 0, 2, 8, 32, 8192))
    if rng.chance(40):
        server["cache_ram"] = rng.one((0, 0, 1, -1))
    if rng.chance(15):
        server["swa_full"] = True
    if rng.chance(10):
        server["cache_reuse"] = rng.one((1, 4, 16))
    if rng.chance(15):
        server["spec_type"], server["spec_draft_n_max"] = "ngram-simple", rng.one((1, 2, 4))
    edges: tuple[int, ...] = (1, 4, 5, 8, ubatch, batch, 64, 256, 512)
    if "W" in model:
        edges = (*edges, 130, 256, 264, 300, 400, 130, 264, 300)    # a window cache of 256 cells loses rows only then
    shares = 1 if server.get("kv_unified") else server["parallel"]
    room = server["ctx_size"] // shares - 16
    return DrawnServer("llama_cpp", model, server=server, edges=edges, most=min(room, MOST_DRAWN_BATCHES * ubatch))


def _adapter_lists(server: Mapping[str, Any]) -> tuple[str, ...]:
    """Return lists for a server with adapters: each of the first three alone, all of them, none, and other scales."""
    number = len(list(filter(None, str(server.get("lora_scaled", "")).split(","))))
    alone = [f"{i}:1" for i in range(min(number, 3))]
    return (*alone, *alone, ",".join(alone), "0:0", "0:0.5", f"{number - 1}:-1") if alone else ()


def _draw_fields(rng: Rng, server: Mapping[str, Any]) -> dict[str, Any]:
    """Draw request fields; on a server with adapters most requests have a list."""
    fields, lists = draw_fields(rng, server, completions=True), _adapter_lists(server)
    if lists and rng.chance(70):
        fields["extra"] = (("lora", rng.one(lists)),)
    return fields


MANUAL = Manual(
    flags=FLAGS,
    silent=IGNORED,
    models=(
        "llama", "gemma3", "gemma3l6", "mamba2", "qwen35", "qwen35mtp", "qwen2vl", "lfm2", "lfm2swa", "falconh1",
        "granitehybrid", "deepseek4", "deepseek32", "deepseek32one", "dots3note", "minimax-m3", "qwen4exp",
    ),
    newest=frozenset(letter for letter, kind in KINDS.items() if kind.newest),
    known=MODELS,
    architectures=("qwen35",),
    with_text=("llama", "gemma3l6", "qwen35d64", "qwen35d64mtp"),
    completions=True,
    slot_count=slot_count,
    takes=frozenset({
        "cache_prompt", "id_slot", "user_starts", "chat", "byte_pos", "n_keep", "n_discard", "n_cache_reuse",
        "children_forced", "children_drafts", "cancel_at", "cancel_order", "cancel_place", "drafts", "draft_else",
        "stop", "eog", "others", "shared", IMAGES, INVALID,
    }),
    fields=(Field("lora", "", "list of adapters with their scales, as in 0:1,2:0.5; the others are off"),),
    plenty={"ctx_checkpoints": 32, "cache_ram": 8192},
    endless=True,
    headline=("ctx_size", "batch_size", "ubatch_size", "parallel", "ctx_checkpoints"),
    open_words={"ctx_size": str(TRAINED_ON), "parallel": "auto"},
    token_numbers=("min_step", "tail", "ctx_pad", "window_pad"),
    unlimited={"ctx_checkpoints": 1_000_000, "cache_ram": -1},
    context=ContextOption("ctx_size", context_parts, trained="n_ctx_train"),
    drawn=("A", "AA", "W8 A", "W8 W8", "GA", "GGGA", "S", "SS", "CA", "HH", "G W8", "C W8"),
    drawn_newest=("I8", "I8 I8", "W8 I8", "A B2", "G P8", "W8 D4.8.3", "W8 D4.8.3 D8.8"),
    draw=draw,
    draw_fields=_draw_fields,
    adapter_lists=_adapter_lists,
    adapter_scales="lora_scaled",
    image_sizes=image_sizes,
    drawn_with_images=("qwen2vl", "qwen35-GA", "qwen35-GGGA"),
    tries=TRIES,
    capacities=(advice.CHECKPOINTS_OF_SLOT, advice.PROMPT_CACHE, advice.CONTEXT),
)
