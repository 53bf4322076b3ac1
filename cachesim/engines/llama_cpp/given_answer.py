"""Generation of a given answer: the rounds in which a single slot only takes the next forced token, done at once.

Each of these rounds defers the evaluation of its token, fills an empty cell and decides that the answer continues.
Their events, and the state after them, are those of the rounds one by one.
"""

from __future__ import annotations

from typing import Sequence

from cachesim import events as ev
from cachesim.base.keyed_tokens import identities
from cachesim.engines.llama_cpp.server_state import Core
from cachesim.engines.llama_cpp.slot import Slot, State, Task
from cachesim.engines.rule import Decision
from cachesim.engines.shared.batch import single_token
from cachesim.engines.shared.evaluation_cost import cost_of


def generate_given(srv: Core) -> int:
    """Do the rounds that only take the next forced token of the only busy slot. Return their number."""
    slot = _lone_slot(srv)
    if slot is None or slot.task is None:
        return 0
    endings = _endings(srv, slot, slot.task)
    if endings:
        _take(srv, slot, slot.task, endings)
    return len(endings)


def _lone_slot(srv: Core) -> Slot | None:
    """Return the only busy slot if its last round deferred its token and the next round can do nothing but generate a
    token, else None."""
    if not srv.context.n_deferred or srv.queue or srv.log.listens_to(ev.Advanced):
        return None
    settings = srv.settings
    if settings.context_shift or settings.drafts or srv.adapters or srv.has_media_positions:
        return None
    busy = [slot for slot in srv.slots if slot.busy]
    task = busy[0].task
    if len(busy) > 1 or task is None or busy[0].state is not State.GENERATING:
        return None
    may_end_otherwise = task.request.stop or task.request.cancel_at is not None
    return None if may_end_otherwise else busy[0]


def _endings(srv: Core, slot: Slot, task: Task) -> Sequence[Decision]:
    """Return the decisions after the next forced tokens, as far as the answer continues and the tokens find room."""
    held = len(slot.tokens)
    n_ctx = srv.settings.n_ctx_slot
    forced = srv.sampler.given_tokens(task.request, slot.n_gen)
    room = max(0, min(srv.context.deferrable(held, slot.id), n_ctx - 1 - held))
    found = list[Decision]()
    for number, token in enumerate(forced[:room], 1):
        ending = srv.rules.end(
            slot.n_gen + number, task.request.n_predict, held + number, n_ctx, False, "", (), token in task.request.eog
        )
        if any(ending.value):
            break
        found.append(ending)
    return found


def _take(srv: Core, slot: Slot, task: Task, endings: Sequence[Decision]) -> None:
    """Evaluate and log a token of the slot in each round, and append the token that is then sampled to the answer."""
    forced = srv.sampler.given_tokens(task.request, slot.n_gen)[: len(endings)]
    evaluated = [slot.sampled, *forced[:-1]]
    for pos, ending in enumerate(endings, len(slot.tokens)):
        srv.next_tick()
        srv.log.spend(*cost_of(srv.context.model, 1, srv.settings.n_ubatch, pos))
        srv.emit(single_token(srv.context.name, slot.id, pos))
        srv.decide(ending, slot)
    srv.defer_more(slot, task, identities(evaluated))
    slot.tokens += evaluated
    slot.sampled = forced[-1]
    slot.n_gen += len(forced)
    task.answer.tokens += forced
