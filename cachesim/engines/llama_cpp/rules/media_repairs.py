"""Proposed rules for images in prompts: no process ends, nothing is evaluated under other adapters.

Two were tried on a patched b11549. No build contains them. ``note`` of a source describes the edit.
"""

from __future__ import annotations

from typing import Sequence

from cachesim.base.media_items import item_at
from cachesim.engines.llama_cpp.rules.media import HELPER
from cachesim.engines.llama_cpp.rules.prompt_lifecycle import valid_tokens
from cachesim.engines.llama_cpp.source_files import CONTEXT, llama_cpp
from cachesim.engines.rule import Decision, Role, rule


# [New in llama_cpp@b11549-lora-tried]
@rule("LC-MEDIA-LORA.OWN", Role.MEMORY,
      llama_cpp(CONTEXT, 'pre_decode "process_mtmd_chunk"', "b11549",
                note="proposed, tried on a patched server: common_set_adapter_lora before an image is decoded"))
def own_adapters(in_force: Sequence[float], own: Sequence[float]) -> Decision:
    """Return the scales under which an image is evaluated: those of its slot."""
    return Decision(tuple(own), {"own": tuple(own)})


# [New in llama_cpp@b11549-repaired]
@rule("LC-TASK-FIRST.VALID", Role.FAIL,
      llama_cpp(CONTEXT, 'process_single_task "SERVER_TASK_TYPE_COMPLETION"', "b11549",
                note="proposed here: tokens.validate() before get_available_slot"))
def valid_before_slot(least: int) -> Decision:
    """Refuse a prompt with a token that the model does not have before it has a slot. Return the error text, "" =
    accepted. Slots and entries are not compared with it, and no slot loses anything for it."""
    return Decision(valid_tokens(least).value, {"least": least})


# [New in llama_cpp@b11549-repaired]
@rule("LC-MEDIA-LAST.REFUSED", Role.FAIL,
      llama_cpp(CONTEXT, 'process_single_task "SERVER_TASK_TYPE_COMPLETION"', "b11549",
                note="proposed here: 400 for a prompt whose last token is LLAMA_TOKEN_NULL. The helper that decodes an "
                     "image asks for no output to sample from, and most projectors put text behind it"))
def last_is_no_image(prompt: Sequence[int]) -> Decision:
    """Refuse a prompt that ends with an image. Return the error text, "" = accepted."""
    refused = item_at(prompt, len(prompt) - 1) is not None
    return Decision("the prompt must not end with an image" if refused else "", {"n_tokens": len(prompt)})


# [New in llama_cpp@b11549-repaired]
@rule("LC-MEDIA-SIZE.REFUSED", Role.FAIL,
      llama_cpp(HELPER, "mtmd_helper_decode_image_chunk", "b11549",
                note="proposed here: 400 in process_single_task if mtmd_decode_use_non_causal and a piece has more "
                     "tokens than n_ubatch"))
def size_in_micro_batch(n_tokens: int, n_batch: int, n_ubatch: int) -> Decision:
    """Refuse a request with an image that is evaluated without causal mask and does not fit into a micro-batch.
    Return the error text, "" = accepted."""
    text = f"an image of {n_tokens} tokens is larger than the physical batch size ({n_ubatch})"
    return Decision(text if min(n_tokens, n_batch) > n_ubatch else "", {"n_tokens": n_tokens, "n_ubatch": n_ubatch})


# [New in llama_cpp@b11549-repaired]
@rule("LC-MEDIA-BACK.START", Role.PREFIX,
      llama_cpp(CONTEXT, 'pre_decode "get_common_prefix"', "b11549",
                note="proposed here: before checkpoints are searched, n_past goes back to the start of an image in "
                     "which it lies, or that ends the prompt"))
def back_to_start(prompt: Sequence[int], n_past: int) -> Decision:
    """Return the tokens to reuse of a prompt that ends with a reused image, or whose reuse ends inside an image: those
    before this image."""
    at = n_past if n_past < len(prompt) else n_past - 1
    inside = item_at(prompt, at)
    return Decision(at - inside.number if inside else n_past, {"n_past": n_past})


# [New in llama_cpp@b11549-repaired]
@rule("LC-MEDIA-AGAIN.PURGED", Role.FAIL,
      llama_cpp(CONTEXT, "process_mtmd_chunk", "b11549",
                note="proposed here: try_clear_idle_slots and another attempt, as after a failed llama_decode of text"))
def tried_after_purge(ret: int) -> Decision:
    """True if an image that finds no free cells is tried again after an idle slot was cleared: True."""
    return Decision(True, {"ret": ret})


# [New in llama_cpp@b11549-proposed]
@rule("LC-MEDIA-REASON.IMAGE", Role.CREATE,
      llama_cpp(CONTEXT, 'pre_decode "near_prompt_end" "has_mtmd"', "b11549",
                note="proposed, tried on a patched server: has_mtmd joins the reasons for a checkpoint"))
def image_is_reason(do: bool, pos_min: int) -> Decision:
    """True if an image in this iteration is a reason for a checkpoint: if the slot creates any."""
    return Decision(do and pos_min >= 0, {"do": do, "pos_min": pos_min})


# [New in llama_cpp@b11549-proposed]
@rule("LC-MEDIA-CKPT.AFTER", Role.CREATE,
      llama_cpp(CONTEXT, 'pre_decode "do_checkpoint" "has_mtmd"', "b11549",
                note="proposed, tried on a patched server: the condition `!has_mtmd` is removed"))
def kept_after_image(due: bool, images: int) -> Decision:
    """Create a checkpoint also in an iteration that evaluated an image: the state after it, before the first text
    token."""
    return Decision(due, {"due": due, "images": images})
