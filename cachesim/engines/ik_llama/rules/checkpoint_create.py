"""Creation and eviction of checkpoints.

interval    positions between two checkpoints of a long prompt or answer; last = position of the last such checkpoint
tolerance   tokens before the end of the prompt at which a batch ends, so that a checkpoint can be taken there
Source: ik_llama.cpp examples/server/server-context.cpp create_checkpoint, create_checkpoint_at_interval (8337e4cd3).
"""

from __future__ import annotations

from typing import Sequence

from cachesim.engines.ik_llama.rules.checkpoint_restore import Ckpt
from cachesim.engines.ik_llama.source_files import CONTEXT, ik_llama
from cachesim.engines.rule import Decision, Role, rule


@rule("IK-CKPT-ON", Role.ENABLE, ik_llama(CONTEXT, "launch_slot_with_task", "8337e4cd3"))
def on_with_states(most: int, states: bool, private: bool) -> Decision:
    """Enable checkpoints if `--ctx-checkpoints` is above 0 and the memory cannot be cut: recurrent layers, or a state
    of the model's own."""
    return Decision(most > 0 and (states or private), {"most": most, "states": states})


# [Gone in ik_llama@1310]
@rule("IK-CKPT-ON.NEVER", Role.ENABLE,
      ik_llama(note="the creating half was commented out"), since="#1295 (66323b92f)", until="#1310")
def on_never(most: int, states: bool, private: bool) -> Decision:
    """Create no checkpoint for any model."""
    return Decision(False, {"most": most, "states": states})


@rule("IK-CKPT-BREAK.TOLERANCE", Role.PLAN, ik_llama(CONTEXT, "batch_pending_prompt", "8337e4cd3"), since="#1346")
def break_tolerance(start: int, asked: int, room: int, tolerance: int) -> Decision:
    """End a batch where exactly ``tolerance`` tokens of the prompt remain, else where it is full. Return the end, and
    whether it ends for that reason."""
    stop, mark = min(asked, start + room), asked - tolerance
    due = tolerance >= 0 and start < mark <= stop
    because = {"start": start, "asked": asked, "tolerance": tolerance}
    return Decision((mark if due else stop, due), because)


# [Gone in ik_llama@1346]
@rule("IK-CKPT-BREAK.NONE", Role.PLAN, ik_llama(CONTEXT), until="#1346 (8f9e19d57)")
def break_none(start: int, asked: int, room: int, tolerance: int) -> Decision:
    """End a batch only where it is full. Return the end."""
    return Decision((min(asked, start + room), False), {"start": start, "asked": asked})


@rule("IK-CKPT-FIRST.NO-TOLERANCE", Role.PLAN, ik_llama(CONTEXT, "process_batch_tokens", "8337e4cd3"), since="#1346")
def first_without_tolerance(tolerance: int) -> Decision:
    """True if a checkpoint is due with the first sampled token: if none was created before the prompt's end."""
    return Decision(tolerance <= 0, {"tolerance": tolerance})


# [Gone in ik_llama@1346]
@rule("IK-CKPT-FIRST.ALWAYS", Role.PLAN, ik_llama(), since="#1310 (3fac78c48)", until="#1346")
def first_always(tolerance: int) -> Decision:
    """Return True: a checkpoint is due at the prompt's end, with the first sampled token."""
    return Decision(True, {"tolerance": tolerance})


@rule("IK-CKPT-INTERVAL.EXACT", Role.PLAN,
      ik_llama(CONTEXT, "create_checkpoint_at_interval", "8337e4cd3"), since="#2195")
def interval_exact(last: int, pos_max: int, interval: int) -> Decision:
    """True if a checkpoint is due: pos_max is at least ``interval`` positions after the last checkpoint."""
    due = interval > 0 and last + interval <= pos_max
    return Decision(due, {"last": last, "pos_max": pos_max, "interval": interval})


# [Gone in ik_llama@2195]
@rule("IK-CKPT-INTERVAL.ONE-EARLY", Role.PLAN,
      ik_llama(CONTEXT, "create_checkpoint_at_interval", "d2da6da05"), until="#2195")
def interval_one_early(last: int, pos_max: int, interval: int) -> Decision:
    """True if a checkpoint is due: pos_max is at least ``interval`` - 1 positions after the last checkpoint,
    counted from 0 at the start of every request."""
    due = interval > 0 and last + interval <= 1 + pos_max
    return Decision(due, {"last": last, "pos_max": pos_max, "interval": interval})


@rule("IK-CKPT-CREATE.TOKENS", Role.CREATE, ik_llama(CONTEXT, "create_checkpoint", "8337e4cd3"), since="#1743")
def create_by_tokens(ckpts: Sequence[Ckpt], held: int, pos_min: int, pos_max: int, states: bool) -> Decision:
    """Create a checkpoint if the slot has at least 64 tokens, and more than the last checkpoint. Return None if that
    depends on an uninitialised n_tokens."""
    more = _more(ckpts, held)
    return Decision(pos_min >= 0 and held >= 64 and more, _facts(ckpts, held, pos_max))


