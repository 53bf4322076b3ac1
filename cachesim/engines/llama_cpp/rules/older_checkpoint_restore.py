"""Checkpoint restore in older builds: variants of `checkpoint_restore`.

Variants are named as in the history document: TH (threshold), PK (pick), RE (resume), ER (erase).
Source: llama.cpp tools/server/server.cpp, later server-context.cpp, update_slots.
"""

from __future__ import annotations

from typing import Sequence

from cachesim.engines.llama_cpp.rules.checkpoint_facts import Ckpt, PromptInputs, ResumePlace
from cachesim.engines.llama_cpp.rules.checkpoint_restore import CheckpointNeed, pick_newest
from cachesim.engines.llama_cpp.source_files import CONTEXT, SERVER, llama_cpp
from cachesim.engines.rule import Decision, Role, rule


def _inside(ask: PromptInputs) -> bool:
    """True if the reusable prefix is shorter than the slot's tokens. A pure extension never searched."""
    return 0 < ask.n_past < ask.held


def _behind(ask: PromptInputs, n_swa: int) -> int:
    return max(0, ask.pos_next - n_swa)


# [Gone in llama_cpp@b9231]
@rule("LC-CKPT-NEED.TH2", Role.NEED,
      llama_cpp(CONTEXT, "update_slots", "ab9d4c367"), since="#20726 (b8450)", until="#23280")
def need_th2(ask: PromptInputs) -> Decision:
    """Search a checkpoint if pos_min >= pos_min_thold = pos_next - n_swa and the slot has more tokens than the common
    prefix. A common prefix within the window has threshold 0 and searches although nothing is missing (D7)."""
    thold = _behind(ask, ask.n_swa)
    search = _inside(ask) and ask.pos_min >= thold
    return Decision(CheckpointNeed(thold, search), {"thold": thold, **ask._asdict()})


# [Gone in llama_cpp@b8450]
@rule("LC-CKPT-NEED.TH1", Role.NEED,
      llama_cpp(SERVER, "update_slots", "f6dcda390"), since="#16382 (b6685)", until="#20726")
def need_th1(ask: PromptInputs) -> Decision:
    """Search a checkpoint if pos_min > pos_min_thold = pos_next - max(1, n_swa) and the slot has more tokens than the
    common prefix."""
    thold = _behind(ask, max(1, ask.n_swa))
    search = _inside(ask) and ask.pos_min > thold
    return Decision(CheckpointNeed(thold, search), {"thold": thold, **ask._asdict()})


# [Gone in llama_cpp@b6685]
@rule("LC-CKPT-NEED.TH0", Role.NEED,
      llama_cpp(SERVER, "update_slots", "d32e03f44"), since="#15293 (b6160)", until="#16382")
def need_th0(ask: PromptInputs) -> Decision:
    """Search a checkpoint if pos_min > pos_min_thold = pos_next - n_swa and the slot has more tokens than the common
    prefix."""
    thold = _behind(ask, ask.n_swa)
    search = _inside(ask) and ask.pos_min > thold
    return Decision(CheckpointNeed(thold, search), {"thold": thold, **ask._asdict()})


# [Gone in llama_cpp@b8916]
@rule("LC-CKPT-PICK.PK1", Role.PICK,
      llama_cpp(SERVER, "update_slots", "f6dcda390"), since="#16382 (b6685)", until="#21510")
def pick_pk1(ckpts: Sequence[Ckpt], ask: PromptInputs, thold: int) -> Decision:
    """Pick the newest checkpoint with pos_min < pos_min_thold; return its index. With a threshold of 0 no checkpoint
    is usable."""
    return pick_newest(ckpts, [c.pos_min < thold for c in ckpts], ask, thold)


# [Gone in llama_cpp@b6685]
@rule("LC-CKPT-PICK.PK0", Role.PICK,
      llama_cpp(SERVER, "update_slots", "d32e03f44"), since="#15293 (b6160)", until="#16382")
def pick_pk0(ckpts: Sequence[Ckpt], ask: PromptInputs, thold: int) -> Decision:
    """Pick the newest checkpoint with pos_min <= pos_min_thold; return its index."""
    return pick_newest(ckpts, [c.pos_min <= thold for c in ckpts], ask, thold)


def _because(ckpt: Ckpt) -> dict[str, int]:
    return {"n_tokens": ckpt.n_tokens, "pos_max": ckpt.pos_max}


def _behind_ckpt(ckpt: Ckpt, ask: PromptInputs) -> int:
    return min(ask.pos_next, max(ckpt.pos_min + 1, ckpt.pos_max))


def _one_too_far(pos_next: int, held: int) -> int:
    """Return the tokens up to and including position pos_next: the count that #20279 corrected."""
    return min(pos_next + 1, held)


# [Gone in llama_cpp@b8260]
@rule("LC-CKPT-RESTORE.RE3", Role.RESUME,
      llama_cpp(CONTEXT, "update_slots"), since="#19924 (b8166)", until="#20279 (b8257)")
