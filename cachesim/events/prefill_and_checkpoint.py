"""Events of a prompt, from its start to the release of the slot: checkpoints, batches, lack of room."""

from __future__ import annotations

from cachesim.events.base import Event, SlotEvent, frozen


@frozen
class UserPos(Event, ev="user_pos"):
    byte_pos: int
    media: int
    n_before_user: int


@frozen
class Launch(SlotEvent, ev="launch"):
    is_child: int


@frozen
class NewPrompt(SlotEvent, ev="new_prompt"):
    n_ctx_slot: int
    n_keep: int
    n_tokens: int


@frozen
class ReuseChunk(SlotEvent, ev="reuse_chunk"):
    n: int
    c0: int
    c1: int
    p0: int
    p1: int


@frozen
class ReuseResult(SlotEvent, ev="reuse_result"):
    n_past: int


@frozen
class ReuseUnsupported(SlotEvent, ev="reuse_unsupported"):
    pass


@frozen
class CtxShift(SlotEvent, ev="ctx_shift"):
    n_keep: int
    n_left: int
    n_discard: int


@frozen
class CkptEvent(SlotEvent):
    """An event of a checkpoint: its positions, and the number of tokens before it."""

    pos_min: int
    pos_max: int
    n_tokens: int


@frozen
class SpecCkpt(CkptEvent, ev="spec_ckpt"):
    pass


@frozen
class SpecRestore(SlotEvent, ev="spec_restore"):
    pos_min: int
    pos_max: int


@frozen
class SpecStep(SlotEvent, ev="spec_step"):
    accepted: int
    drafted: int
    n_tokens: int


@frozen
class CopyToChild(SlotEvent, ev="copy_to_child"):
    child: int


@frozen
class CopyShared(SlotEvent, ev="copy_shared"):
    """A child with its own prompt gets the part that it shares with its parent, ``n_tokens`` tokens."""

    n_tokens: int
    child: int


@frozen
class Cancel(Event, ev="cancel"):
    """The server noticed that the client disconnected. The place of this event among the others has no meaning."""


@frozen
class CkptSearch(SlotEvent, ev="ckpt_search"):
    """A checkpoint is required. ``n_past``: the common prefix; ``n_tokens``: tokens in the slot."""

    n_past: int
    n_tokens: int
    seq_id: int
    pos_min: int
    n_swa: int


@frozen
class CkptPeriodic(SlotEvent, ev="ckpt_periodic"):
    """A checkpoint is due in the middle of a prompt. ``n_tokens``: end of the chunk that is being filled."""

    every: int
    last: int
    n_tokens: int


@frozen
class TrimRefused(SlotEvent, ev="trim_refused"):
    """The memory refused to remove the rows from p0 on; the slot is emptied."""

    p0: int


@frozen
class CkptCheck(SlotEvent, ev="ckpt_check"):
    pos_min: int
    pos_max: int
    thold: int


@frozen
class CkptRestore(CkptEvent, ev="ckpt_restore"):
    n_past: int
    mib: float


@frozen
class FullReprocess(SlotEvent, ev="full_reprocess"):
    pass


@frozen
class CkptInvalidate(CkptEvent, ev="ckpt_invalidate"):
    n_swa: int
    pos_next: int


@frozen
class NeedOne(SlotEvent, ev="need_one"):
    n_past: int
    n_tokens: int


@frozen
class Batch(SlotEvent, ev="batch"):
    n_tokens: int
    p0: int


@frozen
class DoCkpt(SlotEvent, ev="do_ckpt"):
    yes: bool
    pos_min: int
    pos_max: int


@frozen
class CkptTooClose(CkptEvent, ev="ckpt_too_close"):
    pass


@frozen
class CkptEvict(CkptEvent, ev="ckpt_evict"):
    pass


@frozen
class CkptSupersede(SlotEvent, ev="ckpt_supersede"):
    """A new checkpoint of equal length replaced a checkpoint."""

    n_tokens: int


@frozen
class CkptAppend(SlotEvent, ev="ckpt_append"):
    """A slot file was saved with ``n`` checkpoints after the state, of size ``mib``."""

    n: int
    mib: float


@frozen
class CkptFromFile(SlotEvent, ev="ckpt_from_file"):
    """``n`` checkpoints were restored from a slot file."""

    n: int


@frozen
class CkptCreate(SlotEvent, ev="ckpt_create"):
    n: int
    max: int
    pos_min: int
    pos_max: int
    n_tokens: int
    mib: float


@frozen
class KvFull(Event, ev="kv_full"):
    n_batch: int
    ret: int


@frozen
class Release(SlotEvent, ev="release"):
    n_tokens: int
    truncated: int


@frozen
class Warn(Event, ev="warn"):
    text: str


@frozen
class Error(Event, ev="error"):
    text: str
