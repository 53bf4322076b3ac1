"""Events of adapters: lists of scales, and the invocation sequence of an activated adapter (aLoRA)."""

from __future__ import annotations

from cachesim.events.base import Event, SlotEvent, frozen


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
