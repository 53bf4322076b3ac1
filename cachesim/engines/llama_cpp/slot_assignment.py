"""Which slot does a task get, and what becomes of the idle ones?

Source: llama.cpp tools/server/server-context.cpp get_available_slot, launch_slot_with_task (3f545be).
"""

from __future__ import annotations

from typing import Sequence

from cachesim import events as ev
from cachesim.base.tokens import common_prefix
from cachesim.engines.base import BEFORE_A_SLOT
from cachesim.engines.llama_cpp.parallel_completions import launch_children, take_slots
from cachesim.engines.llama_cpp.rules.slot_selection import Choice, IdlePlan, SlotFacts
from cachesim.engines.llama_cpp.server_state import Core
from cachesim.engines.llama_cpp.slot import Slot, State, Task
from cachesim.engines.shared.prompt_cache_limits import part


def process(srv: Core, task: Task) -> None:
    """Give the task a slot, or defer it."""
    slot = available(srv, task)
    if slot is None or slot.busy:
        defer(srv, task)
        return
    if task.request.n_cmpl > 1:
        children = take_slots(srv, slot, task.request.n_cmpl)
        if children is None:
            defer(srv, task)
            return
        launch_children(srv, slot, task, children)
    slot.begin(task, State.STARTED)
    srv.emit(ev.Launch(slot.id, task.id, 0))
    if srv.settings.cache_idle_slots:
        save_idle(srv)


def defer(srv: Core, task: Task) -> None:
    """The task waits until a slot is released. One whose client hangs up meanwhile leaves the queue without a word."""
    if task.request.cancel_at == BEFORE_A_SLOT:
        task.answer.cancelled = task.answer.done = True
    else:
        srv.deferred.append(task)


def available(srv: Core, task: Task) -> Slot | None:
    """SLOT-SELECT: choose a slot, and let the prompt cache replace what it holds."""
    request, prompt = task.request, list(task.request.prompt)
    facts = [
        SlotFacts(s.id, s.busy, len(s.tokens), 0 if s.busy else common_prefix(s.tokens, prompt), s.t_last)
        for s in srv.slots
    ]
    decision = srv.rules.slot_select(facts, len(prompt), request.id_slot, srv.settings.sps)
    choice: Choice | None = decision.value
    _tell_choice(srv, facts, choice, len(prompt), request.id_slot)
    if choice is None:
        return None
    slot = srv.slots[choice.slot]
    srv.decide(decision, slot)
    slot.source = "slot"
    if choice.update and srv.cache is not None and _is_asked(srv, slot, request.kind):
        srv.emit(ev.PcBegin())
        srv.cache.save(slot)
        if not srv.cache.load(slot, prompt):
            srv.clear(slot)
        srv.cache.update()
    return slot


def _is_asked(srv: Core, slot: Slot, kind: str) -> bool:
    """PC-ASK, for tasks that ask at all. Written down where it says no."""
    asks = (srv.rules.task_caches(kind), srv.rules.pc_ask(len(slot.tokens)))
    return all(ask.value or srv.decide(ask, slot) for ask in asks)


def _tell_choice(srv: Core, facts: Sequence[SlotFacts], choice: Choice | None, asked: int, id_slot: int) -> None:
    by = choice.by if choice else ""
    looked = [f for f in facts if f.id == id_slot] if by == "id" else facts
    if choice and by == "id":
        srv.emit(ev.SlotById(choice.slot, srv.slots[choice.slot].id_task, id_slot))
    for fact in looked if srv.settings.sps and by != "name" else ():
        id_task = srv.slots[fact.id].id_task
        if fact.busy:
            srv.emit(ev.SlotSkipBusy(fact.id, id_task))
        elif not fact.held:
            srv.emit(ev.SlotSkipEmpty(fact.id, id_task))
        else:
            f_sim = ev.share(part(fact.lcp, asked)) if asked else 0.0
            srv.emit(ev.SlotSim(fact.id, id_task, f_sim, fact.lcp, asked, srv.settings.sps))
    if choice and by == "lcp":
        f_sim, lcp = round(choice.f_sim, srv.rules.share_digits), facts[choice.slot].lcp
        last = srv.slots[choice.slot].last_task
        srv.emit(ev.SlotByLcp(choice.slot, last, f_sim, srv.settings.sps, ev.share(choice.f_keep), lcp))
    elif choice and by == "lru":
        srv.emit(ev.SlotByLru(choice.slot, srv.slots[choice.slot].last_task))


def save_idle(srv: Core) -> None:
    """IDLE-SAVE: idle slots go to the prompt cache, and with a unified cache they are emptied."""
    assert srv.cache is not None
    for slot in srv.slots:
        if slot.busy:
            continue
        plan: IdlePlan = srv.decide(srv.rules.idle_save(srv.settings.unified, len(slot.tokens)), slot)
        if plan.say:
            srv.emit(ev.IdleSave(slot.id, None))
        saved = plan.save and srv.cache.save(slot)
        if plan.clear == "before":
            srv.clear(slot)
        if saved:
            srv.cache.update()
        if plan.clear == "after":
            srv.clear(slot)
