"""What can be asked of llama.cpp's server: its options, its models, what a search draws."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from typing import Any, Iterator, Mapping

from cachesim.engines.llama_cpp.command_line import (
    CACHE,
    INTEGERS,
    MODEL_DRAFT,
    NO_CACHE,
    SHARES,
    SILENT,
    SILENT_ONE,
)
from cachesim.engines.llama_cpp.command_line import OFF as SWITCHED_OFF
from cachesim.engines.llama_cpp.command_line import ON as SWITCHED_ON
from cachesim.engines.llama_cpp.server_flags import POOLINGS, SPEC_TYPES, Options
from cachesim.engines.manual import MANY, Context, Load, Manual, Option, World, draw_batches, flags_of
from cachesim.engines.shared.advice import apart, larger_cache, more, numbers_of_slots, others, room, smaller_batches
from cachesim.engines.shared.drawn_requests import context_parts, draw_fields, slot_count
from cachesim.model.hash_mixing import Rng
from cachesim.model.spec import TRAINED_ON

# What do llama-server's flags mean for its caches, one sentence each, and how does the server spell them?
#
# Source: llama.cpp common/arg.cpp (3f545be); the numbers of older builds from the changes that rules name.

HELP: Mapping[str, str] = {
    "ctx_size": "Tokens of the whole context. Slots share it with a unified cache, otherwise each gets an equal part; "
                "a longer prompt is refused.",
    "batch_size": "Most tokens of one batch (n_batch). A prompt is evaluated batch by batch, and checkpoints are "
                  "created between batches only.",
    "ubatch_size": "Most tokens that the model evaluates at once (n_ubatch). One checkpoint is placed 4 + n_ubatch "
                   "tokens before the end of a prompt.",
    "parallel": "Number of slots; each keeps one conversation in the context. -1 = four with a unified cache (one "
                "before b6925).",
    "kv_unified": "All slots share the cells of one cache, so that one of them may fill the whole context. By default "
                  "on only where the number of slots is left open.",
    "swa_full": "Sliding-window layers keep all positions, not only those in the window, so that a prompt can be cut "
                "anywhere without a checkpoint.",
    "ctx_checkpoints": "Most checkpoints of a slot; 0 = none, so that recurrent, hybrid and sliding-window models "
                       "evaluate a changed prompt from its start. (3 before b6723, 8 before b8218.)",
    "checkpoint_min_step": "Fewest tokens between two checkpoints; 0 = no distance is demanded, -1 = the default of "
                           "the version (8192; 256 from b9310 to b9764). In b8218 to b9309 the step of periodic "
                           "checkpoints.",
    "cache_ram": "Limit of the prompt cache in MiB; 0 = no prompt cache, -1 = no limit in bytes (one in tokens "
                 "remains).",
    "slot_prompt_similarity": "A slot is selected by LCP similarity if the common prefix is a larger share of the "
                              "prompt than this; 0 = always by LRU. (0.5 before b6455.)",
    "cache_idle_slots": "Idle slots are saved to the prompt cache when a request of another conversation starts.",
    "cache_prompt": "Requests reuse what their slot holds, unless they say otherwise; off = every prompt is evaluated "
                    "from its start.",
    "cache_reuse": "Fewest tokens of a block behind the common prefix that is reused by shifting its positions; 0 = "
                   "no block is.",
    "context_shift": "A full context drops its older half and goes on generating; off = generation ends.",
    "spec_type": "How tokens are drafted; a rejected draft is cut off again or, where the memory cannot be cut, "
                 "restored from a checkpoint.",
    "spec_draft_n_max": "Most tokens of a draft. (16 before b9235.)",
    "model_draft": "Model that drafts with spec_type draft-simple: layers or a name.",
    "kv_unified_per_slot": "Most tokens of one slot in a unified cache; 0 = no limit. From b10809 on.",
    "pooling": "How an embedding is made of a prompt; last and rank read its last token only.",
}  # fmt: skip
"""Option -> what it changes."""

SPELLINGS: Mapping[str, tuple[str, ...]] = {
    **INTEGERS, **SHARES, **SWITCHED_ON, "cache_prompt": (CACHE,),
    "spec_type": ("--spec-type",), "model_draft": MODEL_DRAFT, "pooling": ("--pooling",),
}
OFF: Mapping[str, tuple[str, ...]] = {**SWITCHED_OFF, "cache_prompt": (NO_CACHE,)}
ALSO: Mapping[str, tuple[str, ...]] = {
    "ctx_size": ("n_ctx",), "batch_size": ("n_batch",), "ubatch_size": ("n_ubatch",), "parallel": ("n_parallel",),
    "cache_ram": ("cache_ram_mib",), "ctx_checkpoints": ("n_ctx_checkpoints",), "cache_reuse": ("n_cache_reuse",),
    "slot_prompt_similarity": ("similarity",),
}
"""Names of the same numbers inside the server and in its log."""

IGNORED: Mapping[str, int] = {
    **{word: 1 for word in SILENT_ONE if word != "--seed"}, **{word: 0 for word in SILENT if word != CACHE},
    "-m": 1, "-hf": 1, "--host": 1, "--port": 1, "--jinja": 0, "-v": 0, "--verbose": 0, "--metrics": 0, "--slots": 0,
    "--n-gpu-layers": 1, "--threads": 1, "--flash-attn": 1, "--cache-type-k": 1, "--cache-type-v": 1, "--alias": 1,
    "--temp": 1, "--top-k": 1, "--top-p": 1, "--min-p": 1, "--chat-template": 1, "--chat-template-file": 1,
    "--reasoning-format": 1, "--reasoning-budget": 1, "--mmproj": 1, "--no-mmap": 0, "--mlock": 0, "-ngld": 1,
    "--split-mode": 1, "--tensor-split": 1, "-ts": 1, "-sm": 1, "--api-key": 1, "--n-cpu-moe": 1, "-ot": 1,
}  # fmt: skip
"""Flags that change no decision about caches, and how many values follow them: a command line may have them."""

__all__ = ["ALSO", "HELP", "IGNORED", "OFF", "SPELLINGS"]


# Which options of llama-server govern which families of rules? For ``cachesim explain``.

RULE_FLAGS: Mapping[str, tuple[str, ...]] = {
    "LC-SLOT-SELECT": ("slot_prompt_similarity", "parallel"),
    "LC-SLOT-CTX": ("ctx_size", "parallel", "kv_unified", "kv_unified_per_slot"),
    "LC-CTX-POOL": ("ctx_size", "parallel", "kv_unified_per_slot"),
    "LC-PC-ASK": ("cache_ram",),
    "LC-PC-ALLOC": ("cache_ram",),
    "LC-PC-LOAD": ("cache_ram",),
    "LC-PC-UPDATE": ("cache_ram", "ctx_size"),
    "LC-IDLE-SAVE": ("cache_idle_slots", "kv_unified", "cache_ram"),
    "LC-IDLE-PURGE": ("kv_unified",),
    "LC-NPAST-LCP": ("cache_prompt",),
    "LC-NPAST-REUSE": ("cache_reuse",),
    "LC-CKPT-ON": ("ctx_checkpoints",),
    "LC-CKPT-NEED": ("swa_full",),
    "LC-CKPT-PICK": ("ctx_checkpoints",),
    "LC-CKPT-RESET": ("ctx_checkpoints", "checkpoint_min_step", "swa_full"),
    "LC-CKPT-BREAK": ("batch_size", "ubatch_size"),
    "LC-CKPT-PERIODIC": ("checkpoint_min_step",),
    "LC-CKPT-CREATE": ("checkpoint_min_step", "ubatch_size"),
    "LC-CKPT-SPACING": ("checkpoint_min_step",),
    "LC-CKPT-LIMIT": ("ctx_checkpoints",),
    "LC-CKPT-REPLACE": ("ctx_checkpoints",),
    "LC-DECODE": ("batch_size", "kv_unified"),
    "LC-SHIFT": ("context_shift", "ctx_size"),
    "LC-N-SWA": ("swa_full",),
    "LC-KV-FULL": ("swa_full",),
    "LC-SPEC-UNREAD": ("kv_unified", "ctx_size", "parallel"),
    "LC-KV-STATE": ("swa_full",),
    "LC-KV-COPY": ("kv_unified",),
    "LC-KV-UNDO": ("batch_size", "ubatch_size", "swa_full"),
    "LC-TASK": ("pooling", "ubatch_size"),
    "LC-RS-PLANES": ("spec_type", "spec_draft_n_max"),
    "LC-RS-BACK": ("spec_draft_n_max",),
    "LC-RS-SPLIT": ("ubatch_size", "kv_unified"),
    "LC-SPEC-ON": ("spec_type", "model_draft"),
    "LC-SPEC-MAX": ("spec_draft_n_max", "batch_size"),
    "LC-SPEC-CKPT": ("spec_draft_n_max",),
    "LC-SPEC-ROOM": ("batch_size", "spec_draft_n_max", "parallel"),
}
"""Family -> names of options."""


# Which flags of llama-server are worth trying where too much of a prompt is evaluated?
#
# Those that decide about caches, one at a time, with what has to change with them: more slots want a larger context.
# From what costs nothing to what costs memory, and last what is known to give wrong answers with some models.

UNLIKE = 0.9                 # a slot is taken for what goes on, and not for what only begins alike
Try = dict[str, Option]


def tries(now: Mapping[str, Any], load: Load) -> Iterator[Try]:
    """Options to try; ``now`` are all options of the server."""
    yield from others("cache_prompt", now, True)
    yield from others("slot_prompt_similarity", now, 0.0, 0.1, 0.5)
    yield from others("cache_idle_slots", now, True)
    yield from _checkpoints(now, load)
    yield from _slots(now, load)
    yield from larger_cache(now)
    yield from others("swa_full", now, True)
    yield from room_for_all(now, load)
    yield from others("context_shift", now, not now["context_shift"])
    yield from _drafts(now)
    yield from others("cache_reuse", now, 256, 1)


def _checkpoints(now: Mapping[str, Any], load: Load) -> Iterator[Try]:
    """How many, how far apart; and batches, between which they are made."""
    yield from others("checkpoint_min_step", now, 0, 64, 256, 1024)
    yield from more("ctx_checkpoints", now, 32, 64, 128, 256)
    yield from smaller_batches(now, load)


def _slots(now: Mapping[str, Any], load: Load) -> Iterator[Try]:
    """A slot for each conversation, with a context of its own or a common one; or one slot for all."""
    for n in numbers_of_slots(now, load):
        yield {"parallel": n, "kv_unified": True, **room(now, load.total)}
        yield {**apart(now, load, n), "kv_unified": False}
        yield {**apart(now, load, n), "slot_prompt_similarity": UNLIKE}
    if now["parallel"] != 1:
        yield {"parallel": 1}
        yield from others("kv_unified", now, not now["kv_unified"])


def room_for_all(now: Mapping[str, Any], load: Load) -> Iterator[Try]:
    """A context that is large enough for all conversations: the prompt cache holds as many tokens."""
    if wider := room(now, load.total):
        yield wider


def _drafts(now: Mapping[str, Any]) -> Iterator[Try]:
    if now["spec_type"] != "none":
        yield {"spec_type": "none"}
        yield from others("spec_draft_n_max", now, 1)


def draw(rng: Rng, model: str) -> World:
    """A server for this model: the corners among its options, small batches, little room."""
    batch, ubatch = draw_batches(rng)
    if "W" in model and ubatch < 16 and rng.chance(50):
        batch, ubatch = max(batch, 64), 16       # else no prompt would leave the ring of 256 cells
    server: dict[str, Any] = {
        "batch_size": batch, "ubatch_size": ubatch, "ctx_size": rng.one((512, 1024, 1024, 2048)), "parallel": 1,
    }  # fmt: skip
    if rng.chance(40):
        server["parallel"] = rng.one((2, 2, 3))
        server["kv_unified"] = rng.chance(50)
        server["slot_prompt_similarity"] = rng.one((0.0, 0.1, 0.5))
        if server["kv_unified"]:            # several texts want the room of one: purges, halved batches, failed loads
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
        edges = (*edges, 130, 256, 264, 300, 400, 130, 264, 300)    # a ring has 256 cells: only then is something lost
    shares = 1 if server.get("kv_unified") else server["parallel"]
    room = server["ctx_size"] // shares - 16
    return World("llama_cpp", model, server, edges, min(room, MANY * ubatch))


TOKENS = ("ctx_size", "batch_size", "ubatch_size", "checkpoint_min_step", "cache_reuse", "kv_unified_per_slot")
"""Options that count tokens."""

MANUAL = Manual(
    flags=flags_of(
        asdict(Options()),
        least={"ctx_size": 1, "batch_size": 1, "ubatch_size": 1, "parallel": 1},
        # left open: the model's own context; four slots, unified; no byte limit; the version's default
        open={"ctx_size": 0, "parallel": -1, "cache_ram": -1, "checkpoint_min_step": -1, "kv_unified_per_slot": 0},
        choices={"spec_type": SPEC_TYPES, "pooling": POOLINGS},
        model={"model_draft": True},
        help=HELP,
        tokens=dict.fromkeys(TOKENS, True),
        spellings=SPELLINGS,
        off=OFF,
        also=ALSO,
    ),
    silent=IGNORED,
    models=(
        "llama", "gemma3", "gemma3l6", "mamba2", "qwen35", "qwen35mtp", "lfm2", "lfm2swa", "falconh1", "granitehybrid",
    ),
    architectures=("qwen35",),
    with_text=("llama", "gemma3l6", "qwen35d64", "qwen35d64mtp"),
    completions=True,
    slot_count=slot_count,
    takes=frozenset({
        "cache_prompt", "id_slot", "user_starts", "chat", "byte_pos", "n_keep", "n_discard", "n_cache_reuse",
        "children_forced", "children_drafts", "cancel_at", "cancel_order", "cancel_place", "drafts", "draft_else",
        "stop", "eog", "others", "shared",
    }),
    plenty={"ctx_checkpoints": 32, "cache_ram": 8192},
    endless=True,
    headline=("ctx_size", "batch_size", "ubatch_size", "parallel", "ctx_checkpoints"),
    open_words={"ctx_size": str(TRAINED_ON), "parallel": "auto"},
    token_numbers=("min_step", "tail", "ctx_pad", "window_pad"),
    unlimited={"ctx_checkpoints": 1_000_000, "cache_ram": -1},
    context=Context("ctx_size", context_parts),
    drawn=("A", "AA", "W8 A", "W8 W8", "GA", "GGGA", "S", "SS", "CA", "HH", "G W8", "C W8"),
    draw=draw,
    draw_fields=partial(draw_fields, completions=True),
    tries=tries,
)