# [New in ik_llama@pr1888]
@rule("IK-CKPT-CREATE.FOUR", Role.CREATE, ik_llama(pull=1888, note="open"))
def create_from_four(ckpts: Sequence[Ckpt], held: int, pos_min: int, pos_max: int, states: bool) -> Decision:
    """Create a checkpoint if the slot has at least 64 tokens (4 with recurrent layers), and more than the last
    checkpoint."""
    more = _more(ckpts, held)
    enough = held >= (4 if states else 64)
    return Decision(pos_min >= 0 and enough and more, {**_facts(ckpts, held, pos_max), "states": states})


# [Gone in ik_llama@1743]
@rule("IK-CKPT-CREATE.POSITION", Role.CREATE,
      ik_llama(CONTEXT, "create_checkpoint"), since="#1310 (3fac78c48)", until="#1743")
def create_by_position(ckpts: Sequence[Ckpt], held: int, pos_min: int, pos_max: int, states: bool) -> Decision:
    """Create a checkpoint if pos_max is at least 16, and greater than that of the last checkpoint."""
    more = not ckpts or pos_max > ckpts[-1].pos_max
    return Decision(pos_min >= 0 and pos_max >= 16 and more, _facts(ckpts, held, pos_max))


def _more(ckpts: Sequence[Ckpt], held: int) -> bool | None:
    """True if the slot holds more tokens than the last checkpoint; None if the checkpoint's token count is
    uninitialised."""
    if not ckpts:
        return True
    return None if ckpts[-1].unset else held > ckpts[-1].n_tokens


def _facts(ckpts: Sequence[Ckpt], held: int, pos_max: int) -> dict[str, object]:
    return {"start": held, "pos_max": pos_max, "last": ckpts[-1].n_tokens if ckpts else 0}


@rule("IK-CKPT-EVICT.PROMPT-END", Role.DROP, ik_llama(pull=2491, note="merged 2026-09; its description"), since="#2491")
def evict_but_prompt_end(ckpts: Sequence[Ckpt], how: str) -> Decision:
    """Erase a checkpoint to make room, as IK-CKPT-EVICT.VARIANCE does, but a checkpoint created at the end of a prompt
    only if all others are such; return its index. Prompt-end checkpoints are not compared by their gaps, although they
    count for the gaps of their neighbours; if all checkpoints between the ends are such, the oldest other checkpoint is
    erased. Inferred: the thread states that they stay as long as another checkpoint can be erased, but not which."""
    because = {"how": how, "pos_max": [c.pos_max for c in ckpts], "prompt_end": [c.prompt_end for c in ckpts]}
    if how == "fifo":
        return Decision(0, because)
    pool, others = _interior(ckpts), [i for i, c in enumerate(ckpts) if not c.prompt_end]
    compared = [i for i in pool if i in others] or others[:1] or pool
    return Decision(_least_gaps(ckpts, compared), because)


# [Gone in ik_llama@2491]
@rule("IK-CKPT-EVICT.VARIANCE", Role.DROP,
      ik_llama(CONTEXT, "create_checkpoint", "8337e4cd3"), since="#2020 (befbc0945)")
def evict_by_option(ckpts: Sequence[Ckpt], how: str) -> Decision:
    """Erase a checkpoint to make room; return its index. ``fifo``: the oldest. Otherwise: of fewer than three the
    oldest, of three the middle, of more the interior checkpoint with the smallest product of its two gaps (the second
    as a part of the whole)."""
    found = 0 if how == "fifo" else _least_gaps(ckpts, _interior(ckpts))
    return Decision(found, {"how": how, "pos_max": [c.pos_max for c in ckpts]})


def _interior(ckpts: Sequence[Ckpt]) -> list[int]:
    """Return the indices between the ends; of fewer than three checkpoints the oldest."""
    return list(range(1, len(ckpts) - 1)) or [0]


def _least_gaps(ckpts: Sequence[Ckpt], pool: Sequence[int]) -> int:
    """Return the index whose removal leaves the smallest product of its two gaps, the first of equals."""
    x = [c.pos_max for c in ckpts]
    if len(pool) == 1:
        return pool[0]
    return min(pool, key=lambda i: (x[i] - x[i - 1]) * ((x[i + 1] - x[i]) / x[-1]))


# [Gone in ik_llama@2020]
@rule("IK-CKPT-EVICT.OLDEST", Role.DROP, ik_llama(CONTEXT, "create_checkpoint", "d2da6da05"), until="#2020")
def evict_oldest(ckpts: Sequence[Ckpt], how: str) -> Decision:
    """Erase the oldest checkpoint to make room; return its index."""
    return Decision(0, {"pos_max": [c.pos_max for c in ckpts]})


# [New in ik_llama@pr1877]
@rule("IK-CKPT-EVICT.KEEP-FIRST", Role.DROP, ik_llama(pull=1877, note="open"))
def evict_second(ckpts: Sequence[Ckpt], how: str) -> Decision:
    """Erase the oldest checkpoint except the first, whose prefix other conversations share; return its index."""
    return Decision(min(1, len(ckpts) - 1), {"pos_max": [c.pos_max for c in ckpts]})
