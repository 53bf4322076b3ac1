"""Adapters of llama-server: the lists of the server and its slots, and what a request changes in them.

Tokens, checkpoints, entries and slot files know nothing of adapters; only a slot's list is compared. Here each token
carries the key of the scales that it was computed under, which the server does not see.
Source: llama.cpp tools/server/server-context.cpp launch_slot_with_task, pre_decode (b11549).
"""

from __future__ import annotations

from typing import Any, Mapping, Sequence

from cachesim.base.errors import ProcessAborted
from cachesim.base.keyed_tokens import under
from cachesim.base.tokens import POS_INF
from cachesim.engines.base import Request
from cachesim.engines.llama_cpp import events as llama_ev
from cachesim.engines.llama_cpp.rules.adapter_repairs import WAIT
from cachesim.engines.llama_cpp.rules.adapters import (
    NOT_FOUND,
    RequestScales,
    Scales,
    all_activated,
    enabled,
    read_scales,
)
from cachesim.engines.llama_cpp.server_state import Core
from cachesim.engines.llama_cpp.slot import Slot, Task
from cachesim.engines.rule import Decision
from cachesim.engines.shared import slot_events as slot_ev
from cachesim.model.hash_mixing import Rng

FIELD = "lora"


def key_of_scales(scales: Scales) -> int:
    """Return the key of tokens that are computed under these scales; 0 if all are 0."""
    name = ",".join(f"{i}:{scale!r}" for i, scale in enumerate(scales) if scale)
    return Rng(0, "adapters", name).state >> 2 | 1 if name else 0


def launch_adapters(srv: Core, slot: Slot, task: Task) -> bool:
    """Give the slot the adapters of a request, and forget what it must not reuse. Return False if the request is
    refused; the slot then keeps the new list."""
    return (not srv.adapters or _take_list(srv, slot, task)) and _is_valid(srv, slot, task)


def _is_valid(srv: Core, slot: Slot, task: Task) -> bool:
    valid = srv.rules.task_valid(min(task.request.prompt, default=0))
    if valid.value:
        refuse(srv, task, srv.decide(valid, slot), "invalid-tokens")
    return not valid.value


def _take_list(srv: Core, slot: Slot, task: Task) -> bool:
    rules, given = srv.rules.adapters, asked_scales(task.request)
    if slot.alora_start >= 0:
        slot.alora_start = srv.decide(rules.start(slot.alora_start), slot)
    now: Scales = srv.decide(rules.list(given, srv.served), slot)
    clear = rules.clear(RequestScales(slot.adapters, now, len(given)), srv.adapters)
    if now != slot.adapters and (given or clear.value):
        if srv.decide(clear, slot):
            srv.emit(llama_ev.LoraClear(slot.id, slot.id_task, len(slot.adapters), clear.because["asked"]))
            forget(srv, slot, clear.rule)
        else:
            srv.emit(llama_ev.LoraKeep(slot.id, slot.id_task, len(now)))
    slot.adapters = now
    refusal = rules.one(now, srv.adapters)
    if refusal.value:
        refuse(srv, task, srv.decide(refusal, slot), "several-aloras")
        return False
    if all_activated(now, srv.adapters):
        _scan(srv, slot, task, enabled(now)[0])
    task.answer.keys, task.answer.under = _keys(srv, slot), _words(slot.adapters)
    return True


def asked_scales(request: Request) -> dict[int, float]:
    """Return the scales that a request asks for, by id; empty without a list."""
    return read_scales(str(request.extra.get(FIELD, "")))


def scales_for(srv: Core, task: Task) -> Scales:
    """Return the scales that a request is computed under, () without adapters."""
    scales: Scales = srv.rules.adapters.list(asked_scales(task.request), srv.served).value if srv.adapters else ()
    return scales


def saves_first(srv: Core, slot: Slot, task: Task) -> bool:
    """True if the slot is saved, and its tokens count as gone, because the request has other adapters."""
    asked = scales_for(srv, task)
    if asked == slot.adapters or slot.busy or not slot.tokens:
        return False
    return bool(srv.decide(srv.rules.adapters.save(slot.adapters, asked), slot))


