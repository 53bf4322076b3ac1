"""Checkpoint creation in older builds: variants of `checkpoint_create`.

CR = variants of creation, as in the history document. Before CR2 the checkpoint was created after the prompt; since
then it holds the state before its chunk.
Source: llama.cpp tools/server/server.cpp, later server-context.cpp, update_slots.
"""

from __future__ import annotations

from typing import Sequence

from cachesim.engines.llama_cpp.rules.checkpoint_create import ends_near, first_break, marks_before_end
from cachesim.engines.llama_cpp.rules.checkpoint_facts import Chunk, Ckpt
from cachesim.engines.llama_cpp.source_files import CONTEXT, SERVER, llama_cpp
from cachesim.engines.rule import Decision, Role, rule

LEAST = 64       # least tokens of a checkpoint, and least distance from the last checkpoint
TAIL = 512       # tokens before the end at which CR3 and CR4 cut


# [Gone in llama_cpp@b8916]
@rule("LC-CKPT-ON.ARCH", Role.ENABLE,
      llama_cpp(CONTEXT, "update_slots"), since="#16382 (b6685)", until="#22114 (b8854)")
def ckpt_on_by_architecture(limit: int, exact: bool, n_swa: int) -> Decision:
    """Enable checkpoints if `--ctx-checkpoints` is above 0 and the architecture has recurrent layers or a window."""
    on = limit > 0 and (exact or n_swa > 0)
    return Decision(on, {"max": limit, "recurrent": exact, "n_swa": n_swa})


# [Gone in llama_cpp@b6685]
@rule("LC-CKPT-ON.WINDOW", Role.ENABLE, llama_cpp(SERVER, "", "d32e03f44"), since="#15293 (b6160)", until="#16382")
def ckpt_on_with_window(limit: int, exact: bool, n_swa: int) -> Decision:
    """Enable checkpoints if `--ctx-checkpoints` is above 0 and the model has a window. Recurrent models get none."""
    return Decision(limit > 0 and n_swa > 0, {"max": limit, "n_swa": n_swa})


# [Gone in llama_cpp@b10587]
@rule("LC-CKPT-BREAK.CR8", Role.PLAN,
      llama_cpp(CONTEXT, "update_slots", "73618f27a"), since="#24176 (b9765)", until="#25420 (b9936)")
def break_cr8(chunk: Chunk, ckpts: Sequence[Ckpt]) -> Decision:
    """End a batch at the two marks before the prompt's end (if checkpoints are enabled) and at every user message,
    even if checkpoints are disabled. Return the end."""
    breaks = [*(marks_before_end(chunk) if chunk.do else ()), *chunk.starts]
    return Decision(first_break(chunk, breaks), {"start": chunk.start, "breaks": breaks})


# [Gone in llama_cpp@b9473]
@rule("LC-CKPT-BREAK.CR5", Role.PLAN,
      llama_cpp(CONTEXT, "update_slots", "a7b3dee7a"), since="#20288 (b8271)", until="#22929 (b9310)")
def break_cr5(chunk: Chunk, ckpts: Sequence[Ckpt]) -> Decision:
    """End a batch at the two marks before the prompt's end; user messages are not known. Return the end."""
    breaks = [*marks_before_end(chunk)] if chunk.do else []
    return Decision(first_break(chunk, breaks), {"start": chunk.start, "breaks": breaks})


# [Gone in llama_cpp@b8271]
@rule("LC-CKPT-BREAK.CR3", Role.PLAN,
      llama_cpp(CONTEXT, "update_slots", "96cfc4992"), since="#19408 (b7970)", until="#20288 (b8271)")
def break_cr3(chunk: Chunk, ckpts: Sequence[Ckpt]) -> Decision:
    """End a batch 512 tokens (or n_batch, if that is smaller) before the prompt's end. Return the end."""
    breaks = [chunk.n_tokens - min(chunk.n_batch, TAIL)] if chunk.do else []
    return Decision(first_break(chunk, breaks), {"start": chunk.start, "breaks": breaks})


# [Gone in llama_cpp@b8152]
@rule("LC-CKPT-BREAK.CR2", Role.PLAN,
      llama_cpp(CONTEXT, "update_slots", "ad8d85bd9"), since="#16440 (b6711)", until="#19408 (b7970)")
def break_cr2(chunk: Chunk, ckpts: Sequence[Ckpt]) -> Decision:
    """End a batch 64 tokens before the prompt's end. Return the end."""
    breaks = [chunk.n_tokens - LEAST] if chunk.do else []
    return Decision(first_break(chunk, breaks), {"start": chunk.start, "breaks": breaks})


