"""Restoring of checkpoints: need, selection, position after it, and erasure of invalid checkpoints.

n_past     tokens of the cache that the prompt has in common with it
pos_next   position after them; thold = max(0, pos_next - 1)
pos_min, pos_max   range of a checkpoint as the engine recorded it; with recurrent layers both are its last position
Source: ik_llama.cpp examples/server/server-context.cpp apply_checkpoint (8337e4cd3).
"""

from __future__ import annotations

from typing import Callable, NamedTuple, Sequence

from cachesim.engines.ik_llama.source_files import CONTEXT, ik_llama
from cachesim.engines.rule import Decision, Role, rule

Unset = tuple[int, int]


class Ckpt(NamedTuple):
    """A checkpoint: positions in the cache, positions in the prompt for which it was created, tokens, bytes. ``unset``:
    key of the uninitialised ``n_tokens`` (a slot's file does not contain it): the step that restored the checkpoint,
    and its place in the file; ``n_tokens`` is then the true value, for display only, which no rule may use.
    ``prompt_end``: created at the end of a prompt, or ``tolerance`` tokens before it; not in a slot's file
    (inferred)."""

    pos_min: int
    pos_max: int
    pos_min_prompt: int
    pos_max_prompt: int
    n_tokens: int
    size: int
    unset: Unset | None = None
    prompt_end: bool = False


class RestoreInputs(NamedTuple):
    """A prompt compared with a slot: ``n_past`` common tokens of ``held``, ``n_past_prompt`` of the prompt; ``pos_min``
    of the target as the engine computes it; ``states``: recurrent layers, ``private``: DeepSeek-V4's states.
    ``asked``: tokens of the prompt; ``restored``: pos_max of the restored checkpoint, -1 = none."""

    n_past: int
    n_past_prompt: int
    held: int
    pos_min: int
    states: bool
    private: bool
    asked: int = 0
    restored: int = -1

    @property
    def thold(self) -> int:
        """Position from which on a state contains an unwanted token."""
        return max(0, self.n_past - 1)


class CheckpointNeed(NamedTuple):
    """True if a checkpoint is needed."""

    search: bool

    def __bool__(self) -> bool:
        return self.search


class ResumePlace(NamedTuple):
    """Where evaluation resumes: tokens of the cache, tokens of the prompt; whether the slot forgets its tokens;
    position of a checkpoint from which the interval is counted, -1 = none; pos_max of the restored checkpoint, entered
    by the server."""

    n_past: int
    n_past_prompt: int
    forget_tokens: bool = False
    last_checkpoint: int = -1
    restored: int = -1


def _newest(ckpts: Sequence[Ckpt], fits: Callable[[Ckpt], bool]) -> int | None:
    return next((i for i in reversed(range(len(ckpts))) if fits(ckpts[i])), None)


def _because(ask: RestoreInputs, ckpts: Sequence[Ckpt] = ()) -> dict[str, object]:
    return {
        "n_past": ask.n_past, "held": ask.held, "pos_min": ask.pos_min, "thold": ask.thold, "private": ask.private,
        "ckpts": [c.pos_max for c in ckpts],
    }


@rule("IK-CKPT-NEED.OR-PRIVATE", Role.NEED, ik_llama(CONTEXT, "apply_checkpoint", "8337e4cd3"), since="#2195")
def need_or_private(ask: RestoreInputs) -> Decision:
    """Search a checkpoint if 0 < n_past < tokens of the slot, and pos_min >= pos_min_thold (always so with recurrent
    layers) or the model has a state of its own."""
    inside = 0 < ask.n_past < ask.held
    return Decision(CheckpointNeed(inside and (ask.pos_min >= ask.thold or ask.private)), _because(ask))


# [Gone in ik_llama@2195]
@rule("IK-CKPT-NEED.REACHED", Role.NEED, ik_llama(CONTEXT, "apply_checkpoint", "d2da6da05"), since="#1743")
def need_reached(ask: RestoreInputs) -> Decision:
    """Search a checkpoint if 0 < n_past < tokens of the slot, and pos_min >= pos_min_thold."""
    inside = 0 < ask.n_past < ask.held
    return Decision(CheckpointNeed(inside and ask.pos_min >= ask.thold), _because(ask))


# [Gone in ik_llama@1743]
@rule("IK-CKPT-NEED.BEYOND", Role.NEED, ik_llama(CONTEXT, "apply_checkpoint"), since="#1310 (3fac78c48)", until="#1743")
def need_beyond(ask: RestoreInputs) -> Decision:
    """Search a checkpoint if 0 < n_past < tokens of the slot, and pos_min > pos_min_thold: a prompt that leaves the
    slot at its last token does not search."""
    inside = 0 < ask.n_past < ask.held
    return Decision(CheckpointNeed(inside and ask.pos_min > ask.thold), _because(ask))