def resume_re3(ckpt: Ckpt, ask: PromptInputs) -> Decision:
    """Continue after the checkpoint, with an n_past that is too large by 1 but at most the checkpoint's n_tokens.
    Return pos_next and n_past."""
    pos_next = _behind_ckpt(ckpt, ask)
    n_past = min(_one_too_far(pos_next, ask.held), ckpt.n_tokens)
    return Decision(ResumePlace(pos_next, n_past), _because(ckpt))


# [New in llama_cpp@b8152]
# [Gone in llama_cpp@b8260]
@rule("LC-CKPT-RESTORE.RE2", Role.RESUME,
      llama_cpp(CONTEXT, "update_slots", "d7d826b3c"), since="#19849 (b8152)", until="#19924 (b8166)")
def resume_re2(ckpt: Ckpt, ask: PromptInputs) -> Decision:
    """Continue a token too late: the token after a recurrent checkpoint is never evaluated. Return pos_next and
    n_past."""
    pos_next = _behind_ckpt(ckpt, ask)
    return Decision(ResumePlace(pos_next, _one_too_far(pos_next, ask.held)), _because(ckpt))


# [Gone in llama_cpp@b8152]
@rule("LC-CKPT-RESTORE.RE1", Role.RESUME,
      llama_cpp(SERVER, "update_slots", "f6dcda390"), since="#16382 (b6685)", until="#19849")
def resume_re1(ckpt: Ckpt, ask: PromptInputs) -> Decision:
    """Continue after a recurrent checkpoint, or at the last token of a window; positions are used as counts.
    Return pos_next and n_past."""
    n_past = min(ask.n_past, max(ckpt.pos_min + 1, ckpt.pos_max))
    return Decision(ResumePlace(n_past, n_past), _because(ckpt))


# [Gone in llama_cpp@b6685]
@rule("LC-CKPT-RESTORE.RE0", Role.RESUME,
      llama_cpp(SERVER, "update_slots", "d32e03f44"), since="#15293 (b6160)", until="#16382")
def resume_re0(ckpt: Ckpt, ask: PromptInputs) -> Decision:
    """Continue at the last token of the restored window. Return pos_next and n_past."""
    n_past = min(ask.n_past, ckpt.pos_max)
    return Decision(ResumePlace(n_past, n_past), _because(ckpt))


# [Gone in llama_cpp@b6685]
@rule("LC-CKPT-RESET.ALL", Role.RESET,
      llama_cpp(SERVER, "update_slots", "d32e03f44"), since="#15293 (b6160)", until="#16382")
def resume_nothing_forget(ask: PromptInputs) -> Decision:
    """Force full prompt re-processing if no checkpoint is usable: n_past = 0, and all checkpoints are erased without a
    log line."""
    because = {"n_past": ask.n_past, "held": ask.held, "pos_min": ask.pos_min}
    return Decision(ResumePlace(0, 0, forget=True), because)


# [Gone in llama_cpp@b8450]
@rule("LC-CKPT-ERASE.ER1", Role.DROP, llama_cpp(SERVER, "update_slots", "f6dcda390"), until="#20671 (b8393)")
def erase_er1(ckpts: Sequence[Ckpt], ask: PromptInputs, resume: ResumePlace) -> Decision:
    """Erase checkpoints with pos_min > pos_min_thold (computed before a restore); return their indices. A window with
    pos_min 0 is never erased, nor a checkpoint that begins before the threshold and ends after it, even if its tokens
    differ (#20671)."""
    thold = _behind(ask, max(1, ask.n_swa))
    gone = tuple(i for i, c in enumerate(ckpts) if c.pos_min > thold)
    return Decision(gone, {"thold": thold})


# [Gone in llama_cpp@b6740]
@rule("LC-CKPT-ERASE.ER1-NEWEST", Role.DROP,
      llama_cpp(SERVER, "update_slots", "f6dcda390", note="order as recorded in hybrid-first"),
      since="#16382 (b6685)")
def erase_er1_newest_first(ckpts: Sequence[Ckpt], ask: PromptInputs, resume: ResumePlace) -> Decision:
    """Erase as ER1, the newest checkpoints first."""
    same = erase_er1(ckpts, ask, resume)
    return Decision(same.value[::-1], same.because)


# [Gone in llama_cpp@b6685]
@rule("LC-CKPT-ERASE.ER0", Role.DROP,
      llama_cpp(SERVER, "update_slots", "d32e03f44"), since="#15293 (b6160)", until="#16382")
def erase_er0(ckpts: Sequence[Ckpt], ask: PromptInputs, resume: ResumePlace) -> Decision:
    """Erase checkpoints with pos_min > n_past - n_swa (computed after a restore), the newest first; only in models
    with a window."""
    thold = max(0, resume.n_past - ask.n_swa)
    gone = tuple(i for i, c in enumerate(ckpts) if ask.n_swa > 0 and c.pos_min > thold)
    return Decision(gone[::-1], {"thold": thold})
