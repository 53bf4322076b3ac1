"""Events that only ik_llama.cpp's server logs."""

from __future__ import annotations

from cachesim.events.base import Event, SlotEvent, frozen


@frozen
class PcInfo(Event):
    """What the chosen slot holds, and how much of it the new prompt keeps, against the threshold below which it is
    saved. ``n_keep`` and ``n_discarded`` remember a shift."""

    ev = "pc_info"
    n_tokens: int
    n_keep: int
    n_discarded: int
    n_min: int
    f_keep: float
    thold: float


@frozen
class PcEntryShifted(Event):
    """An entry of the prompt cache; ``discarded`` tokens were lost to a shift before it was stored."""

    ev = "pc_entry"
    n_tokens: int
    discarded: int
    checkpoints: int
    mib: float


@frozen
class CacheLcp(SlotEvent):
    """Of ``n_tokens`` in the slot the prompt has ``n_past`` in common, which are ``n_past_prompt`` of its own."""

    ev = "cache_lcp"
    n_tokens: int
    n_past: int
    n_past_prompt: int


@frozen
class PromptTruncated(SlotEvent):
    """A prompt longer than the context has lost its middle; ``n_tokens`` are left."""

    ev = "prompt_truncated"
    n_keep: int
    n_left: int
    n_tokens: int


LOGGED = (PcInfo, PcEntryShifted, CacheLcp, PromptTruncated)
