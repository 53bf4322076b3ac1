"""Events that only ik_llama.cpp's server logs."""

from __future__ import annotations

from cachesim.engines.shared import slot_events
from cachesim.events.base import Event, SlotEvent, frozen


@frozen
class PcInfo(Event):
    """Number of tokens in the selected slot, and the share that the new prompt keeps, with the threshold below which
    the slot is saved. ``n_keep`` and ``n_discarded`` describe an earlier shift."""

    ev = "pc_info"
    n_tokens: int
    n_keep: int
    n_discarded: int
    n_min: int
    f_keep: float
    thold: float


@frozen
class PcEntryShifted(Event):
    """An entry of the prompt cache; a shift discarded ``discarded`` tokens before it was stored."""

    ev = "pc_entry"
    n_tokens: int
    discarded: int
    checkpoints: int
    mib: float


@frozen
class CacheLcp(SlotEvent):
    """Common prefix of slot and prompt: ``n_past`` of the ``n_tokens`` in the slot, which are ``n_past_prompt`` tokens
    of the prompt."""

    ev = "cache_lcp"
    n_tokens: int
    n_past: int
    n_past_prompt: int


@frozen
class PromptTruncated(SlotEvent):
    """A prompt longer than the context lost its middle; ``n_tokens`` are left."""

    ev = "prompt_truncated"
    n_keep: int
    n_left: int
    n_tokens: int


LOGGED = (*slot_events.LOGGED, PcInfo, PcEntryShifted, CacheLcp, PromptTruncated)
