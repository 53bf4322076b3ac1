"""Events that servers with slots, checkpoints and a prompt cache in host memory log: the prompt of a slot, its
checkpoints, slot selection, the prompt cache, images. Units are those of ``cachesim.events``.
"""

from __future__ import annotations

from typing import Any, Mapping

from cachesim.events.base import Event, SlotEvent, frozen


@frozen
class ReuseChunk(SlotEvent, ev="reuse_chunk"):
    n: int
    c0: int
    c1: int
    p0: int
    p1: int


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
class SpecStep(SlotEvent, ev="spec_step"):
    accepted: int
    drafted: int
    n_tokens: int


@frozen
class CkptSearch(SlotEvent, ev="ckpt_search"):
    """A checkpoint is required. ``n_past``: the common prefix; ``n_tokens``: tokens in the slot."""

    n_past: int
    n_tokens: int
    seq_id: int
    pos_min: int
    n_swa: int


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
class CkptEvict(CkptEvent, ev="ckpt_evict"):
    pass


@frozen
class CkptCreate(SlotEvent, ev="ckpt_create"):
    n: int
    max: int
    pos_min: int
    pos_max: int
    n_tokens: int
    mib: float


@frozen
class Warn(Event, ev="warn"):
    text: str


@frozen
class Error(Event, ev="error"):
    text: str


@frozen
class SlotByLcp(SlotEvent, ev="slot_by_lcp"):
    f_sim: float
    thold: float
    f_keep: float
    lcp: int


@frozen
class SlotByLru(SlotEvent, ev="slot_by_lru"):
    pass


@frozen
class PcBegin(Event, ev="pc_begin"):
    pass


@frozen
class PcSave(Event, ev="pc_save"):
    n_tokens: int
    mib: float
    mib_draft: float


@frozen
class PcAlready(Event, ev="pc_already"):
    pass


@frozen
class PcObsolete(Event, ev="pc_obsolete"):
    n_tokens: int


@frozen
class PcEvict(Event, ev="pc_evict"):
    mib: float


@frozen
class PcSearch(Event, ev="pc_search"):
    f_keep: float | str       # "-nan" for an empty slot of ik_llama.cpp
    f_sim: float


@frozen
class PcLoad(Event, ev="pc_load"):
    f_keep: float
    f_sim: float


@frozen
class PcLoadFailed(Event, ev="pc_load_failed"):
    """Printed twice: by the cache (``slot`` None) and by the slot."""

    slot: int | None = None

    def record(self, one_slot: bool = False, tasks: Mapping[int, int] | None = None) -> dict[str, Any]:
        return {"ev": self.ev} if self.slot is None or one_slot else {"ev": self.ev, "slot": self.slot}


@frozen
class PcState(Event, ev="pc_state"):
    prompts: int
    mib: float
    limit_mib: float
    limit_tokens: int
    est: int

    @property
    def cached_mib(self) -> float | None:
        """Size of the stored conversations [MiB]."""
        return self.mib


@frozen
class MediaEncode(SlotEvent, ev="media_encode"):
    """An image is encoded. ``idx``: index of its first item in the prompt."""

    idx: int
    n_chunks: int


@frozen
class MediaDecode(Event, ev="media_decode"):
    """A piece of an image is evaluated: the n-th ``of`` several."""

    n: int
    of: int
    n_tokens: int


LOGGED = (
    ReuseChunk, CtxShift, SpecStep, CkptSearch, CkptRestore, FullReprocess, CkptInvalidate, NeedOne, Batch, CkptEvict,
    CkptCreate, Warn, Error, SlotByLcp, SlotByLru, PcBegin, PcSave, PcAlready, PcObsolete, PcEvict, PcSearch, PcLoad,
    PcLoadFailed, PcState, MediaEncode, MediaDecode,
)  # fmt: skip
