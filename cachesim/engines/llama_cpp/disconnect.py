"""A client that has gone: every task of its request is cancelled between two rounds; what was evaluated stays.

The cancellations are put before the queue all at once, and a task that was waiting for the slot of the first comes
before the second.
Source: llama.cpp tools/server/server-queue.cpp server_response_reader stop, pop_deferred_task, server-context.cpp
SERVER_TASK_TYPE_CANCEL (3f545be).
"""

from __future__ import annotations

from cachesim import events as ev
from cachesim.engines.llama_cpp.parallel_completions import left_waiting
from cachesim.engines.llama_cpp.server_state import Core
from cachesim.engines.llama_cpp.slot import Slot, State, Task
from cachesim.engines.llama_cpp.slot_assignment import process


def leaving(srv: Core) -> list[Slot]:
    """Slots whose clients hang up before the next round, in that order: they hold as many tokens as the request says,
    or more."""
    due = [(slot.task.request.cancel_place, slot.id) for slot in srv.slots if slot.task and _is_due(slot, slot.task)]
    return [srv.slots[number] for _, number in sorted(due)] if due else []


def _is_due(slot: Slot, task: Task) -> bool:
    at = task.request.cancel_at
    if at is None or len(slot.tokens) < at:
        return False
    if slot.state in (State.STARTED, State.WAITING):        # they hold another text still
        return False
    return slot.replay or all(draft.at != len(slot.tokens) for draft in task.request.drafts)


def hang_up(srv: Core) -> None:
    """Cancel the requests whose clients have gone, with all their completions."""
    for slot in leaving(srv):
        task = slot.task
        for member in _members(srv, slot, task) if task is not None else ():
            _cancel(srv, member)
    for slot in left_waiting(srv):
        _cancel(srv, slot)


def _members(srv: Core, parent: Slot, task: Task) -> list[Slot]:
    """The slots of all completions of a request, in the order in which they are cancelled: as the request says, where
    it says nothing the parent first. The server goes through a hash table of task ids."""
    found = [parent, *(s for s in srv.slots if s.task is not None and s.task.parent == task.id)]
    order = task.request.cancel_order
    return sorted(found, key=lambda slot: order.index(slot.id) if slot.id in order else len(order))


def _cancel(srv: Core, slot: Slot) -> None:
    srv.emit(ev.Cancel())
    waiting = len(srv.queue)
    if slot.task is not None:
        slot.task.answer.cancelled = True
        srv.release(slot)
    if len(srv.queue) > waiting:                # one that had been deferred
        process(srv, srv.queue.popleft())
