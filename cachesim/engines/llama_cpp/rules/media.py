"""Images in prompts: their positions, where batches and prefixes may end, and what a server with a projector lacks.

An image is a stretch of items in the list of tokens (``base/media_items.py``). The items of different images differ, so
that a common prefix never ends inside an image.
Source: llama.cpp tools/server/server-common.cpp server_tokens, tools/server/server-context.cpp, tools/mtmd (b11549).
"""

from __future__ import annotations

from typing import Sequence

from cachesim.base.media_items import is_item, item_at, length_to, next_image, position
from cachesim.engines.llama_cpp.rules.checkpoint_facts import Ckpt, ResumePlace
from cachesim.engines.llama_cpp.source_files import CONTEXT, llama_cpp
from cachesim.engines.rule import Decision, Role, rule

TOKENS, HELPER = "tools/server/server-common.cpp", "tools/mtmd/mtmd-helper.cpp"


@rule("LC-MEDIA-POS", Role.MEMORY, llama_cpp(TOKENS, "server_tokens::pos_next", "b11549"))
def position_of(tokens: Sequence[int], index: int) -> Decision:
    """Return the position of an item of a list with images, for a model with 2-D positions: all items of an image have
    the position of its start, and the text after it continues max(nx, ny) positions later."""
    return Decision(position(tokens, index), {"index": index})


@rule("LC-MEDIA-RESUME", Role.RESUME,
      llama_cpp(CONTEXT, 'pre_decode "size_up_to_pos", ' + TOKENS + " server_tokens::size_up_to_pos", "b11549"))
def resume_at(tokens: Sequence[int], ckpt: Ckpt, resume: ResumePlace, is_2d: bool) -> Decision:
    """Return where evaluation continues after a checkpoint on a server with a projector: at the end of the token or
    image that reaches the position, at most at the checkpoint's n_tokens."""
    n_past = min(length_to(tokens, resume.pos_next, is_2d), ckpt.n_tokens)
    return Decision(resume._replace(n_past=n_past), {"pos_next": resume.pos_next, "n_tokens": ckpt.n_tokens})


@rule("LC-MEDIA-LCP", Role.PREFIX, llama_cpp(TOKENS, "server_tokens::get_common_prefix", "b11549"))
def whole_images(prompt: Sequence[int], lcp: int) -> Decision:
    """Return the common prefix: an image counts as a whole, if id and number of tokens are those of the other list."""
    inside = item_at(prompt, lcp)
    return Decision(lcp - inside.number if inside else lcp, {"lcp": lcp})


@rule("LC-MEDIA-NULL", Role.FAIL, llama_cpp(TOKENS, "server_tokens::find_chunk", "b11549"))
def null_at_image(tokens: Sequence[int], prompt: Sequence[int], lcp: int) -> Decision:
    """End the process if the prompt has the token -1 where the slot has an image: both look like the start of an
    image, and the prompt has none. Return the last message, "" = it continues."""
    met = lcp < min(len(tokens), len(prompt)) and prompt[lcp] < 0 and is_item(tokens[lcp])
    return Decision("Chunk not found" if met else "", {"lcp": lcp})


@rule("LC-MEDIA-CUT", Role.FAIL, llama_cpp(TOKENS, "server_tokens::keep_first", "b11549"))
def cut_inside(tokens: Sequence[int], n_past: int) -> Decision:
    """Fail a request whose slot is to be cut inside an image, as after NPAST-ONE for a prompt that ends with a reused
    image. The slot keeps its tokens. Return the error text, "" = the slot is cut."""
    inside = item_at(tokens, n_past)
    text = "got exception: Chunk not found" if inside and inside.number else ""
    return Decision(text, {"n_past": n_past})


@rule("LC-MEDIA-ITER", Role.PLAN, llama_cpp(CONTEXT, 'pre_decode "process_mtmd_chunk"', "b11549"))
def text_end(prompt: Sequence[int], start: int, stop: int) -> Decision:
    """Return where the text of a batch ends: before the next image. The next iteration evaluates this image at once,
    before its batch."""
    return Decision(next_image(prompt, start, stop), {"start": start, "stop": stop})


@rule("LC-MEDIA-CKPT", Role.CREATE, llama_cpp(CONTEXT, 'pre_decode "do_checkpoint" "has_mtmd"', "b11549"))
def none_after_image(due: bool, images: int) -> Decision:
    """Create no checkpoint in an iteration that evaluated an image: it would hold the state after the image."""
    return Decision(due and not images, {"due": due, "images": images})