# [Gone in llama_cpp@b6740]
@rule("LC-CKPT-BREAK.CR0", Role.PLAN, llama_cpp(SERVER, "update_slots", "f6dcda390"), until="#16440 (b6711)")
def break_cr0(chunk: Chunk, ckpts: Sequence[Ckpt]) -> Decision:
    """End a batch only at the batch size. Return the end."""
    return Decision(first_break(chunk, ()), {"start": chunk.start, "breaks": ()})


# [Gone in llama_cpp@b8271]
@rule("LC-CKPT-PERIODIC.CR4", Role.PLAN,
      llama_cpp(CONTEXT, "update_slots", "f5ddcd169"), since="#20087 (b8218)", until="#20288 (b8271)")
def periodic_cr4(chunk: Chunk, stop: int, ckpts: Sequence[Ckpt]) -> Decision:
    """Return n_tokens of the last checkpoint (0 = none) if it is at least ``min_step`` tokens back, None if no
    periodic checkpoint is due. Never due in the last batch. ``min_step`` is --checkpoint-every-n-tokens."""
    return _periodic(chunk, stop, ckpts, stop == chunk.n_tokens)


# [Gone in llama_cpp@b9473]
@rule("LC-CKPT-PERIODIC.CR5", Role.PLAN,
      llama_cpp(CONTEXT, "update_slots", "a7b3dee7a"), since="#20288 (b8271)", until="#22929 (b9310)")
def periodic_cr5(chunk: Chunk, stop: int, ckpts: Sequence[Ckpt]) -> Decision:
    """Return n_tokens of the last checkpoint (0 = none) if it is at least ``min_step`` tokens back, None if no
    periodic checkpoint is due. Never due within n_ubatch tokens of the prompt's end, where a checkpoint is created
    anyway."""
    return _periodic(chunk, stop, ckpts, ends_near(chunk, stop))


def _periodic(chunk: Chunk, stop: int, ckpts: Sequence[Ckpt], at_end: bool) -> Decision:
    """The server subtracts the whole batch from the slot's tokens, with the tokens of other slots."""
    last = ckpts[-1].n_tokens if ckpts else 0
    others = chunk.n_batch - chunk.room
    due = chunk.do and not at_end and chunk.start - others - last >= chunk.min_step > 0
    because = {"start": chunk.start, "others": others, "last": last, "every": chunk.min_step, "at_end": at_end}
    return Decision(last if due else None, because)


# [Gone in llama_cpp@b10587]
@rule("LC-CKPT-CREATE.CR8", Role.CREATE,
      llama_cpp(CONTEXT, "update_slots", "73618f27a"), since="#24176 (b9765)", until="#25472 (b9978)")
def create_cr8(chunk: Chunk, stop: int, ckpts: Sequence[Ckpt], pos_min: int, pos_max: int = -1) -> Decision:
    """Create a checkpoint near the prompt's end and at every user message, but, except at the last user message, not
    within min_step tokens of the last checkpoint."""
    near, user = ends_near(chunk, stop), chunk.start in chunk.starts
    far = chunk.start in chunk.starts[-1:] or not ckpts or chunk.start > ckpts[-1].n_tokens + chunk.min_step
    yes = chunk.do and pos_min >= 0 and (near or user) and far
    because = {
        "do": chunk.do, "start": chunk.start, "stop": stop, "near": near, "user": user, "far": far, "pos_min": pos_min,
    }
    return Decision(yes, because)


# [Gone in llama_cpp@b9473]
@rule("LC-CKPT-CREATE.CR6", Role.CREATE,
      llama_cpp(CONTEXT, "update_slots", "ab9d4c367"), since="#20726 (b8450)", until="#22929 (b9310)")
def create_cr6(chunk: Chunk, stop: int, ckpts: Sequence[Ckpt], pos_min: int, pos_max: int = -1) -> Decision:
    """Create a checkpoint near the prompt's end or where a periodic checkpoint is due, if the slot has 64 tokens (with
    those of this batch) and the last checkpoint is more than 64 tokens back."""
    place = ends_near(chunk, stop) or periodic_cr5(chunk, stop, ckpts).value is not None
    far = not ckpts or chunk.start > ckpts[-1].n_tokens + LEAST
    yes = chunk.do and pos_min >= 0 and stop >= LEAST and place and far
    because = {
        "do": chunk.do, "start": chunk.start, "stop": stop, "place": place, "far": far, "pos_min": pos_min,
    }
    return Decision(yes, because)


def _by_position(
    chunk: Chunk, place: bool, ckpts: Sequence[Ckpt], pos_min: int, pos_max: int
) -> Decision:
    """Apply the limits before #20726: pos_max is at least 64, and more than 64 after that of the last checkpoint."""
    far = not ckpts or pos_max > ckpts[-1].pos_max + LEAST
    yes = chunk.do and place and pos_min >= 0 and pos_max >= LEAST and far
    because = {
        "do": chunk.do, "start": chunk.start, "place": place, "pos_min": pos_min, "pos_max": pos_max, "far": far,
    }
    return Decision(yes, because)