def forget(srv: Core, slot: Slot, rule: str) -> None:
    """Forget the slot's tokens, and as the rule says its checkpoints and its cells in the memory."""
    cells = srv.decide(srv.rules.adapters.forget(len(slot.tokens)), slot)
    if cells:
        srv.emit(llama_ev.SlotClear(slot.id, slot.id_task, len(slot.tokens)))
        srv.common_memory.must_rm(slot.id, 0, POS_INF)
    slot.tokens.clear()
    if cells is not None:
        slot.checkpoints.clear()
    srv.changed(slot, "cleared", rule)


def refuse(srv: Core, task: Task, text: str, kind: str) -> bool:
    """Refuse a task that has no slot yet. Return False."""
    srv.emit(slot_ev.Error(f"error: {text}"))
    task.answer.fails(400, text, kind)
    task.answer.done = True
    return False


def refuse_ids(srv: Core, given: Mapping[int, float]) -> str:
    """Return the error text for a list with an id that this build refuses, "" = none."""
    refused = srv.rules.adapters.ids(tuple(given), len(srv.adapters))
    return str(srv.decide(refused, None)) if refused.value else ""


def _scan(srv: Core, slot: Slot, task: Task, active: int) -> None:
    """Search the invocation tokens of the active aLoRA. Without them it is off."""
    prompt = task.request.prompt
    start: int = srv.decide(srv.rules.adapters.scan(prompt, srv.adapters[active].invocation), slot)
    if start < 0:
        srv.emit(llama_ev.AloraAbsent(slot.id, slot.id_task, active))
        slot.adapters = scaled(slot.adapters, active, 0.0)
    else:
        srv.emit(llama_ev.AloraStart(slot.id, slot.id_task, active, start))
        slot.alora_start, slot.alora = start, active


def scaled(scales: Scales, number: int, scale: float) -> Scales:
    """Return a list with another scale of an adapter."""
    return tuple(scale if i == number else old for i, old in enumerate(scales))


def _keys(srv: Core, slot: Slot) -> tuple[tuple[int, int], ...]:
    """Return the keys under which a cold server computes the tokens of a request: (first position, key)."""
    whole = (0, key_of_scales(slot.adapters))
    if slot.alora_start <= 1 or not all_activated(slot.adapters, srv.adapters):
        return (whole,)
    return (0, key_of_scales(scaled(slot.adapters, slot.alora, 0.0))), (slot.alora_start - 1, whole[1])


def begin_active_rows_at(task: Task, start: int) -> None:
    """Note from where on a cold server computes a prompt with its aLoRA, too, if this is not the usual place."""
    (_, before), (_, active) = task.answer.keys
    task.answer.keys = (0, before), (start, active)


def _words(scales: Scales) -> str:
    """Return the adapters in force, as a phrase after "under"."""
    named = [f"adapter {i}" + (f" (scale {scale:g})" if scale != 1 else "") for i, scale in enumerate(scales) if scale]
    return " and ".join(named) or "no adapter"


def cap_prefix(srv: Core, slot: Slot, task: Task, n_past: int) -> int:
    """Return the tokens to reuse before the invocation sequence of an aLoRA. Nothing is capped where nothing is
    reused."""
    rules = srv.rules.adapters
    if not (task.request.cache_prompt and srv.rules.task_reuse(task.request.kind).value):
        return n_past
    if slot.active >= 0:
        n_past = _capped(srv, slot, task, n_past, cap=rules.rows(n_past, slot.active))
    if slot.alora_start > 0:
        srv.emit(llama_ev.AloraCap(slot.id, task.id, n_past, slot.alora_start))
    if slot.alora_start >= 0:
        n_past = _capped(srv, slot, task, n_past, cap=rules.cap(n_past, slot.alora_start))
    if n_past < 0:
        raise ProcessAborted("GGML_ASSERT(n <= tokens.size()) failed", "list-cut-below-zero")
    return n_past


def _capped(srv: Core, slot: Slot, task: Task, n_past: int, cap: Decision) -> int:
    if cap.value != n_past:
        task.answer.deciding = cap.rule
        srv.decide(cap, slot)
    return int(cap.value)