# [Gone in ik_llama@1716]
@rule("IK-CKPT-NEED.STATES", Role.NEED, ik_llama(), since="#1673 (48819dada)", until="#1716 (9f1deefa7)")
def need_states(ask: RestoreInputs) -> Decision:
    """Search a checkpoint if 0 < n_past < tokens of the slot, and pos_min > pos_min_thold or there are recurrent
    layers."""
    inside = 0 < ask.n_past < ask.held
    return Decision(CheckpointNeed(inside and (ask.states or ask.pos_min > ask.thold)), _because(ask))


# [Gone in ik_llama@1310]
@rule("IK-CKPT-NEED.DEEP", Role.NEED, ik_llama(), since="#1295 (66323b92f)", until="#1310")
def need_deep(ask: RestoreInputs) -> Decision:
    """Search a checkpoint if 0 < n_past < tokens of the slot, and pos_min > pos_min_thold + 2."""
    inside = 0 < ask.n_past < ask.held
    return Decision(CheckpointNeed(inside and ask.pos_min > ask.thold + 2), _because(ask))


# [Gone in ik_llama@1295]
@rule("IK-CKPT-NEED.NEVER", Role.NEED, ik_llama(CONTEXT, "batch_pending_prompt", "66323b92f^"), until="#1295")
def need_never(ask: RestoreInputs) -> Decision:
    """Never searches a checkpoint: there are none."""
    return Decision(CheckpointNeed(False), _because(ask))


@rule("IK-CKPT-PICK.POS-MAX", Role.PICK, ik_llama(CONTEXT, "apply_checkpoint", "8337e4cd3"), since="#2195")
def pick_pos_max(ckpts: Sequence[Ckpt], ask: RestoreInputs) -> Decision:
    """Pick the newest checkpoint with pos_max < pos_min_thold; for a model with a state of its own with pos_max <
    n_past. Return its index."""
    bound = ask.n_past if ask.private else ask.thold
    return Decision(_newest(ckpts, lambda c: c.pos_max < bound), _because(ask, ckpts))


# [Gone in ik_llama@2195]
@rule("IK-CKPT-PICK.POS-MIN", Role.PICK, ik_llama(CONTEXT, "apply_checkpoint", "d2da6da05"), since="#1716")
def pick_pos_min(ckpts: Sequence[Ckpt], ask: RestoreInputs) -> Decision:
    """Pick the newest checkpoint with pos_min < pos_min_thold or pos_min = 0; return its index."""
    found = _newest(ckpts, lambda c: c.pos_min < ask.thold or c.pos_min == 0)
    return Decision(found, _because(ask, ckpts))


# [Gone in ik_llama@1716]
@rule("IK-CKPT-PICK.WITHIN", Role.PICK, ik_llama(), since="#1673 (48819dada)", until="#1716")
def pick_within(ckpts: Sequence[Ckpt], ask: RestoreInputs) -> Decision:
    """Pick the newest checkpoint with pos_max < n_past, the exact bound; return its index."""
    return Decision(_newest(ckpts, lambda c: c.pos_max < ask.n_past), _because(ask, ckpts))


# [New in ik_llama@pr1888]
@rule("IK-CKPT-PICK.PR1888", Role.PICK, ik_llama(pull=1888, note="open"))
def pick_pr1888(ckpts: Sequence[Ckpt], ask: RestoreInputs) -> Decision:
    """Pick the newest checkpoint with pos_min < pos_min_thold, pos_min = 0 or pos_max <= n_past, which is a token too
    far; return its index."""
    found = _newest(ckpts, lambda c: c.pos_min < ask.thold or c.pos_min == 0 or c.pos_max <= ask.n_past)
    return Decision(found, _because(ask, ckpts))


@rule("IK-CKPT-RESUME.PROMPT-END", Role.RESUME, ik_llama(CONTEXT, "apply_checkpoint", "8337e4cd3"), since="#2195")
def resume_prompt_end(ckpt: Ckpt, ask: RestoreInputs) -> Decision:
    """Continue after the checkpoint's last token, at most at the end of the common prefix; intervals are counted from
    there."""
    upto = ckpt.pos_max + 1 if ask.private else max(ckpt.pos_min + 1, ckpt.pos_max)
    prompt = min(ask.n_past_prompt, ckpt.pos_max_prompt + 1)
    resume = ResumePlace(min(ask.n_past, upto), prompt, last_checkpoint=ckpt.pos_max)
    return Decision(resume, _because(ask, [ckpt]))


# [New in ik_llama@2441]
@rule("IK-CKPT-RESUME.CACHE", Role.RESUME, ik_llama(pull=2441, note="merged 2026-09; its description"), since="#2441")
def resume_from_cache(ckpt: Ckpt, ask: RestoreInputs) -> Decision:
    """Continue after the checkpoint's last token, at most at the end of the common prefix; the prompt continues as far
    before the end of the common prefix as the cache does. Inferred: the thread states that the index of the prompt is
    derived from the index of the cache."""
    upto = ckpt.pos_max + 1 if ask.private else max(ckpt.pos_min + 1, ckpt.pos_max)
    n_past = min(ask.n_past, upto)
    resume = ResumePlace(n_past, max(0, ask.n_past_prompt - (ask.n_past - n_past)), last_checkpoint=ckpt.pos_max)
    return Decision(resume, _because(ask, [ckpt]))