@rule("LC-MEDIA-NONCAUSAL", Role.FAIL, llama_cpp(HELPER, "mtmd_helper_decode_image_chunk", "b11549"))
def fits_micro_batch(n_tokens: int, n_ubatch: int, noncausal: bool) -> Decision:
    """End the process if an image that is evaluated without causal mask does not fit into a micro-batch. Return the
    last message, "" = it is evaluated."""
    text = "non-causal attention requires n_ubatch >= n_tokens" if noncausal and n_ubatch < n_tokens else ""
    return Decision(text, {"n_tokens": n_tokens, "n_ubatch": n_ubatch})


@rule("LC-MEDIA-KV", Role.FAIL, llama_cpp(CONTEXT, 'process_mtmd_chunk "failed to process mtmd chunk"', "b11549"))
def image_fails(ret: int) -> Decision:
    """Fail a request whose image finds no free cells: the batch is not halved, and no idle slot is purged. Pieces that
    were evaluated stay until the slot's next TRIM. Return the error text."""
    return Decision("failed to process mtmd chunk", {"ret": ret})


@rule("LC-MEDIA-LORA", Role.MEMORY, llama_cpp(CONTEXT, 'decode "common_set_adapter_lora"', "b11549"))
def adapters_of_image(in_force: Sequence[float], own: Sequence[float]) -> Decision:
    """Return the scales under which an image is evaluated: those that the previous batch left in the context, on
    whatever slot, because the adapters of a batch are set after its images."""
    return Decision(tuple(in_force), {"own": tuple(own)})


@rule("LC-MEDIA-OFF", Role.SETUP, llama_cpp(CONTEXT, 'load_model "ctx_shift" "cache_reuse"', "b11549"))
def moves_positions(movable: bool, projector: bool) -> Decision:
    """True if positions may be moved, by context shifts and by reuse of moved blocks: not in a server with a
    projector, for text neither."""
    return Decision(movable and not projector, {"movable": movable, "projector": projector})


@rule("LC-MEDIA-FILE", Role.FAIL, llama_cpp(TOKENS, "server_tokens", "b11549"))
def restorable(images: bool, projector: bool) -> Decision:
    """Refuse a slot file with images on a server without a projector. Return the cause, "" = it is restored."""
    refused = images and not projector
    return Decision("Cannot restore media tokens without an mmproj" if refused else "", {"images": images})


@rule("LC-MEDIA-LAST", Role.FAIL, llama_cpp(CONTEXT, 'pre_decode "GGML_ASSERT(batch.size() > 0)"', "b11549"))
def last_may_be_image(prompt: Sequence[int]) -> Decision:
    """Return "": a prompt may end with an image, although the evaluation of an image gives no output. If no other slot
    has tokens in the batch, the process ends; else the answer begins with the output of another slot."""
    return Decision("", {"n_tokens": len(prompt)})


@rule("LC-MEDIA-SIZE", Role.FAIL, llama_cpp(HELPER, "mtmd_helper_decode_image_chunk", "b11549"))
def any_size(n_tokens: int, n_batch: int, n_ubatch: int) -> Decision:
    """Return "": the size of an image that is evaluated without causal mask is not checked before its evaluation."""
    return Decision("", {"n_tokens": n_tokens, "n_ubatch": n_ubatch})


@rule("LC-MEDIA-BACK", Role.PREFIX, llama_cpp(CONTEXT, 'pre_decode "TAG_PROMPT_LOGITS"', "b11549"))
def stays_inside(prompt: Sequence[int], n_past: int) -> Decision:
    """Return the tokens to reuse of a prompt that ends with a reused image, or whose reuse ends inside an image: all
    of them. One token before the end of an image, no slot can be cut."""
    return Decision(n_past, {"n_past": n_past})


@rule("LC-MEDIA-AGAIN", Role.FAIL, llama_cpp(CONTEXT, "process_mtmd_chunk", "b11549"))
def tried_once(ret: int) -> Decision:
    """Return False: an image that finds no free cells is not tried again. No idle slot is cleared for it."""
    return Decision(False, {"ret": ret})


@rule("LC-MEDIA-REASON", Role.CREATE, llama_cpp(CONTEXT, 'pre_decode "near_prompt_end" "has_mtmd"', "b11549"))
def no_reason(do: bool, pos_min: int) -> Decision:
    """Return False: a checkpoint is not created because of an image in this iteration."""
    return Decision(False, {"do": do, "pos_min": pos_min})
