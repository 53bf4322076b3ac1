"""Slot assignment: slot selection for a task, children for several completions, saving of idle slots.

Source: llama.cpp tools/server/server-context.cpp get_available_slot, launch_slot_with_task (3f545be).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Sequence, TypeVar

from cachesim import events as ev
from cachesim.base.errors import ProcessAborted
from cachesim.base.tokens import POS_INF
from cachesim.engines.base import BEFORE_A_SLOT, Answer, Request
from cachesim.engines.llama_cpp import events as llama_ev
from cachesim.engines.llama_cpp.adapters import launch_adapters, saves_first, scales_for
from cachesim.engines.llama_cpp.media import is_admitted
from cachesim.engines.llama_cpp.rules.slot_selection import (
    ANY_SLOT,
    COPIED,
    LAST,
    SELECTED,
    IdlePlan,
    SlotChoice,
    SlotFacts,
)
from cachesim.engines.llama_cpp.server_state import Core
from cachesim.engines.llama_cpp.slot import Slot, State, Task
from cachesim.engines.shared import slot_events as slot_ev
from cachesim.engines.shared.prompt_cache_limits import part


def process_next(srv: Core) -> None:
    """Process the first task of the queue. If the process ends, the task is still in the queue, and ends with it."""
    task = srv.queue.popleft()
    try:
        process_task(srv, task)
    except ProcessAborted:
        srv.queue.appendleft(task)
        raise


def process_task(srv: Core, task: Task) -> None:
    """Launch the task in a slot, or defer it. Some tasks are refused before."""
    if not is_admitted(srv, task):
        srv.emit(slot_ev.Error(f"failed to launch slot with task, id_task = {task.id}"))
        return
    slot = select_slot(srv, task)
    if slot is None or slot.busy:
        defer(srv, task)
        return
    if task.request.n_cmpl > 1 and task.how == COPIED:              # else its children are tasks of their own
        n_children = task.request.n_cmpl - 1
        free = [idle for idle in srv.slots if not idle.busy and idle is not slot]
        if len(free) < n_children:
            defer(srv, task)
            return
        if not launch_children(srv, task, slot, free[:n_children]):      # lowest ids first, whatever they hold
            return
    if not launch_adapters(srv, slot, task):
        srv.emit(slot_ev.Error(f"failed to launch slot with task, id_task = {task.id}"))
        return
    slot.child = task.how == SELECTED and task.parent >= 0
    slot.begin(task, State.WAITING if slot.child else State.STARTED)
    srv.emit(ev.Launch(slot.id, task.id, int(slot.child)))
    link_completions(srv)
    if srv.settings.cache_idle_slots:
        save_idle(srv)


def defer(srv: Core, task: Task) -> None:
    """Keep the task until a slot is released. A task cancelled in the meantime leaves the queue without a log line."""
    if task.request.cancel_at == BEFORE_A_SLOT:
        task.answer.cancelled = task.answer.done = True
    else:
        srv.deferred.append(task)


def select_slot(srv: Core, task: Task) -> Slot | None:
    """Select a slot (rule LC-SLOT-SELECT) and let the prompt cache replace its contents. None = no slot can be
    selected."""
    request = task.request
    prompt = list(task.request.prompt)
    like = srv.rules.slot_like
    facts = [
        fact._replace(usable=_usable(srv, srv.slots[fact.id], fact.lcp)) if fact.lcp else fact for fact in (
            SlotFacts(
                s.id, s.busy, held=len(s.tokens), lcp=0 if s.busy else like(s.tokens, prompt).value, t_last=s.t_last
            )
            for s in srv.slots)
    ]
    decision = srv.rules.slot_select(facts, len(prompt), request.id_slot, srv.settings.sps)
    choice: SlotChoice | None = decision.value
    _log_choice(srv, facts, choice, request)
    if choice is None:
        return None
    slot = srv.slots[choice.slot]
    srv.decide(decision, slot)
    slot.source = "slot"
    lost = saves_first(srv, slot, task)
    if (choice.update or lost) and srv.cache is not None and _uses_prompt_cache(srv, slot, request.kind):
        srv.emit(slot_ev.PcBegin())
        srv.cache.save(slot)
        if not srv.cache.load(slot, prompt, scales_for(srv, task), lost):
            _after_failed_load(srv, slot)
        srv.cache.update()
    return slot


def _check_image(srv: Core, fact: SlotFacts, request: Request) -> None:
    """End the process if a token -1 of the prompt meets an image of a slot whose similarity is asked (rule
    LC-MEDIA-NULL)."""
    end = srv.rules.media.null(srv.slots[fact.id].tokens, request.prompt, fact.lcp)
    if end.value and srv.settings.projector:
        raise ProcessAborted(srv.decide(end, None), "token-at-an-image")


def _usable(srv: Core, slot: Slot, lcp: int) -> int:
    """Return the tokens of a common prefix that the slot's memory, or else its newest checkpoint, can continue from."""
    pos_min, first = srv.memory.pos_min(slot.id), max(0, lcp - max(1, srv.settings.n_swa))
    live = 0 <= pos_min <= first and not srv.settings.exact
    if live or lcp == len(slot.tokens):
        return lcp
    return max((c.n_tokens for c in slot.facts if c.pos_max < lcp), default=0)


