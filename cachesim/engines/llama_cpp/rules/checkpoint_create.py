"""Checkpoint creation: batch boundaries in a prompt, checkpoints before a batch, spacing and limit.

A checkpoint holds the state before its chunk is evaluated. CR = variants of creation, as in the history document.
near   the chunk ends within n_ubatch tokens of the prompt's end
"""

from __future__ import annotations

from typing import Iterable, Sequence

from cachesim.engines.llama_cpp.rules.checkpoint_facts import CheckpointUse, Chunk, Ckpt
from cachesim.engines.llama_cpp.source_files import CONTEXT, llama_cpp
from cachesim.engines.rule import Decision, Role, rule


@rule("LC-CKPT-ON.PROBE", Role.ENABLE,
      llama_cpp(CONTEXT, 'pre_decode "n_ctx_checkpoints" "n_swa > 0"', "3f545be"), since="#22114 (b8854)")
def ckpt_on(limit: int, exact: bool, n_swa: int) -> Decision:
    """Enable checkpoints if `--ctx-checkpoints` is above 0 and the memory cannot be cut at every position: recurrent,
    hybrid, or with a window."""
    on = limit > 0 and (exact or n_swa > 0)
    return Decision(on, {"max": limit, "exact": exact, "n_swa": n_swa})


def first_break(chunk: Chunk, breaks: Iterable[int]) -> int:
    """Return the first break after the chunk's start, at most the end of the batch or prompt."""
    stop = min(chunk.n_tokens, chunk.start + chunk.room)
    return min([stop, *(b for b in breaks if chunk.start < b < stop)])


def marks_before_end(chunk: Chunk) -> tuple[int, int]:
    """Return the two breaks before the end of the prompt."""
    return (
        chunk.n_tokens - min(chunk.n_batch, chunk.tail + chunk.n_ubatch),
        chunk.n_tokens - min(chunk.n_batch, chunk.tail),
    )


def useful_starts(chunk: Chunk, ckpts: Sequence[Ckpt]) -> list[int]:
    """Return the user starts at which a checkpoint may be created: the last user start, and those more than min_step
    tokens after the last checkpoint."""
    return [
        u for u in chunk.starts
        if u == chunk.starts[-1] or not ckpts or u > ckpts[-1].n_tokens + chunk.min_step
    ]


@rule("LC-CKPT-BREAK.CR10", Role.PLAN,
      llama_cpp(CONTEXT, 'pre_decode "is_user_start {" "checkpoint_offsets {"', "3f545be"), since="#25420 (b9936)")
def break_cr10(chunk: Chunk, ckpts: Sequence[Ckpt]) -> Decision:
    """End a batch at the two marks before the prompt's end and at every user message at which a checkpoint could be
    created. Return the end."""
    breaks = [*marks_before_end(chunk), *useful_starts(chunk, ckpts)] if chunk.do else []
    return Decision(first_break(chunk, breaks), {"start": chunk.start, "breaks": breaks})


# [Gone in llama_cpp@b9765]
@rule("LC-CKPT-BREAK.CR7", Role.PLAN,
      llama_cpp(CONTEXT, "update_slots", "7c158fbb4"), since="#22929 (b9310)", until="#24176")
def break_cr7(chunk: Chunk, ckpts: Sequence[Ckpt]) -> Decision:
    """End a batch at the two marks before the prompt's end (if checkpoints are enabled) and at the last user message,
    even if checkpoints are disabled. Return the end."""
    breaks = [*(marks_before_end(chunk) if chunk.do else ()), *chunk.starts[-1:]]
    return Decision(first_break(chunk, breaks), {"start": chunk.start, "breaks": breaks})


# [New in llama_cpp@24035-v3]
@rule("LC-CKPT-BREAK.V3", Role.PLAN, llama_cpp(pull=24035, note="third version"))
def break_v3(chunk: Chunk, ckpts: Sequence[Ckpt]) -> Decision:
    """End a batch as LC-CKPT-BREAK.CR10 does, and at the end of the common prefix. Inferred: derived from the
    thread."""
    breaks = [*marks_before_end(chunk), *useful_starts(chunk, ckpts), chunk.reused] if chunk.do else []
    return Decision(first_break(chunk, breaks), {"start": chunk.start, "breaks": breaks})


def ends_near(chunk: Chunk, stop: int) -> bool:
    """True if the chunk ends within n_ubatch tokens of the prompt's end."""
    return chunk.n_tokens < stop + chunk.n_ubatch