def moves_chunks(srv: Core, slot: Slot) -> bool:
    """True if blocks of the slot may be reused at other positions."""
    if slot.alora_start < 0 and slot.active < 0:
        return True
    return bool(srv.decide(srv.rules.adapters.chunks(slot.alora_start, slot.active), slot))


def mark_rows(slot: Slot) -> None:
    """Note from which token on the slot's rows will be computed with an aLoRA."""
    slot.active = max(0, slot.alora_start - 1) if slot.alora_start >= 0 else NOT_FOUND


def split_prompt(srv: Core, slot: Slot, task: Task) -> int | None:
    """Return where the batch must end because the rest is computed with the aLoRA, None = nowhere, WAIT = the slot must
    not join the batch. Until then its scale is 0."""
    if slot.alora_start < 0:
        return None
    active = all_activated(slot.adapters, srv.adapters)
    split = srv.rules.adapters.split(len(slot.tokens), slot.alora_start, active, srv.leader is not slot)
    if not split.value:
        return None
    if split.value == WAIT:
        return int(srv.decide(split, slot))
    srv.emit(llama_ev.AloraPre(slot.id, task.id, len(slot.tokens), slot.alora_start))
    srv.put_back = slot, slot.adapters[slot.alora]
    slot.adapters = scaled(slot.adapters, slot.alora, 0.0)
    stop: int = srv.decide(split, slot)
    return stop


def stop_at_invocation(srv: Core, slot: Slot, task: Task, start: int, stop: int, limit: int | None) -> int:
    """Return where a batch from ``start`` ends that otherwise ends at ``stop``: at ``limit`` of ``split_prompt``. The
    limit of one slot also stops each slot that is before its own invocation: the batch has a single mark for both."""
    if limit is not None and limit < start:                 # the invocation follows an image: nothing ends the batch
        begin_active_rows_at(task, stop)
    elif srv.put_back is not None and start <= slot.alora_start - 1 < stop:
        srv.emit(llama_ev.AloraStop(slot.id, task.id, slot.alora_start - 1, slot.alora_start))
        return slot.alora_start - 1
    return stop


def joins(srv: Core, slot: Slot) -> bool:
    """True if a slot takes part in the batch; the first one leads it."""
    if not srv.adapters:
        return True
    if srv.leader is None:
        srv.leader = slot
    elif srv.leader.task is None and isinstance(text := srv.rules.adapters.lead().value, str):
        raise ProcessAborted(text, "batch-led-by-a-failed-request")
    joined = srv.rules.adapters.batch(srv.leader.adapters, slot.adapters)
    return srv.holds(joined, slot)


def leaves(srv: Core, slot: Slot) -> None:
    """LORA-LEAD: the slot leads its batch, and its request failed before a token was added. Let the next slot lead, as
    the rule says."""
    if not srv.decide(srv.rules.adapters.lead(), slot):
        srv.leader = None


def keyed(srv: Core, tokens: Sequence[int]) -> Sequence[int]:
    """Return tokens as they enter a slot: with the key of the adapters of the batch."""
    return under(tokens, key_of_scales(srv.leader.adapters)) if srv.leader is not None else tokens


def put_scale_back(srv: Core) -> None:
    """Return the scale of a split aLoRA to the list that rule LC-ALORA-BACK chooses, before the batch is decoded."""
    if srv.put_back is not None and srv.leader is not None:
        split, scale = srv.put_back
        back = srv.rules.adapters.back(split.id, srv.leader.id)
        srv.emit(llama_ev.AloraAgain(scale))
        slot = srv.slots[srv.decide(back, srv.leader) if split is not srv.leader else back.value]
        slot.adapters = scaled(slot.adapters, split.alora, scale)
        if slot is not split and slot.task is not None:
            slot.task.answer.deciding = back.rule


def set_adapters(srv: Core, given: Mapping[int, float]) -> dict[str, Any]:
    """Change the scales of the server (``POST /lora-adapters``). Slots at work keep theirs."""
    refused = refuse_ids(srv, given)
    if refused:
        return {"status": 500, "success": False, "error": refused}
    srv.served = tuple(given.get(i, 0.0) for i in range(len(srv.adapters)))
    for number, scale in enumerate(srv.served):
        srv.emit(llama_ev.LoraSet(number, scale))
    return {"status": 200, "success": True}