# [Gone in llama_cpp@b8450]
@rule("LC-CKPT-CREATE.CR5", Role.CREATE,
      llama_cpp(CONTEXT, "update_slots", "a7b3dee7a"), since="#20288 (b8271)", until="#20726 (b8450)")
def create_cr5(chunk: Chunk, stop: int, ckpts: Sequence[Ckpt], pos_min: int, pos_max: int) -> Decision:
    """Create a checkpoint near the prompt's end or where a periodic checkpoint is due, if pos_max is at least 64 and
    more than 64 positions after that of the last checkpoint."""
    place = ends_near(chunk, stop) or periodic_cr5(chunk, stop, ckpts).value is not None
    return _by_position(chunk, place, ckpts, pos_min, pos_max)


# [Gone in llama_cpp@b8271]
@rule("LC-CKPT-CREATE.CR4", Role.CREATE,
      llama_cpp(CONTEXT, "update_slots", "96cfc4992"), since="#20087 (b8218)", until="#20288 (b8271)")
def create_cr4(chunk: Chunk, stop: int, ckpts: Sequence[Ckpt], pos_min: int, pos_max: int) -> Decision:
    """Create a checkpoint before the last batch or where a periodic checkpoint is due, if pos_max is at least 64 and
    more than 64 positions after that of the last checkpoint."""
    place = stop == chunk.n_tokens or periodic_cr4(chunk, stop, ckpts).value is not None
    return _by_position(chunk, place, ckpts, pos_min, pos_max)


# [Gone in llama_cpp@b8260]
@rule("LC-CKPT-CREATE.CR2", Role.CREATE,
      llama_cpp(CONTEXT, "update_slots", "ad8d85bd9"), since="#16440 (b6711)", until="#20087 (b8218)")
def create_cr2(chunk: Chunk, stop: int, ckpts: Sequence[Ckpt], pos_min: int, pos_max: int) -> Decision:
    """Create a checkpoint only before the last batch of the prompt (CR2 and CR3), if pos_max is at least 64 and more
    than 64 positions after that of the last checkpoint."""
    return _by_position(chunk, stop == chunk.n_tokens, ckpts, pos_min, pos_max)


# [Gone in llama_cpp@b6740]
@rule("LC-CKPT-CREATE.NEVER", Role.CREATE, llama_cpp(SERVER, "update_slots", "f6dcda390"), until="#16440 (b6711)")
def create_never(chunk: Chunk, stop: int, ckpts: Sequence[Ckpt], pos_min: int, pos_max: int = -1) -> Decision:
    """Create no checkpoint before a batch."""
    return Decision(False, {"start": chunk.start})


# [Gone in llama_cpp@b6740]
@rule("LC-CKPT-CREATE.CR0", Role.CREATE,
      llama_cpp(SERVER, "update_slots", "d32e03f44"), since="#15293 (b6160)", until="#16440 (b6711)")
def create_after_prompt(on: bool) -> Decision:
    """Create a checkpoint after the whole prompt has been evaluated (CR0 and CR1), however short it is."""
    return Decision(on, {"on": on})


# [Gone in llama_cpp@b8260]
@rule("LC-CKPT-COUNT.BATCH", Role.PLAN,
      llama_cpp(CONTEXT, "", "d7d826b3c"), since="#19849 (b8152)", until="#20287 (b8260)")
def count_less_batch(start: int, stop: int, n_batch: int) -> Decision:
    """Return the checkpoint's n_tokens: the slot's tokens minus all tokens of the batch, including those of other
    slots."""
    return Decision(stop - n_batch, {"start": start, "stop": stop, "n_batch": n_batch})


# [Gone in llama_cpp@b6685]
@rule("LC-CKPT-TOLD.NEXT", Role.TOLD,
      llama_cpp(SERVER, "", "d32e03f44", note="seen in recordings: the line is printed after the erase"))
def told_next(n: int, gone: Sequence[int]) -> Decision:
    """Return which of n checkpoints the log names when some are erased: the line is printed after the erasure, and
    names the checkpoint that moved into the free place, if any."""
    left, named = list(range(n)), []
    for i in gone:
        place = left.index(i)
        named.append(left[min(place + 1, len(left) - 1)])
        left.remove(i)
    return Decision(tuple(named), {"n": n})


# [Gone in llama_cpp@b6685]
@rule("LC-CKPT-TOLD.NEWEST", Role.TOLD,
      llama_cpp(SERVER, "", "d32e03f44", note="as recorded in swa-first/gemma3l6-regenerate-5600"))
def told_newest(n: int, gone: Sequence[int]) -> Decision:
    """Return which of n checkpoints the log names when an old checkpoint is evicted: the newest instead."""
    return Decision((n - 1,) * len(gone), {"n": n})
