"""Checkpoint restore: whether a prompt needs a checkpoint, selection, and erasure.

Functions are variants, named as in the history document: TH (threshold), PK (pick), RE (resume), ER (erase).
Source: llama.cpp tools/server/server-context.cpp, update_slots.
"""

from __future__ import annotations

from typing import NamedTuple, Sequence

from cachesim.engines.llama_cpp.rules.checkpoint_facts import FROM_FILE, Ckpt, PromptInputs, ResumePlace
from cachesim.engines.llama_cpp.source_files import COMMON, CONTEXT, llama_cpp
from cachesim.engines.rule import Decision, Role, rule


class CheckpointNeed(NamedTuple):
    """Threshold for pos_min, and whether a checkpoint is searched."""

    thold: int
    search: bool

    def __bool__(self) -> bool:
        return self.search


def _need(ask: PromptInputs, back: int) -> Decision:
    thold = max(0, ask.pos_next - ask.n_swa - back)
    search = 0 < ask.n_past <= ask.held and ask.pos_min >= thold
    return Decision(CheckpointNeed(thold, search), {"thold": thold, **ask._asdict()})


@rule("LC-CKPT-NEED.TH4", Role.NEED,
      llama_cpp(CONTEXT, 'pre_decode "has_new_tokens" "pos_min_thold"', "3f545be"), since="#24110 (b9509)")
def need_th4(ask: PromptInputs) -> Decision:
    """Search a checkpoint if pos_min >= pos_min_thold = pos_next - n_swa, lower by 1 if the prompt has no new tokens.
    Return the threshold and whether to search."""
    return _need(ask, 0 if ask.n_past < ask.n_tokens else 1)


# [Gone in llama_cpp@b9518]
@rule("LC-CKPT-NEED.TH3", Role.NEED,
      llama_cpp(CONTEXT, "update_slots", "236531595"), since="#23280 (b9231)", until="#24110")
def need_th3(ask: PromptInputs) -> Decision:
    """Search a checkpoint if pos_min >= pos_min_thold = pos_next - n_swa - 1, so that a recurrent memory always
    searches, even if the prompt only extends the slot. Return the threshold and whether to search."""
    return _need(ask, 1)


def _newest(ckpts: Sequence[Ckpt], fits: Sequence[bool]) -> int | None:
    return max((i for i, ok in enumerate(fits) if ok), default=None)


def pick_newest(ckpts: Sequence[Ckpt], fits: Sequence[bool], ask: PromptInputs, thold: int) -> Decision:
    """Return the decision for the last checkpoint whose entry in ``fits`` is true, None if all are false."""
    because = {
        "thold": thold, "pos_next": ask.pos_next, "n_past": ask.n_past, "n_tokens": ask.n_tokens, "exact": ask.exact,
        "had": [c.n_tokens for c in ckpts],
    }
    return Decision(_newest(ckpts, fits), because)


@rule("LC-CKPT-PICK.PK3", Role.PICK, llama_cpp(CONTEXT, 'pre_decode "rbegin {"', "3f545be"), since="#24411 (b9593)")
def pick_pk3(ckpts: Sequence[Ckpt], ask: PromptInputs, thold: int) -> Decision:
    """Pick the newest checkpoint with pos_max <= pos_next and (pos_min < pos_min_thold or pos_min = 0); return its
    index."""
    fits = [c.pos_max <= ask.pos_next and (c.pos_min < thold or c.pos_min == 0) for c in ckpts]
    return pick_newest(ckpts, fits, ask, thold)


# [Gone in llama_cpp@b9765]
@rule("LC-CKPT-PICK.PK2", Role.PICK,
      llama_cpp(CONTEXT, "update_slots", "236531595"), since="#21510 (b8693)", until="#24411")
def pick_pk2(ckpts: Sequence[Ckpt], ask: PromptInputs, thold: int) -> Decision:
    """Pick the newest checkpoint with pos_min < pos_min_thold or pos_min = 0, whatever its pos_max; return its
    index."""
    fits = [c.pos_min < thold or c.pos_min == 0 for c in ckpts]
    return pick_newest(ckpts, fits, ask, thold)


# [New in llama_cpp@24035-v1]
@rule("LC-CKPT-PICK.V1", Role.PICK, llama_cpp("", "", "750c8d8", pull=24035, note="first version"))
def pick_v1(ckpts: Sequence[Ckpt], ask: PromptInputs, thold: int) -> Decision:
    """Pick, for recurrent and hybrid memories, the newest checkpoint whose end (pos_end, the first position that it
    does not cover) is within the common prefix and that leaves a token to evaluate; for other memories as PK2.
    Inferred: derived from the pull request's text and log."""
    if not ask.exact:
        return pick_pk2(ckpts, ask, thold)
    fits = [c.n_tokens <= ask.n_past and c.pos_max <= ask.pos_next and c.n_tokens < ask.n_tokens for c in ckpts]
    return pick_newest(ckpts, fits, ask, thold)


# [New in llama_cpp@24035-v3]
@rule("LC-CKPT-PICK.V3", Role.PICK, llama_cpp(pull=24035, note="third version"))
def pick_v3(ckpts: Sequence[Ckpt], ask: PromptInputs, thold: int) -> Decision:
    """Pick, for recurrent and hybrid memories, the longest checkpoint within the common prefix that leaves a token to
    evaluate; for other memories as PK3. Inferred: derived from the thread."""
    if not ask.exact:
        return pick_pk3(ckpts, ask, thold)
    limit = min(ask.n_past, ask.n_tokens - 1)
    longest = max((c.n_tokens for c in ckpts if c.n_tokens <= limit), default=-1)
    return pick_newest(ckpts, [c.n_tokens == longest for c in ckpts], ask, thold)


