"""Images in prompts: their positions, where lists and batches may end, and failures.

An image is a stretch of items in the list of tokens (``base/media_items.py``); the items of different images differ.
``in_time``: M-RoPE, where an image has a single position. No server with images was run: all of this was only read.
Source: ik_llama.cpp examples/server/server-common.cpp server_tokens, server-context.cpp batch_pending_prompt,
examples/mtmd (8337e4cd3).
"""

from __future__ import annotations

from typing import Sequence

from cachesim.base.media_items import FIRST, item_at, next_image
from cachesim.engines.ik_llama.rules.context_shift import PromptShift, Shift
from cachesim.engines.ik_llama.source_files import CONTEXT, TOKENS, ik_llama
from cachesim.engines.rule import Decision, Role, rule

HELPER, MTMD = "examples/mtmd/mtmd-helper.cpp", "examples/mtmd/mtmd.cpp"
NOT_FOUND = "Chunk not found, or idx is not the first token of a chunk"
THROWN = "terminate called after throwing an instance of 'std::runtime_error': "


@rule("IK-MEDIA-POS", Role.MEMORY,
      ik_llama(TOKENS, "server_tokens::pos_next, " + MTMD + " mtmd_image_tokens_get_n_pos", "8337e4cd3"))
def position_after(tokens: Sequence[int], n: int, in_time: bool) -> Decision:
    """Return the position after the first n tokens. An image counts as a whole: as many positions as tokens, and a
    single position with M-RoPE."""
    inside = item_at(tokens, n)
    pos = n + inside.n_tokens - inside.number if inside and inside.number else n
    at = next_image(tokens, 0, min(pos, len(tokens))) if in_time else pos
    while at < min(n, len(tokens)) and (image := item_at(tokens, at)) is not None:
        pos -= image.n_tokens - 1
        at = next_image(tokens, at + image.n_tokens, len(tokens))
    return Decision(pos, {"n": n, "in_time": in_time})


@rule("IK-MEDIA-RESUME", Role.RESUME, ik_llama(TOKENS, "server_tokens::size_up_to_pos", "8337e4cd3"))
def tokens_up_to(tokens: Sequence[int], pos: int, in_time: bool) -> Decision:
    """Return the smallest number of first tokens, images as a whole, whose next position is at least ``pos``: there
    evaluation continues after a checkpoint."""
    n = reached = 0
    while n < len(tokens) and reached < pos:
        image = item_at(tokens, n)
        size = image.n_tokens if image else 1
        n, reached = n + size, reached + (1 if in_time else size)
    return Decision(n, {"pos": pos, "in_time": in_time})


@rule("IK-MEDIA-CUT.INSIDE", Role.FAIL, ik_llama(TOKENS, "server_tokens::keep_first", "8337e4cd3"), since="#1913")
def cut_inside(tokens: Sequence[int], n: int) -> Decision:
    """End the process if a list is cut inside an image, as after IK-ONE for a prompt that ends with a reused image: no
    caller catches the exception. Return the last message, "" = the list is cut."""
    inside = item_at(tokens, n)
    return Decision(THROWN + NOT_FOUND if inside and inside.number else "", {"n": n})


# [Gone in ik_llama@1949]
@rule("IK-MEDIA-CUT.BEHIND", Role.FAIL, ik_llama(TOKENS, "server_tokens::keep_first", "1520eda98^"),
      until="#1913 (1520eda98)")
def cut_behind(tokens: Sequence[int], n: int) -> Decision:
    """End the process if the last token that a shorter list keeps belongs to an image of several tokens and is not its
    first, so also where the text directly after an image changes. Return the last message, "" = the list is cut."""
    last = item_at(tokens, n - 1) if n < len(tokens) else None
    return Decision(THROWN + "Chunk not found" if last and last.number else "", {"n": n})


@rule("IK-MEDIA-ITER", Role.PLAN, ik_llama(CONTEXT, 'batch_pending_prompt "end of text chunk"', "8337e4cd3"))
def text_end(prompt: Sequence[int], start: int, stop: int, due: bool) -> Decision:
    """Return where the text of a batch ends, before the next image, and whether a checkpoint is due there. The next
    iteration evaluates this single image, before its batch. A checkpoint is due after text only: a place inside or
    directly after an image is passed over."""
    end = next_image(prompt, start, stop)
    return Decision((end, due and end == stop), {"start": start, "stop": stop})


@rule("IK-MEDIA-PLACE", Role.MEMORY, ik_llama(CONTEXT, 'batch_pending_prompt "add offset to prompt"', "8337e4cd3"))
def image_place(held: int, n_prompt: int) -> Decision:
    """Return the index at whose position an image is evaluated: its index in the prompt. Text is evaluated at its
    index in the slot, which differs if equal text has other tokens there."""
    return Decision(n_prompt, {"held": held, "n_prompt": n_prompt})


