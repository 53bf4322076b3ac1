"""Several completions of one prompt: the parent evaluates it, the children get copies.

Source: llama.cpp tools/server/server-context.cpp launch_slots_with_parent_task, copy_state_to (3f545be).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Sequence, TypeVar

from cachesim import events as ev
from cachesim.base.tokens import POS_INF
from cachesim.engines.base import Answer
from cachesim.engines.llama_cpp.server_state import Core
from cachesim.engines.llama_cpp.slot import Slot, State, Task

T = TypeVar("T")
D = TypeVar("D")


def take_slots(srv: Core, parent: Slot, n_cmpl: int) -> list[Slot] | None:
    """The first idle slots by id for the children, whatever they hold; None = too few."""
    free = [slot for slot in srv.slots if not slot.busy and slot is not parent]
    return free[: n_cmpl - 1] if len(free) >= n_cmpl - 1 else None


def launch_children(srv: Core, parent: Slot, task: Task, slots: list[Slot]) -> None:
    """Each child waits in its slot until the prompt is done."""
    request = task.request
    for number, slot in enumerate(slots):
        forced = _nth(request.children_forced, number, None)
        prompt = _nth(request.others, number, request.prompt)
        answer = Answer(task.answer.request)
        task.answer.children.append(answer)
        mine = replace(
            request, prompt=prompt, others=(), shared=0, forced=forced, n_cmpl=1, cancel_at=None,
            drafts=_nth(request.children_drafts, number, request.drafts),
        )
        slot.begin(Task(srv.next_tick(), mine, answer, task.id), State.WAITING)
        slot.child = True
        srv.emit(ev.Launch(slot.id, slot.id_task, 1))
    parent.children = [slot.id for slot in slots]


def _nth(given: Sequence[T], number: int, otherwise: D) -> T | D:
    return given[number] if number < len(given) else otherwise


def left_waiting(srv: Core) -> list[Slot]:
    """Children that wait for a parent that is gone: its client hung up, or got an error. The server's reader of results
    cancels every task of the request then, the parent's first.

    Source: llama.cpp tools/server/server-queue.cpp server_response_reader::next, stop (3f545be)."""
    waiting = [slot for slot in srv.slots if slot.state is State.WAITING]
    if not waiting:
        return []
    awaited = {number for slot in srv.slots for number in slot.children}
    return [slot for slot in waiting if slot.id not in awaited]


def activate_children(srv: Core) -> None:
    """After a successful view: children whose parent's prompt is complete (as far as the batch goes) become copies."""
    for parent in srv.slots:
        if parent.state is not State.DONE_PROMPT or not parent.children:
            continue
        for number in parent.children:
            _copy(srv, parent, srv.slots[number])
        parent.children = []


def _copy(srv: Core, parent: Slot, child: Slot) -> None:
    assert parent.task is not None and child.task is not None
    srv.emit(ev.CopyToChild(parent.id, parent.id_task, child.id))
    srv.both.must_rm(child.id, 0, POS_INF)
    srv.both.seq_cp(parent.id, child.id)
    child.tokens, child.checkpoints = list(parent.tokens), list(parent.checkpoints)
    child.state, child.at = State.DONE_PROMPT, parent.at
    mine, theirs = child.task.answer, parent.task.answer
    mine.reused, mine.prompt_n, mine.deciding = theirs.reused, theirs.prompt_n, theirs.deciding
    srv.changed(child, "overwritten", "")


def share_prompt(srv: Core, parent: Slot, task: Task) -> bool:
    """Children with prompts of their own go on from the prefix that all share, as soon as the parent holds just that.
    Returns whether they still wait for it.

    Source: llama.cpp tools/server/server-context.cpp pre_decode "wait_shared", copy_prompt_to (b11549)."""
    if not task.request.shared or not parent.children:
        return False
    if len(parent.tokens) != task.request.shared:
        return True
    for number in parent.children:
        child = srv.slots[number]
        srv.emit(ev.CopyShared(parent.id, task.id, len(parent.tokens), number))
        srv.both.must_rm(number, 0, POS_INF)
        srv.both.seq_cp(parent.id, number)
        child.tokens, child.checkpoints = list(parent.tokens), list(parent.checkpoints)
        child.state, child.source = State.STARTED, "slot"
        srv.changed(child, "overwritten", "")
    parent.children = []
    return False
