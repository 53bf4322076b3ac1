"""Interface of ik_llama.cpp's server: options, models, and the values that a search draws."""

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
from cachesim.engines.ik_llama.flags import FLAGS, IGNORED
from cachesim.engines.shared import advice
from cachesim.engines.shared.drawn_requests import context_parts, draw_fields, slot_count
from cachesim.engines.shared.images import image_sizes
from cachesim.engines.shared.known_models import OLDER, KnownModel
from cachesim.model.hash_mixing import Rng
from cachesim.model.spec import TRAINED_ON


def _slots(now: Mapping[str, Any], load: ServerLoad) -> Iterator[advice.Try]:
    """Yield a slot for each conversation, then a single slot for all."""
    for n in advice.slot_counts(now, load):
        yield advice.separate_contexts(now, load, n)
        yield {**advice.separate_contexts(now, load, n), "slot_prompt_similarity": advice.UNLIKE}
    if now["parallel"] != 1:
        yield {"parallel": 1}


TRIES = advice.tries_of(
    FLAGS, "slot_prompt_similarity", "reasoning_tokens", "cache_ram_similarity", "cache_ram_n_min",
    "ctx_checkpoints_interval", "ctx_checkpoints_tolerance", "ctx_checkpoints_eviction",
    advice.ample(advice.CHECKPOINTS_OF_SLOT), advice.smaller_batches, _slots, advice.ample(advice.PROMPT_CACHE),
    "swa_compress", advice.ample(advice.CONTEXT), "context_shift", advice.fewer_drafts,
)
"""Option changes for ``advise``, cheapest first; those that cost memory come last."""


def draw(rng: Rng, model: str) -> DrawnServer:
    """Draw a server for this model: extreme option values, small batches, a small context."""
    batch, ubatch = draw_batches(rng)
    server: dict[str, Any] = {
        "batch_size": batch, "ubatch_size": ubatch, "ctx_size": rng.one((128, 512, 1024, 2048)), "context_shift": False,
    }  # fmt: skip
    if rng.chance(30):
        server["parallel"] = 2
    if rng.chance(40):
        server["ctx_checkpoints"] = rng.one((0, 1, 2, 3))
    if rng.chance(60):
        server["ctx_checkpoints_interval"] = rng.one((0, 8, 16, 64, 512))
        server["ctx_checkpoints_tolerance"] = rng.one((0, 1, 5, 5))
    if rng.chance(40):
        server["cache_ram"] = rng.one((0, 0, 1))
    if rng.chance(30):
        server["cache_ram_similarity"] = rng.one((0.0, 0.5, 1.0))
    if rng.chance(20):          # small context that prompt and answer fill
        server["context_shift"], server["ctx_size"] = True, 128
    if "+M" in model or model.endswith("mtp"):
        server["spec_type"], server["spec_draft_n_max"] = "mtp", rng.one((1, 2, 4))
        server.pop("parallel", None)             # the server refuses both options together
    edges: tuple[int, ...] = (1, 4, 5, 6, ubatch, batch, server.get("ctx_checkpoints_interval", 512))
    room = server["ctx_size"] // server.get("parallel", 1)
    spare = 2 if server["context_shift"] else 8
    room = room - spare if not rng.chance(10) else room + 40
    if rng.chance(20):                           # prompts longer than the context
        server.pop("parallel", None)
        server["ctx_size"] = rng.one((128, 256))
        room = server["ctx_size"] + 150
        edges = (5, 64, 80, 100, 128)            # 64: shortest prompt that leaves a checkpoint
    server["flash_attn"] = server["ctx_size"] == 2048           # blocks of 256 cells, otherwise 32
    return DrawnServer("ik_llama", model, server=server, edges=edges, most=min(room, MOST_DRAWN_BATCHES * ubatch))


# ik_llama.cpp 8337e4c: src/llama-arch.cpp, src/llama.cpp llama_kv_cache_init, src/llama-context.h dsv4_runtime.
SOURCE = "ikawrakow/ik_llama.cpp {} (8337e4c)"
PRIVATE = ("W128 C W128 A; a short convolution stands for the states of the compressor, attention for its rows, in "
           "invented proportions; read in the source, not recorded")
KNOWN: Mapping[str, KnownModel] = {
    **{name: model for name, model in OLDER.items() if name != "mamba-2"},         # LLM_ARCH_MAMBA only
    "deepseek-v4": KnownModel("deepseek4-states", PRIVATE, SOURCE.format("src/llama-dsv4.cpp")),
    "deepseek-v4-pro": KnownModel("deepseek4-states", PRIVATE, SOURCE.format("src/llama-dsv4.cpp")),
    "minimax-m3": KnownModel(
        "AAAA", "all its 60 layers read all rows, since ik_llama.cpp has no index for them; read in the source, not "
        "recorded", SOURCE.format("src/graphs/build_minimaxm3.cpp")),
}
_INDEX = "the index keys that ik_llama.cpp keeps beside its latent rows (kr_l) have no rules here"
_ABSENT = "ik_llama.cpp 8337e4c has no architecture {}"
LACKS: Mapping[str, str] = {
    "glm-5": _INDEX, "glm-5.2": _INDEX, "deepseek-v3.2": _ABSENT.format("deepseek32"),
    "glm-5-next": _ABSENT.format("glm5-next"), "hunyuan-v4": _ABSENT.format("hy_v4"),
    "dots-3": _ABSENT.format("dots3note"), "qwen3.8-flash-next": _ABSENT.format("qwen4exp"),
}
"""Real model -> what is missing to simulate it."""

MANUAL = Manual(
    flags=FLAGS,
    silent=IGNORED,
    token_numbers=("block_flash", "block_plain"),
    models=("llama", "gemma3l6", "qwen35d64", "qwen35d64mtp", "deepseek4", "deepseek4-states"),
    with_text=("llama", "gemma3l6", "qwen35d64", "qwen35d64mtp"),
    empty_prompt=True,
    slot_count=slot_count,
    takes=frozenset({
        "cache_prompt", "id_slot", "n_keep", "n_discard", "cancel_at", "drafts", "draft_else", IMAGES, INVALID,
    }),
    plenty={"ctx_checkpoints": 32, "cache_ram": 8192},
    endless=True,
    headline=("ctx_size", "batch_size", "ubatch_size", "ctx_checkpoints_interval"),
    open_words={"ctx_size": str(TRAINED_ON)},
    unlimited={"ctx_checkpoints": 1_000_000, "cache_ram": -1},
    context=ContextOption("ctx_size", context_parts, trained="n_ctx_train"),
    known=KNOWN,
    lacks=LACKS,
    fields=(
        Field("parser", False, "true: a chat, whose answer is parsed; the parser rejects plain text"),
        Field("stream", True, "false: the client waits for the whole answer, and a disconnect stops the evaluation"),
        Field("system_tokens", -1, "tokens at the start of the prompt that set the server's system prompt, -1 = none"),
    ),
    image_sizes=image_sizes,
    drawn_with_images=("qwen35d64", "qwen35d64mtp"),
    drawn=("A", "W8 A", "GA", "GGGA", "GGA+M", "A+M"),
    draw=draw,
    draw_fields=draw_fields,
    tries=TRIES,
    capacities=(advice.CHECKPOINTS_OF_SLOT, advice.PROMPT_CACHE, advice.CONTEXT),
)
