"""Context shift: a full slot discards part of its past; a prompt longer than the context loses its middle.

Source: ik_llama.cpp examples/server/server-context.cpp context_shift, context_shift_prompt (8337e4cd3).
"""

from __future__ import annotations

from typing import TypeVar

from cachesim.base.errors import ProcessAborted
from cachesim.engines.base import NO_ROOM
from cachesim.engines.ik_llama.events import PromptTruncated
from cachesim.engines.ik_llama.media import check_cut
from cachesim.engines.ik_llama.rules.common_prefix import common, discarded
from cachesim.engines.ik_llama.rules.context_shift import CacheShift, PromptShift, Shift
from cachesim.engines.ik_llama.server_state import Core
from cachesim.engines.ik_llama.slot import Slot, State, Task
from cachesim.engines.rule import Decision
from cachesim.engines.shared import slot_events as slot_ev

P = TypeVar("P", Shift, PromptShift)

NO_SHIFT = "context_length_exceeded: the request exceeds the available context size; context shift is disabled"
NO_FIT = "GGML_ASSERT(slot.n_prompt_tokens < slot.n_ctx) failed"


def shift_full_slots(srv: Core) -> None:
    """Shift every slot without room for its next token, or report an error to its client. A slot whose prompt is still
    being evaluated continues after the error."""
    for slot in srv.slots:
        task = slot.task
        if task is None or slot.state is State.LEAVING or not task.has_begun:
            continue
        full = srv.rules.full(len(slot.tokens), srv.settings.n_ctx_slot, srv.settings.context_shift)
        if not full.value:
            continue
        if srv.decide(full, slot) == "shift":
            _shift(srv, slot, task)
            continue
        srv.fail(slot, NO_SHIFT, NO_ROOM)
        if slot.state is State.GENERATING:
            srv.leave(slot)


def _shift(srv: Core, slot: Slot, task: Task) -> None:
    n_past = len(slot.tokens)
    n_ctx, n_discard = srv.settings.n_ctx_slot, task.request.n_discard
    decision = srv.rules.shift(n_past, len(task.prompt), slot.n_keep, n_discard, n_ctx)
    plan: Shift | None = srv.decide(decision, slot)
    if plan is None:
        return
    if srv.settings.projector:
        plan = _decided(srv, slot, srv.rules.media.shift(slot.tokens, plan), plan)
    there = _in_cache(srv, slot, task, plan.n_keep, plan.n_discard)
    srv.emit(slot_ev.CtxShift(slot.id, slot.id_task, plan.n_keep, plan.n_left, plan.n_discard))
    slot.kept = plan.n_keep
    slot.discarded += plan.n_discard
    slot.truncated = True
    _cut(srv, slot, task, there, n_past, decision.rule)
    slot.uncounted = len(slot.tokens) - (n_past - there.n_discard)
    task.answer.shifts.append((n_past, there.n_keep, min(there.n_discard, n_past - there.n_keep)))


def shorten_prompt(srv: Core, slot: Slot, task: Task) -> None:
    """Remove the middle of a prompt longer than the context, and a block of the slot's tokens. The rows after the
    block keep their positions, because the server moves only rows before its past count, which is still 0. Raise
    ProcessAborted if the prompt does not fit even then."""
    n_ctx = srv.settings.n_ctx_slot
    decision = srv.rules.prompt_shift(len(task.prompt), slot.n_keep, task.request.n_discard, n_ctx)
    plan: PromptShift | None = srv.decide(decision, slot)
    slot.truncated = True
    if plan is not None:
        if srv.settings.projector:
            plan = _decided(srv, slot, srv.rules.media.prompt_shift(task.prompt, plan, n_ctx), plan)
        there = _in_cache(srv, slot, task, plan.n_keep, n_discard=plan.block)
        gone = min(there.n_discard, max(0, len(slot.tokens) - there.n_keep))
        gone = srv.decide(srv.rules.prompt_cut(gone), slot)
        if gone > 0:
            _cut(srv, slot, task, there=CacheShift(there.n_keep, gone), n_past=0, rule=decision.rule)
        slot.kept, slot.discarded = plan.n_keep, plan.n_discard
        task.prompt = discarded(task.prompt, plan.n_keep, plan.n_discard)
        task.answer.prompt = tuple(task.prompt)
    srv.emit(PromptTruncated(
        slot.id, task.id, n_keep=slot.n_keep, n_left=n_ctx - slot.n_keep, n_tokens=len(task.prompt)
    ))
    if len(task.prompt) >= n_ctx:
        raise ProcessAborted(NO_FIT, "prompt-longer-than-the-context")


def _decided(srv: Core, slot: Slot, decision: Decision, plan: P) -> P:
    """Return the plan of a decision about images, which is logged if it changes the plan."""
    if decision.value != plan:
        srv.decide(decision, slot)
    changed: P = decision.value
    return changed


def _in_cache(srv: Core, slot: Slot, task: Task, n_keep: int, n_discard: int) -> CacheShift:
    """Return the range of the slot's tokens that corresponds to the discarded part of the prompt."""
    for n in (n_keep, n_keep + n_discard):
        check_cut(srv, slot, task.prompt, n)
    keep = common(slot.tokens, task.prompt[:n_keep], srv.pieces, strict=False)
    total = common(slot.tokens, task.prompt[: n_keep + n_discard], srv.pieces, strict=False)
    there: CacheShift = srv.decide(srv.rules.shift_find(keep, total, n_keep, n_discard), slot)
    return there


def _cut(srv: Core, slot: Slot, task: Task, there: CacheShift, n_past: int, rule: str) -> None:
    """Remove positions from both contexts and move the positions after them, up to n_past, down. If the rules say so,
    remove them from the slot's tokens, too."""
    n_keep, n_discard = there
    stop = n_keep + n_discard
    for kv in [srv.memory, *([srv.companion.kv] if srv.companion else [])]:
        kv.seq_rm(slot.id, n_keep, stop)
        kv.seq_add(slot.id, stop, n_past, -n_discard)
    if srv.decide(srv.rules.shift_list(task.request.cache_prompt), slot):
        slot.tokens[:] = discarded(slot.tokens, n_keep, n_discard)
    srv.changed(slot, "truncated", rule)
