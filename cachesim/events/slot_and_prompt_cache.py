"""Events of slot selection and of the prompt cache in host memory."""

from __future__ import annotations

from typing import Any, Mapping

from cachesim.events.base import Event, SlotEvent, frozen


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
class PcTooBig(Event, ev="pc_too_big"):
    mib: float
    limit_mib: float


@frozen
class PcObsolete(Event, ev="pc_obsolete"):
    n_tokens: int


@frozen
class PcEvict(Event, ev="pc_evict"):
    mib: float


@frozen
class PcEvictTokens(Event, ev="pc_evict_tokens"):
    limit_tokens: int
    est: int
    mib: float


@frozen
class PcSearch(Event, ev="pc_search"):
    f_keep: float | str       # "-nan" for an empty slot of ik_llama.cpp
    f_sim: float


@frozen
class PcCand(Event, ev="pc_cand"):
    n_tokens: int
    lcp: int
    f_keep: float
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
