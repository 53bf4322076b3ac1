"""Moving positions: a full slot gives up part of its past, a long prompt its middle.

Source: ik_llama.cpp examples/server/server-context.cpp context_shift (8337e4cd3); spec 3.6.
"""

from __future__ import annotations

from cachesim import events as ev
from cachesim.engines.ik_llama.core import Core
from cachesim.engines.ik_llama.rules.trim import Shift
from cachesim.engines.ik_llama.slot import Slot, State

NO_SHIFT = "context_length_exceeded: the request exceeds the available context size; context shift is disabled"


def cut(srv: Core, slot: Slot, plan: Shift, n_past: int) -> None:
    """Tokens leave the slot and both contexts; what lay behind them, up to position n_past, moves up."""
    stop = plan.n_keep + plan.n_discard
    for kv in [srv.memory, *([srv.companion.kv] if srv.companion else [])]:
        kv.seq_rm(slot.id, plan.n_keep, stop)
        kv.seq_add(slot.id, stop, n_past, -plan.n_discard)
    del slot.tokens[plan.n_keep : stop]
    srv.changed(slot, "truncated", "IK-SHIFT")


def look_for_full_slots(srv: Core) -> None:
    """Every slot without room for its next token is shifted, or gets an error. While its prompt is being read it goes
    on after the error."""
    for slot in srv.slots:
        task = slot.task
        if task is None or slot.state is State.LEAVING or not task.begun:
            continue
        full = srv.rules.full(len(slot.tokens), srv.settings.n_ctx_slot, srv.settings.context_shift)
        if not full.value:
            continue
        if srv.decide(full, slot) == "shift":
            _shift(srv, slot, slot.n_keep, task.request.n_discard)
            continue
        srv.fail(slot, NO_SHIFT)
        if slot.state is State.GENERATING:
            srv.leave(slot)


def _shift(srv: Core, slot: Slot, n_keep: int, n_discard: int) -> None:
    plan: Shift = srv.decide(srv.rules.shift(len(slot.tokens), n_keep, n_discard), slot)
    srv.emit(ev.CtxShift(slot.id, slot.id_task, plan.n_keep, plan.n_left, plan.n_discard))
    cut(srv, slot, plan, len(slot.tokens))
    slot.kept, slot.discarded, slot.truncated = plan.n_keep, plan.n_discard, True