@rule("LC-CKPT-CREATE.CR10", Role.CREATE,
      llama_cpp(CONTEXT, 'pre_decode "near_prompt_end" "is_last_user_message"', "3f545be"), since="#25472 (b9978)")
def create_cr10(chunk: Chunk, stop: int, ckpts: Sequence[Ckpt], pos_min: int, pos_max: int = -1) -> Decision:
    """Create a checkpoint near the prompt's end, and at a user message if it is the last or more than min_step tokens
    after the last checkpoint."""
    near = ends_near(chunk, stop)
    yes = chunk.do and pos_min >= 0 and (near or chunk.start in useful_starts(chunk, ckpts))
    return Decision(yes, {
        "do": chunk.do, "start": chunk.start, "stop": stop, "near": near, "pos_min": pos_min,
    })


# [Gone in llama_cpp@b9765]
@rule("LC-CKPT-CREATE.CR7", Role.CREATE,
      llama_cpp(CONTEXT, "update_slots", "7c158fbb4"), since="#22929 (b9310)", until="#24176")
def create_cr7(chunk: Chunk, stop: int, ckpts: Sequence[Ckpt], pos_min: int, pos_max: int = -1) -> Decision:
    """Create a checkpoint at the last user message, and after it near the prompt's end; without user messages near the
    prompt's end. Never within min_step tokens of the last checkpoint."""
    near = ends_near(chunk, stop)
    user = chunk.starts[-1] if chunk.starts else 0
    place = near if user <= 0 else chunk.start == user or (chunk.start > user and near)
    far = not ckpts or chunk.start > ckpts[-1].n_tokens + chunk.min_step
    yes = chunk.do and pos_min >= 0 and place and far
    because = {
        "do": chunk.do, "start": chunk.start, "stop": stop, "near": near, "far": far, "user": user, "pos_min": pos_min,
    }
    return Decision(yes, because)


# [New in llama_cpp@24035-v3]
@rule("LC-CKPT-CREATE.V3", Role.CREATE, llama_cpp(pull=24035, note="third version"))
def create_v3(chunk: Chunk, stop: int, ckpts: Sequence[Ckpt], pos_min: int, pos_max: int = -1) -> Decision:
    """Create a checkpoint where CR10 does, and at the end of the common prefix. Inferred: derived from the thread."""
    usual = create_cr10(chunk, stop, ckpts, pos_min)
    yes = usual.value or (chunk.do and pos_min >= 0 and chunk.start == chunk.reused)
    return Decision(yes, {**usual.because, "reused": chunk.reused})


@rule("LC-CKPT-PERIODIC.NONE", Role.PLAN,
      llama_cpp(CONTEXT, 'pre_decode "near_prompt_end"', "3f545be"), since="#22929 (b9310)")
def periodic_none(chunk: Chunk, stop: int, ckpts: Sequence[Ckpt]) -> Decision:
    """Create no periodic checkpoints: return None for every batch. (Variants with periodic checkpoints return
    n_tokens of the last checkpoint if another is due.)"""
    return Decision(None, {"start": chunk.start})


@rule("LC-CKPT-AFTER.NEVER", Role.PLAN,
      llama_cpp(CONTEXT, 'pre_decode "create_checkpoint"', "3f545be"), since="#16440 (b6711)")
def nothing_after_prompt(on: bool) -> Decision:
    """Return False: no checkpoint is created after the prompt has been evaluated."""
    return Decision(False, {"on": on})


@rule("LC-CKPT-COUNT.OWN", Role.PLAN,
      llama_cpp(CONTEXT, 'create_checkpoint "update_pos"', "3f545be"), since="#20287 (b8260)")
def count_own(start: int, stop: int, n_batch: int) -> Decision:
    """Return the checkpoint's n_tokens: the slot's tokens before the batch."""
    return Decision(start, {"start": start, "stop": stop, "n_batch": n_batch})


@rule("LC-CKPT-REPLACE.NONE", Role.DROP,
      llama_cpp(CONTEXT, 'create_checkpoint "n_tokens_cur"', "3f545be"), until="#28302 (b11063)")
def replace_none(ckpts: Sequence[Ckpt], n_tokens: int) -> Decision:
    """Erase no checkpoint for a new checkpoint, not even a checkpoint with the same n_tokens."""
    return Decision((), {"n_tokens": n_tokens})


# [New in llama_cpp@b11063]
@rule("LC-CKPT-REPLACE.CR11", Role.DROP,
      llama_cpp(CONTEXT, 'create_checkpoint "n_tokens_new {"', "b11063", pull=28302), since="b11063")
