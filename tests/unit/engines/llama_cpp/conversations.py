"""Whole conversations with a server. The tests of this folder and those below say what they must lead to."""

from __future__ import annotations

from collections.abc import Callable

from cachesim.base.media_items import image_items
from cachesim.engines.base import Draft
from tests.unit.engines.llama_cpp.talk import Talk, word

S, X, Y = word("s", 30), word("x", 9), word("y", 40)
CAT = image_items("cat", 16, 16)


def checkpoints() -> Talk:
    """A checkpoint is restored, created again and evicted; the third prompt lies before all checkpoints."""
    talk = Talk("R", mode="none", batch_size=16, ctx_checkpoints=2, checkpoint_min_step=8)
    first = talk.ask(S, 3)
    talk.ask(first.slot_tokens[:26] + X, 2, user_starts=(26,))
    talk.ask(S[:12] + X)
    return talk


def idle_slots() -> Talk:
    """Idle slots are saved in the prompt cache; a stored conversation is not stored twice."""
    talk = Talk("W", mode="none", parallel=2, ctx_size=128, cache_ram=1, slot_prompt_similarity=0.5)
    talk.ask(Y, 3)
    talk.ask(X[:4])
    talk.ask(Y[:30] + X, 2)
    talk.ask(Y, id_slot=1)
    return talk


def moved_block() -> Talk:
    """A block of 16 tokens is moved from 12 to 6."""
    talk = Talk("A", mode="none", cache_reuse=4, cache_ram=0)
    talk.ask(S)
    talk.ask(S[:6] + S[12:28] + X, 2)
    return talk


def children() -> Talk:
    """A child copies its parent's prompt; a unified cache clears idle slots after saving them."""
    talk = Talk("A", mode="none", parallel=2, kv_unified=True)
    talk.ask(S[:20], 2, n_cmpl=2)
    talk.ask(S * 4)
    talk.ask(Y, id_slot=1)
    talk.ask(S, 12, id_slot=0)
    return talk


def drafts() -> Talk:
    """Of a wrong draft the state before it is restored."""
    talk = Talk("H", mode="none", cache_ram=0, spec_type="ngram-simple", spec_draft_n_max=4)
    talk.ask(S, 12, drafts=(Draft(30, 4, 4), Draft(35, 3, 1)))
    return talk


def image() -> Talk:
    """An image is evaluated in two batches, and kept as a whole."""
    talk = Talk("W", "b11549", "none", cache_ram=0, mmproj="causal", batch_size=8)
    talk.ask(S[:6] + CAT + X)
    talk.ask(S[:6] + CAT + X[:3] + S[:2])
    return talk


def shifted() -> Talk:
    """A full context loses half of its tokens after the first four."""
    talk = Talk("A", mode="none", cache_ram=0, ctx_size=256, context_shift=True)
    talk.ask(word("long", 250), 12, n_keep=4)
    return talk


def small_cache() -> Talk:
    """Two conversations fit into the prompt cache: the oldest is evicted before the third is stored."""
    talk = Talk("A", mode="none", cache_ram=1, ctx_size=1024, batch_size=1024, slot_prompt_similarity=0.0)
    for name in ("a", "b", "c", "d"):
        talk.ask(word(name, 900))
    return talk


def older_cache() -> Talk:
    """An older build evicts after it has stored the conversation."""
    talk = Talk("A", "b8271", "none", cache_ram=1, ctx_size=1024, batch_size=1024, slot_prompt_similarity=0.0)
    for name in ("a", "b", "c", "d"):
        talk.ask(word(name, 900))
    return talk


def other_adapters() -> Talk:
    """An entry that was computed with other adapters is passed over, the ones after it are not."""
    talk = Talk("AA", "b11549-lora-tried", "none", lora_scaled="0,0", slot_prompt_similarity=0.0)
    talk.ask(S, extra={"lora": "0:1"})
    talk.ask(Y, extra={"lora": "1:1"})
    talk.ask(word("z", 9), extra={"lora": "0:1"})
    talk.ask(S + X, extra={"lora": "0:1"})
    return talk


def refused() -> Talk:
    """A cut inside an image and a prompt that is too long are refused; the slot keeps its tokens."""
    talk = Talk("A", "b11549", "none", cache_ram=0, mmproj="causal")
    talk.ask(S[:6] + CAT + X)
    talk.ask(S[:6] + CAT)
    talk.ask(word("long", 300))
    talk.ask(S[:6])
    return talk


CONVERSATIONS: tuple[Callable[[], Talk], ...] = (
    checkpoints, idle_slots, moved_block, children, drafts, image, shifted, small_cache, older_cache, other_adapters,
    refused,
)  # fmt: skip