@rule("IK-MEDIA-CKPT", Role.CREATE, ik_llama(CONTEXT, 'create_checkpoint "image_just_processed"', "8337e4cd3"))
def none_right_after(wanted: bool, after_image: bool, held: int) -> Decision:
    """Create no checkpoint while an image is the last thing evaluated for the prompt. With text after it in the same
    iteration a checkpoint is created as usual."""
    return Decision(wanted and not after_image, {"wanted": wanted, "start": held})


@rule("IK-MEDIA-END", Role.FAIL, ik_llama(CONTEXT, 'batch_pending_prompt "batch.n_tokens > 0"', "8337e4cd3"))
def ends_with_image(n_batch: int) -> Decision:
    """End the process if a prompt ends with an image and the batch is empty. With tokens of another slot in it, the
    answer is sampled from the output after the last of them. Return the last message, "" = it is sampled."""
    return Decision("" if n_batch else "GGML_ASSERT(batch.n_tokens > 0) failed", {"n_batch": n_batch})


@rule("IK-MEDIA-NULL", Role.FAIL, ik_llama(CONTEXT, 'batch_pending_prompt "LLAMA_TOKEN_NULL"', "8337e4cd3"))
def no_image_here(token: int, number: int) -> Decision:
    """End the process for a prompt with a token -1, which looks like an image, with or without a projector (in the
    server when evaluation reaches it, here at the start of the prompt), and where evaluation reaches the rest of an
    image whose start a context shift discarded. Return the last message, "" = it is evaluated."""
    return Decision(THROWN + NOT_FOUND if token < 0 or number else "", {"token": min(token, 0), "number": number})


@rule("IK-MEDIA-NONCAUSAL", Role.FAIL, ik_llama("src/llama.cpp", "llama_decode_internal", "8337e4cd3"))
def fits_micro_batch(n_tokens: int, n_ubatch: int, noncausal: bool) -> Decision:
    """End the process if an image that is evaluated without causal mask does not fit into a micro-batch. Return the
    last message, "" = it is evaluated."""
    text = "non-causal attention requires n_ubatch >= n_tokens" if noncausal and n_ubatch < n_tokens else ""
    return Decision(text, {"n_tokens": n_tokens, "n_ubatch": n_ubatch})


@rule("IK-MEDIA-KV", Role.FAIL, ik_llama(CONTEXT, 'batch_pending_prompt "failed to process image"', "8337e4cd3"))
def image_fails(ret: int) -> Decision:
    """Send an error for an image without free cells, or whose evaluation a client stopped. The slot is not released,
    because it does not generate yet: it tries the image again in every iteration. Return the error text."""
    return Decision("failed to process image", {"ret": ret})


@rule("IK-MEDIA-SHIFT", Role.SHIFT, ik_llama(CONTEXT, "adjust_n_to_support_context_shift", "8337e4cd3"))
def shift_around_images(tokens: Sequence[int], plan: Shift) -> Decision:
    """Return the plan of a context shift that ends at no image: fewer tokens are kept, so that the last of them is
    text, and more are discarded, so that the last of them is text."""
    keep, discard = _around(tokens, plan.n_keep, plan.n_discard)
    return Decision(plan._replace(n_keep=keep, n_discard=discard), {"n_keep": plan.n_keep, "n_discard": plan.n_discard})


@rule("IK-MEDIA-PROMPT-SHIFT", Role.SHIFT,
      ik_llama(CONTEXT, "context_shift_prompt, adjust_n_to_support_context_shift", "8337e4cd3"))
def prompt_shift_around_images(tokens: Sequence[int], plan: PromptShift, n_ctx: int) -> Decision:
    """Return the plan of a prompt shift whose first block ends at no image; a second block may end inside one."""
    keep, block = _around(tokens, plan.n_keep, plan.block)
    blocks = -(-(len(tokens) - n_ctx + 1) // block)
    return Decision(PromptShift(keep, block, blocks * block), {"n_keep": plan.n_keep, "block": plan.block})


def _around(tokens: Sequence[int], keep: int, discard: int) -> tuple[int, int]:
    """Return the lengths that are kept and discarded, so that the last token of each range is text."""
    while 0 < keep <= len(tokens) and tokens[keep - 1] >= FIRST:
        keep -= 1
    while 0 < keep + discard <= len(tokens) and tokens[keep + discard - 1] >= FIRST:
        discard += 1
    return keep, discard


@rule("IK-MEDIA-OFF", Role.SETUP, ik_llama(CONTEXT, 'load_model "multimodal_spec_supported"', "8337e4cd3"))
def drafts_with_projector(kind: str, projector: bool) -> Decision:
    """Return the kind of drafts: with a projector only those of an MTP head, others are switched off at start-up."""
    return Decision("none" if projector and kind != "mtp" else kind, {"kind": kind, "projector": projector})