# [Gone in ik_llama@2195]
@rule("IK-CKPT-RESUME.PROMPT-MAX", Role.RESUME, ik_llama(CONTEXT, "apply_checkpoint", "d2da6da05"))
def resume_prompt_max(ckpt: Ckpt, ask: RestoreInputs) -> Decision:
    """Continue after the checkpoint's last token, at most at the end of the common prefix; tokens of the prompt are
    counted like those of the cache."""
    resume = ResumePlace(
        min(ask.n_past, max(ckpt.pos_min + 1, ckpt.pos_max)),
        min(ask.n_past_prompt, max(ckpt.pos_min_prompt + 1, ckpt.pos_max_prompt)),
    )
    return Decision(resume, _because(ask, [ckpt]))


# [New in ik_llama@2195-draft]
@rule("IK-CKPT-RESUME.CHECKPOINT", Role.RESUME, ik_llama(pull=2195, note="its first commits, told in the merged one"))
def resume_checkpoint(ckpt: Ckpt, ask: RestoreInputs) -> Decision:
    """Continue after the checkpoint's last token, even after the common prefix, as long as a token of the prompt is
    left; intervals are counted from 0. (An off-by-one of these commits is left out.)"""
    reach = ckpt.pos_max + 1
    resume = ResumePlace(min(ask.held, reach), min(max(0, ask.asked - 1), reach))
    return Decision(resume, _because(ask, [ckpt]))


@rule("IK-CKPT-RESET.TOKENS", Role.RESET, ik_llama(CONTEXT, "apply_checkpoint", "8337e4cd3"), since="#1789 (f4f4b3ff2)")
def reset_tokens(ask: RestoreInputs) -> Decision:
    """Force full prompt re-processing if no checkpoint is usable (n_past = 0), and drop the slot's tokens."""
    return Decision(ResumePlace(0, 0, forget_tokens=True), _because(ask))


# [Gone in ik_llama@1889-base]
@rule("IK-CKPT-RESET.COUNTS", Role.RESET, ik_llama(CONTEXT, "apply_checkpoint"), until="#1789")
def reset_counts(ask: RestoreInputs) -> Decision:
    """Force full prompt re-processing if no checkpoint is usable (n_past = 0); the following trim removes the slot's
    tokens."""
    return Decision(ResumePlace(0, 0), _because(ask))


# [Gone in ik_llama@1698]
@rule("IK-CKPT-RESET.NONE", Role.RESET, ik_llama(), since="#1673 (48819dada)", until="#1698 (67e634622)")
def reset_none(ask: RestoreInputs) -> Decision:
    """Continue after the common prefix if no checkpoint is usable, with the current content of the recurrent row."""
    return Decision(ResumePlace(ask.n_past, ask.n_past_prompt), _because(ask))


@rule("IK-CKPT-ERASE.THOLD", Role.DROP, ik_llama(CONTEXT, "apply_checkpoint", "8337e4cd3"), since="#1743")
def erase_thold(ckpts: Sequence[Ckpt], ask: RestoreInputs) -> Decision:
    """Erase checkpoints with pos_max > pos_min_thold, whatever was restored; return their indices."""
    gone = tuple(i for i, c in enumerate(ckpts) if c.pos_max > ask.thold)
    return Decision(gone, _because(ask, ckpts))


# [Gone in ik_llama@1743]
@rule("IK-CKPT-ERASE.POS-MIN", Role.DROP,
      ik_llama(CONTEXT, "apply_checkpoint"), since="#1295", until="#1743 (39b3a188e)")
def erase_pos_min(ckpts: Sequence[Ckpt], ask: RestoreInputs) -> Decision:
    """Erase checkpoints with pos_min > pos_min_thold; return their indices."""
    gone = tuple(i for i, c in enumerate(ckpts) if c.pos_min > ask.thold)
    return Decision(gone, _because(ask, ckpts))


# [Gone in ik_llama@1716]
@rule("IK-CKPT-ERASE.BEYOND", Role.DROP, ik_llama(), since="#1673 (48819dada)", until="#1716")
def erase_beyond(ckpts: Sequence[Ckpt], ask: RestoreInputs) -> Decision:
    """Erase checkpoints with pos_max > n_past; return their indices. A checkpoint with pos_max = n_past stays,
    although it covers a token too many."""
    gone = tuple(i for i, c in enumerate(ckpts) if c.pos_max > ask.n_past)
    return Decision(gone, _because(ask, ckpts))


# [New in ik_llama@2195-draft]
@rule("IK-CKPT-ERASE.RESTORED", Role.DROP, ik_llama(pull=2195, note="its first commits, told in the merged one"))
def erase_restored(ckpts: Sequence[Ckpt], ask: RestoreInputs) -> Decision:
    """Erase checkpoints with pos_max >= that of the restored checkpoint, which is erased, too; without a restore
    those with pos_max >= n_past. Return their indices."""
    bound = ask.restored if ask.restored >= 0 else ask.n_past
    gone = tuple(i for i, c in enumerate(ckpts) if c.pos_max >= bound)
    return Decision(gone, {**_because(ask, ckpts), "bound": bound})