def _after_failed_load(srv: Core, slot: Slot) -> None:
    """PC-FAILED: clear the slot whose cells a failed load has emptied, or leave it its token list."""
    failed = srv.rules.load_failed(len(slot.tokens))
    if srv.decide(failed, slot):
        srv.clear(slot)
    else:
        srv.changed(slot, "overwritten", failed.rule)


def _uses_prompt_cache(srv: Core, slot: Slot, kind: str) -> bool:
    """PC-ASK for tasks that use the prompt cache: True if the cache is searched. Recorded if it is not."""
    return srv.holds(srv.rules.task_caches(kind), slot) and srv.holds(srv.rules.pc_ask(len(slot.tokens)), slot)


def _log_choice(srv: Core, facts: Sequence[SlotFacts], choice: SlotChoice | None, request: Request) -> None:
    n_prompt, id_slot = len(request.prompt), request.id_slot
    by = choice.by if choice else ""
    examined = [f for f in facts if f.id == id_slot] if by == "id" else facts
    if choice and by == "id":
        srv.emit(llama_ev.SlotById(choice.slot, srv.slots[choice.slot].id_task, id_slot))
    for fact in examined if srv.settings.sps and by != "name" else ():
        id_task = srv.slots[fact.id].id_task
        if fact.busy:
            srv.emit(llama_ev.SlotSkipBusy(fact.id, id_task))
        elif not fact.held:
            srv.emit(llama_ev.SlotSkipEmpty(fact.id, id_task))
        else:
            _check_image(srv, fact, request)
            f_sim = ev.share(part(fact.lcp, n_prompt)) if n_prompt else 0.0
            srv.emit(llama_ev.SlotSim(fact.id, id_task, f_sim=f_sim, lcp=fact.lcp, n=n_prompt, thold=srv.settings.sps))
    if choice and by == "lcp":
        f_sim, lcp = round(choice.f_sim, srv.rules.share_digits), facts[choice.slot].lcp
        last = srv.slots[choice.slot].last_task
        srv.emit(slot_ev.SlotByLcp(
            choice.slot, last, f_sim=f_sim, thold=srv.settings.sps, f_keep=ev.share(choice.f_keep), lcp=lcp
        ))
    elif choice and by == "lru":
        srv.emit(slot_ev.SlotByLru(choice.slot, srv.slots[choice.slot].last_task))


def save_idle(srv: Core) -> None:
    """Save idle slots to the prompt cache, and clear them with a unified KV cache (rule LC-IDLE-SAVE)."""
    assert srv.cache is not None
    for slot in srv.slots:
        if slot.busy:
            continue
        plan: IdlePlan = srv.decide(srv.rules.idle_save(srv.settings.unified, len(slot.tokens)), slot)
        if plan.say:
            srv.emit(llama_ev.IdleSave(slot.id, None))
        saved = False
        if plan.save:
            saved = srv.cache.save(slot)
        if plan.clear == "before":
            srv.clear(slot)
            srv.cache.update()              # slot_save_and_clear (b9538) updates although nothing was saved
            continue
        if saved:
            srv.cache.update()
        if plan.clear == "after":
            srv.clear(slot)