def replace_same(ckpts: Sequence[Ckpt], n_tokens: int) -> Decision:
    """Erase checkpoints with the same n_tokens as the new checkpoint; return their indices. The limit is applied
    before, so an old checkpoint may be erased although the replacement would have made room."""
    gone = tuple(i for i, c in enumerate(ckpts) if c.n_tokens == n_tokens)
    return Decision(gone, {"n_tokens": n_tokens})


@rule("LC-CKPT-SPACING.CR10", Role.DROP,
      llama_cpp(CONTEXT, 'create_checkpoint "checkpoints.begin {"', "3f545be"), since="#25472 (b9978)")
def space_older(ckpts: Sequence[Ckpt], id_task: int, min_step: int, limit: int = 0) -> Decision:
    """Erase checkpoints of older tasks that are at most min_step tokens after the previous checkpoint; return their
    indices."""
    last, gone = -1, []
    for i, c in enumerate(ckpts):
        if c.id_task != id_task and last >= 0 and c.n_tokens <= last + min_step:
            gone.append(i)
        else:
            last = c.n_tokens
    return Decision(tuple(gone), {"min_step": min_step, "id_task": id_task})


# [New in llama_cpp@b11063]
@rule("LC-CKPT-SPACING.CR11", Role.DROP,
      llama_cpp(CONTEXT, 'create_checkpoint "checkpoints.begin {"', "b11063", pull=28302), since="b11063")
def space_when_full(ckpts: Sequence[Ckpt], id_task: int, min_step: int, limit: int) -> Decision:
    """Erase checkpoints as LC-CKPT-SPACING.CR10 does, but only while a new checkpoint would reach the limit. The limit
    is tested before each erasure, so no more are erased than needed."""
    last, gone = -1, list[int]()
    for i, c in enumerate(ckpts):
        if len(ckpts) - len(gone) + 1 < limit:
            break
        if c.id_task != id_task and last >= 0 and c.n_tokens <= last + min_step:
            gone.append(i)
        else:
            last = c.n_tokens
    return Decision(tuple(gone), {"min_step": min_step, "id_task": id_task, "max": limit})


# [Gone in llama_cpp@b10587]
@rule("LC-CKPT-SPACING.NONE", Role.DROP, llama_cpp(CONTEXT, "create_checkpoint", "7c158fbb4"), until="#25472")
def space_none(ckpts: Sequence[Ckpt], id_task: int, min_step: int, limit: int = 0) -> Decision:
    """Erase no checkpoint: the distance between checkpoints is not checked."""
    return Decision((), {})


@rule("LC-CKPT-LIMIT.OLDEST", Role.DROP, llama_cpp(CONTEXT, 'create_checkpoint "while {"', "3f545be"))
def limit_oldest(ckpts: Sequence[Ckpt], limit: int) -> Decision:
    """Erase the oldest checkpoints until there is room for a new checkpoint; return their indices."""
    return Decision(tuple(range(max(0, len(ckpts) - limit + 1))), {"max": limit})


@rule("LC-CKPT-NOTE.NONE", Role.MEMORY,
      llama_cpp(CONTEXT, "create_checkpoint", "3f545be", note="a checkpoint has no field of this kind"))
def note_nothing(ckpt: Ckpt, use: CheckpointUse) -> Decision:
    """Return None: no note is stored with a checkpoint when it is created or used. A user's rule may return an
    immutable value for the other rules of its table."""
    return Decision(None, {})


@rule("LC-CKPT-TOLD.GONE", Role.TOLD,
      llama_cpp(CONTEXT, 'pre_decode "erased invalidated", create_checkpoint "erasing"', "3f545be"))
def told_gone(n: int, gone: Sequence[int]) -> Decision:
    """Return which of n checkpoints the log names when some are erased: the erased checkpoints."""
    return Decision(tuple(gone), {"n": n})


# [New in llama_cpp@24035-v3]
@rule("LC-CKPT-LIMIT.DENSEST", Role.DROP, llama_cpp(pull=24035, note="third version"))
def limit_densest(ckpts: Sequence[Ckpt], limit: int) -> Decision:
    """Erase the inner checkpoint with the closest neighbours until there is room for a new checkpoint; the first and
    the last stay. Inferred: derived from the thread, ties to the older."""
    left = list(range(len(ckpts)))
    gone = []
    while len(left) >= limit:
        inner = range(1, len(left) - 1)
        k = min(inner, key=lambda i: ckpts[left[i + 1]].n_tokens - ckpts[left[i - 1]].n_tokens, default=0)
        gone.append(left.pop(k))
    return Decision(tuple(sorted(gone)), {"max": limit})