@rule("LC-CKPT-RESTORE.RE4", Role.RESUME,
      llama_cpp(CONTEXT, 'pre_decode "load_tgt" "restored context checkpoint" "it->pos_max"', "3f545be"),
      since="#20279 (b8257)")
def resume_re4(ckpt: Ckpt, ask: PromptInputs) -> Decision:
    """Continue after the checkpoint; in a window at its last token, which is re-evaluated. Return pos_next and
    n_past."""
    pos_next = min(ask.pos_next, max(ckpt.pos_min + 1, ckpt.pos_max))
    n_past = min(pos_next, ask.held, ckpt.n_tokens)
    because = {"n_tokens": ckpt.n_tokens, "pos_max": ckpt.pos_max}
    return Decision(ResumePlace(pos_next, n_past), because)


# [New in llama_cpp@24035-v1]
@rule("LC-CKPT-RESTORE.COUNT", Role.RESUME, llama_cpp(pull=24035))
def resume_count(ckpt: Ckpt, ask: PromptInputs) -> Decision:
    """Continue, in recurrent and hybrid memories, after the checkpoint's n_tokens; in other memories as RE4."""
    if not ask.exact:
        return resume_re4(ckpt, ask)
    return Decision(ResumePlace(ckpt.n_tokens, ckpt.n_tokens), {"n_tokens": ckpt.n_tokens})


@rule("LC-CKPT-UNREAD.ABORT", Role.FAIL,
      llama_cpp(COMMON, "common_prompt_checkpoint::load_tgt", "3f545be"), since="b9109")
def unread_aborts(id_task: int) -> Decision:
    """Abort the server if a checkpoint cannot be restored because other sequences use its cells. Return the message,
    "" = full re-processing instead. Inferred: no recording shows it."""
    return Decision("checkpoint size mismatch", {"id_task": id_task})


# [Gone in llama_cpp@b9230]
@rule("LC-CKPT-UNREAD.RESET", Role.FAIL, llama_cpp(CONTEXT, "update_slots", "ffdd983fb"), until="b9109")
def unread_resets(id_task: int) -> Decision:
    """Force full re-processing if a checkpoint cannot be restored (returns ""). Inferred: no recording shows it."""
    return Decision("", {"id_task": id_task})


# [New in llama_cpp@b11549]
@rule("LC-CKPT-UNREAD.FILE", Role.FAIL,
      llama_cpp(CONTEXT, 'pre_decode "restored from a slot file"', "b11549", pull=26004), since="b11549")
def unread_of_file_resets(id_task: int) -> Decision:
    """Force full re-processing if a checkpoint from a slot file cannot be restored (returns ""); aborts the server for
    a checkpoint of a task (returns the message). Inferred: no recording shows it."""
    words = "" if id_task == FROM_FILE else "failed to restore context checkpoint"
    return Decision(words, {"id_task": id_task})


@rule("LC-CKPT-RESET", Role.RESET,
      llama_cpp(CONTEXT, 'pre_decode "forcing full prompt re-processing"', "3f545be"), since="#16382 (b6685)")
def resume_nothing(ask: PromptInputs) -> Decision:
    """Force full prompt re-processing if no checkpoint is usable: n_past = 0."""
    return Decision(ResumePlace(0, 0), {"n_past": ask.n_past, "held": ask.held, "pos_min": ask.pos_min})


@rule("LC-CKPT-ERASE.ER2", Role.DROP,
      llama_cpp(CONTEXT, 'pre_decode "checkpoints.begin {"', "3f545be"), since="#20671 (b8393)")
def erase_er2(ckpts: Sequence[Ckpt], ask: PromptInputs, resume: ResumePlace) -> Decision:
    """Erase checkpoints with pos_max > pos_next; return their indices. A checkpoint with pos_max = pos_next stays,
    although it covers the token that is about to be replaced (defect D1)."""
    gone = tuple(i for i, c in enumerate(ckpts) if c.pos_max > resume.pos_next)
    return Decision(gone, {"pos_next": resume.pos_next})


# [New in llama_cpp@24035-v1]
@rule("LC-CKPT-ERASE.V1", Role.DROP, llama_cpp(pull=24035, note="first version"))
def erase_v1(ckpts: Sequence[Ckpt], ask: PromptInputs, resume: ResumePlace) -> Decision:
    """Erase, for recurrent and hybrid memories, checkpoints with n_tokens > common prefix or pos_max > pos_next; for
    other memories as ER2. Inferred: from the pull request's log line."""
    if not ask.exact:
        return erase_er2(ckpts, ask, resume)
    gone = tuple(i for i, c in enumerate(ckpts) if c.n_tokens > ask.n_past or c.pos_max > resume.pos_next)
    return Decision(gone, {"prefix_end": ask.n_past, "pos_next": resume.pos_next})


# [New in llama_cpp@24035-v3]
@rule("LC-CKPT-ERASE.V3", Role.DROP, llama_cpp(pull=24035, note="third version"))
def erase_v3(ckpts: Sequence[Ckpt], ask: PromptInputs, resume: ResumePlace) -> Decision:
    """Erase, for recurrent and hybrid memories, only checkpoints with n_tokens > common prefix; for other memories as
    ER2."""
    if not ask.exact:
        return erase_er2(ckpts, ask, resume)
    gone = tuple(i for i, c in enumerate(ckpts) if c.n_tokens > ask.n_past)
    return Decision(gone, {"prefix_end": ask.n_past})