# Several completions of a prompt: the parent slot evaluates it, the child slots get copies.
#
# Source: llama.cpp tools/server/server-context.cpp launch_slots_with_parent_task, copy_state_to (3f545be).

T = TypeVar("T")
D = TypeVar("D")


def launch_children(srv: Core, task: Task, parent: Slot, slots: Sequence[Slot]) -> bool:
    """Start a child task in each of the slots, where it waits until the prompt is evaluated. Return False if the
    request is refused: then already its first child is."""
    for number, slot in enumerate(slots):
        child = child_task(srv, task, number)
        if not launch_adapters(srv, slot, child):
            srv.emit(slot_ev.Error(f"failed to launch slot with child task, id_task = {child.id}"))
            srv.emit(slot_ev.Error(f"failed to launch slot with parent task, id_task = {task.id}"))
            task.answer.fails(400, child.answer.error, child.answer.error_kind)
            task.answer.done = True
            return False
        slot.begin(child, State.WAITING)
        slot.child = True
        srv.emit(ev.Launch(slot.id, slot.id_task, 1))
    parent.children = [slot.id for slot in slots]
    return True


def child_task(srv: Core, task: Task, number: int) -> Task:
    """Return the task of a further completion, whose answer is added to that of its parent."""
    request = task.request
    forced = _nth(request.children_forced, number, None)
    prompt = _nth(request.others, number, request.prompt)
    answer = Answer(task.answer.request)
    task.answer.children.append(answer)
    child_request = replace(
        request, prompt=prompt, others=(), shared=0, forced=forced, n_cmpl=1, cancel_at=None,
        drafts=_nth(request.children_drafts, number, request.drafts), id_slot=ANY_SLOT,
    )
    return Task(srv.next_tick(), child_request, answer, task.id)


def _nth(given: Sequence[T], number: int, otherwise: D) -> T | D:
    return given[number] if number < len(given) else otherwise


def tasks_of_completions(srv: Core, task: Task) -> list[Task]:
    """Return a task and the tasks of its further completions in their order in the queue.

    Source: llama.cpp tools/server/server-context.cpp handle_completions_impl "create_child" (0759b09c9)."""
    if task.how == LAST:
        return _with_last_answer(srv, task)
    children = _further_tasks(srv, task)
    return [task, *children] if task.how == SELECTED else [*children, task]


def _further_tasks(srv: Core, task: Task) -> list[Task]:
    return [replace(child_task(srv, task, number), how=task.how) for number in range(task.request.n_cmpl - 1)]


def _with_last_answer(srv: Core, task: Task) -> list[Task]:
    """Return the tasks of a request whose own task gives the last of its answers: the first further completion gives
    the first one."""
    children = _further_tasks(srv, task)
    queue, answers = [*children, task], [task, *children]
    return [_with_answer(queued, source) for queued, source in zip(queue, answers, strict=True)]


def _with_answer(task: Task, source: Task) -> Task:
    """Return a task that gives the answer of another one, ``source``."""
    request = replace(task.request, forced=source.request.forced, drafts=source.request.drafts)
    return replace(task, request=request, answer=source.answer)


def link_completions(srv: Core) -> None:
    """Note in each slot the slots that wait for its prompt, where the further completions are tasks of their own."""
    waiting = [slot for slot in srv.slots if slot.state is State.WAITING and slot.task is not None]
    for parent in srv.slots:
        if parent.task is not None and parent.task.how == SELECTED and parent.task.parent < 0:
            parent.children = [slot.id for slot in waiting if slot.task and slot.task.parent == parent.task.id]


def waits_for_completions(slot: Slot, task: Task) -> bool:
    """True if a slot does not begin with its prompt, because some further completions have no slot yet.

    Source: llama.cpp tools/server/server-context.cpp update_slots "n_launched" (b7710)."""
    return task.how == SELECTED and task.parent < 0 and len(slot.children) < task.request.n_cmpl - 1


