"""Moving positions: the context shift of a full slot, and the blocks that a prompt brings in new places.

Source: llama.cpp tools/server/server-context.cpp update_slots (3f545be).
"""

from __future__ import annotations

from cachesim import events as ev
from cachesim.engines.base import NO_ROOM
from cachesim.engines.llama_cpp.rules.context_shift import Moved, Shift
from cachesim.engines.llama_cpp.server_state import Core
from cachesim.engines.llama_cpp.slot import Slot, State, Task


def shift_full_slots(srv: Core) -> None:
    """SHIFT: every generating slot that has no room for its next token gives up part of its past."""
    for slot in srv.slots if srv.settings.context_shift else ():
        task = slot.task
        if slot.state is not State.GENERATING or task is None:
            continue
        request, room = task.request, srv.settings.n_ctx_slot
        kept = request.n_keep or 0
        decision = srv.rules.context_shift(len(slot.tokens), len(request.prompt), kept, request.n_discard, room)
        plan: Shift | None = srv.decide(decision, slot)
        if plan is None:
            continue
        refusal = srv.rules.shift_of_shared(slot.child or request.n_cmpl > 1)
        if refusal.value:
            srv.fail(slot, 500, srv.decide(refusal, slot), NO_ROOM)
        else:
            _shift(srv, slot, plan, decision.rule)


def _shift(srv: Core, slot: Slot, plan: Shift, rule: str) -> None:
    srv.emit(ev.CtxShift(slot.id, slot.id_task, plan.n_keep, plan.n_left, plan.n_discard))
    cut = plan.n_keep + plan.n_discard
    srv.both.must_rm(slot.id, plan.n_keep, cut)
    srv.both.seq_add(slot.id, cut, len(slot.tokens), -plan.n_discard)
    del slot.tokens[plan.n_keep : cut]
    clear = srv.rules.clear(len(slot.checkpoints))
    if srv.decide(clear, slot):
        slot.checkpoints.clear()
    slot.truncated = True
    assert slot.task is not None
    slot.task.answer.shifts.append((len(slot.tokens) + plan.n_discard, plan.n_keep, plan.n_discard))
    srv.changed(slot, "truncated", rule, plan.n_keep)


def reuse(srv: Core, slot: Slot, task: Task, n_past: int) -> int:
    """NPAST-REUSE: bring blocks of the slot's tokens to where the prompt has them; returns the new n_past."""
    request = task.request
    least = srv.settings.n_cache_reuse if request.n_cache_reuse is None else request.n_cache_reuse
    if least <= 0 or not request.cache_prompt:
        return n_past
    if not srv.memory.can_shift():
        srv.emit(ev.ReuseUnsupported(slot.id, task.id))
        return n_past
    decision = srv.rules.reuse(slot.tokens, request.prompt, n_past, least, srv.settings.exact)
    moved: tuple[Moved, ...] | None = srv.decide(decision, slot)
    if moved is None:
        srv.emit(ev.ReuseUnsupported(slot.id, task.id))
        return n_past
    old = list(slot.tokens)
    srv.points.touch(slot.id, n_past)
    for block in moved:
        srv.emit(ev.ReuseChunk(slot.id, task.id, block.n, block.c0, block.c0 + block.n, block.p0, block.p0 + block.n))
        srv.both.must_rm(slot.id, block.p0, block.c0)
        srv.both.seq_add(slot.id, block.c0, block.c0 + block.n, block.p0 - block.c0)
        slot.tokens[block.p0 : block.p0 + block.n] = old[block.c0 : block.c0 + block.n]
        n_past += block.n
    srv.emit(ev.ReuseResult(slot.id, task.id, n_past))
    return n_past
