"""Events that only llama.cpp's server logs, and the purge of a window, which it does not log.

``slot_events`` has those that it shares with other servers. Adapters have lists of scales; an activated adapter (aLoRA)
has an invocation sequence.
"""

from __future__ import annotations

from cachesim.engines.shared import slot_events
from cachesim.engines.shared.slot_events import CkptEvent
from cachesim.events.base import Event, SlotEvent, frozen


@frozen
class UserPos(Event, ev="user_pos"):
    byte_pos: int
    media: int
    n_before_user: int


@frozen
class NewPrompt(SlotEvent, ev="new_prompt"):
    n_ctx_slot: int
    n_keep: int
    n_tokens: int


@frozen
class ReuseResult(SlotEvent, ev="reuse_result"):
    n_past: int


@frozen
class ReuseUnsupported(SlotEvent, ev="reuse_unsupported"):
    pass


@frozen
class SpecCkpt(CkptEvent, ev="spec_ckpt"):
    pass


@frozen
class SpecRestore(SlotEvent, ev="spec_restore"):
    pos_min: int
    pos_max: int


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
class DoCkpt(SlotEvent, ev="do_ckpt"):
    yes: bool
    pos_min: int
    pos_max: int


@frozen
class CkptTooClose(CkptEvent, ev="ckpt_too_close"):
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
class KvFull(Event, ev="kv_full"):
    n_batch: int
    ret: int


@frozen
class SlotById(SlotEvent, ev="slot_by_id"):
    slot_arg: int


@frozen
class SlotSkipBusy(SlotEvent, ev="slot_skip_busy"):
    pass


@frozen
class SlotSkipEmpty(SlotEvent, ev="slot_skip_empty"):
    pass


@frozen
class SlotSim(SlotEvent, ev="slot_sim"):
    f_sim: float
    lcp: int
    n: int
    thold: float


@frozen
class PcTooBig(Event, ev="pc_too_big"):
    mib: float
    limit_mib: float


@frozen
class PcEvictTokens(Event, ev="pc_evict_tokens"):
    limit_tokens: int
    est: int
    mib: float


@frozen
class PcCand(Event, ev="pc_cand"):
    n_tokens: int
    lcp: int
    f_keep: float
    f_sim: float


@frozen
class PcEntry(Event, ev="pc_entry"):
    n_tokens: int
    checkpoints: int
    mib: float


@frozen
class IdleSave(SlotEvent, ev="idle_save"):
    pass


@frozen
class SlotClear(SlotEvent, ev="slot_clear"):
    n_tokens: int


@frozen
class SlotPurge(Event, ev="slot_purge"):
    slot_arg: int
    n_tokens: int


@frozen
class MediaError(SlotEvent, ev="error"):
    """An error that the log prints with the slot."""

    text: str


@frozen
class LoraClear(SlotEvent, ev="lora_clear"):
    """The request's adapters differ: the slot forgets tokens and checkpoints. Lengths of the slot's list (0 = never
    used) and of the request's."""

    n_slot: int
    n_request: int


@frozen
class LoraKeep(SlotEvent, ev="lora_keep"):
    n: int


@frozen
class AloraStart(SlotEvent, ev="alora_start"):
    id: int
    start: int


@frozen
class AloraAbsent(SlotEvent, ev="alora_absent"):
    id: int


@frozen
class AloraCap(SlotEvent, ev="alora_cap"):
    n_past: int
    start: int


@frozen
class AloraPre(SlotEvent, ev="alora_pre"):
    n_tokens: int
    start: int


@frozen
class AloraStop(SlotEvent, ev="alora_stop"):
    n_tokens: int
    start: int


@frozen
class AloraAgain(Event, ev="alora_again"):
    scale: float


@frozen
class LoraSet(Event, ev="lora_set"):
    id: int
    scale: float


@frozen
class RowsPurged(Event, ev="rows_purged", logged=False):
    """A window buffer reused cells and dropped the rows before them: positions p0 .. p1 inclusive."""

    seq: int
    p0: int
    p1: int


LOGGED = (
    *slot_events.LOGGED,
    UserPos, NewPrompt, ReuseResult, ReuseUnsupported, SpecCkpt, SpecRestore, CopyToChild, CopyShared, Cancel,
    CkptPeriodic, TrimRefused, CkptCheck, DoCkpt, CkptTooClose, CkptSupersede, CkptAppend, CkptFromFile, KvFull,
    SlotById, SlotSkipBusy, SlotSkipEmpty, SlotSim, PcTooBig, PcEvictTokens, PcCand, PcEntry, IdleSave, SlotClear,
    SlotPurge, MediaError, LoraClear, LoraKeep, AloraStart, AloraAbsent, AloraCap, AloraPre, AloraStop, AloraAgain,
    LoraSet,
)  # fmt: skip