def drop_orphaned_tasks(srv: Core) -> None:
    """Drop the deferred further completions whose request has ended: the server's result reader cancels them.

    Source: llama.cpp tools/server/server-queue.cpp cleanup_pending_task (b7710)."""
    if not srv.deferred:
        return
    alive = {task.id for task in (*srv.queue, *srv.deferred, *(slot.task for slot in srv.slots if slot.task))}
    for task in [task for task in srv.deferred if task.how == SELECTED and task.parent >= 0]:
        if task.parent not in alive:
            srv.deferred.remove(task)
            task.answer.cancelled = task.answer.done = True


def orphaned_children(srv: Core) -> list[Slot]:
    """Return the children whose parent was cancelled or failed. The server's result reader then cancels every task of
    the request, the parent's first.

    Source: llama.cpp tools/server/server-queue.cpp server_response_reader::next, stop (3f545be)."""
    waiting = [slot for slot in srv.slots if slot.state is State.WAITING]
    if not waiting:
        return []
    awaited = {number for slot in srv.slots for number in slot.children}
    pending = {task.id for task in (*srv.queue, *srv.deferred)}
    return [slot for slot in waiting if slot.id not in awaited and slot.task and slot.task.parent not in pending]


def activate_children(srv: Core, stop: int) -> None:
    """After a view of the batch up to index ``stop``: copy each parent whose prompt is complete to its children."""
    for parent in srv.slots:
        if parent.state is not State.DONE_PROMPT or not parent.children:
            continue
        copied = srv.rules.children_at(parent.i_batch, stop)
        if parent.i_batch >= stop:
            srv.decide(copied, parent)
        if not copied.value:
            continue
        for child in [srv.slots[number] for number in parent.children]:
            assert parent.task is not None and child.task is not None
            srv.emit(llama_ev.CopyToChild(parent.id, parent.id_task, child.id))
            srv.common_memory.must_rm(child.id, 0, POS_INF)
            srv.common_memory.seq_cp(parent.id, child.id)
            child.tokens, child.checkpoints = list(parent.tokens), list(parent.checkpoints)
            child.active = parent.active
            child.state, child.i_batch = State.DONE_PROMPT, parent.i_batch
            answer, source = child.task.answer, parent.task.answer
            answer.reused = source.reused
            answer.prompt_n = _reported_by_children(srv, parent, source.prompt_n, stop)
            answer.deciding = source.deciding
            answer.copied_n = answer.prompt_n
            srv.changed(child, "overwritten", "")
        parent.children = []


def _reported_by_children(srv: Core, parent: Slot, evaluated: int, stop: int) -> int:
    """Return the evaluated tokens that a completion reports whose parent's prompt is copied at index ``stop`` of the
    batch, after ``evaluated`` of its tokens."""
    first, last = parent.prompt_span
    left = max(0, last - max(first, stop))
    count = srv.rules.children_count(evaluated, evaluated + left)
    reported: int = srv.decide(count, parent) if left else count.value
    return reported


def share_prompt(srv: Core, parent: Slot, task: Task) -> bool:
    """Copy the shared prefix to children with prompts of their own, once the parent holds exactly this prefix. Return
    True while the children still wait for it.

    Source: llama.cpp tools/server/server-context.cpp pre_decode "wait_shared", copy_prompt_to (b11549)."""
    if not task.request.shared or not parent.children:
        return False
    if len(parent.tokens) != task.request.shared:
        return True
    for number in parent.children:
        child = srv.slots[number]
        srv.emit(llama_ev.CopyShared(parent.id, task.id, len(parent.tokens), number))
        srv.common_memory.must_rm(number, 0, POS_INF)
        srv.common_memory.seq_cp(parent.id, number)
        child.tokens, child.checkpoints = list(parent.tokens), list(parent.checkpoints)
        child.active = parent.active
        child.state, child.source = State.STARTED, "slot"
        srv.changed(child, "overwritten", "")
    parent.children = []
    return False
