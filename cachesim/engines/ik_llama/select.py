"""Which slot does a task get, and what does the prompt cache put into it?

Source: ik_llama.cpp examples/server/server-context.cpp get_available_slot, launch_slot_with_task (8337e4cd3); spec
3.2, 4.
"""

from __future__ import annotations

from cachesim import events as ev
from cachesim.engines.ik_llama.core import Core
from cachesim.engines.ik_llama.prompt_cache import Compare
from cachesim.engines.ik_llama.rules.choice import Choice, SlotFacts
from cachesim.engines.ik_llama.slot import Slot, Task
from cachesim.engines.shared.stored import part


def process(srv: Core, task: Task) -> None:
    """Give the task a slot, or defer it."""
    slot = available(srv, task)
    if slot is None:
        srv.deferred.append(task)
        return
    slot.begin(task, srv.rules.last_checkpoint)
    on = srv.rules.ckpt_on(srv.settings.max_checkpoints, bool(srv.kind.states), srv.kind.private)
    slot.marks = srv.decide(on, slot)
    srv.emit(ev.Launch(slot.id, task.id, 0))


def available(srv: Core, task: Task) -> Slot | None:
    """Choose a slot, and let the prompt cache save and replace what it holds. A slot that was asked for by name is
    taken as it is."""
    compare = Compare(srv.pieces, srv.settings.marks)
    decision = srv.rules.slot_select(
        [_facts(slot, task.prompt, compare) for slot in srv.slots], task.request.id_slot, srv.settings.sps
    )
    choice: Choice | None = decision.value
    if choice is None:
        return None
    slot = srv.slots[choice.slot]
    srv.decide(decision, slot)
    slot.loaded = False
    if choice.by == "lcp":
        lcp = compare.facts(slot.tokens, task.prompt).n_prompt
        srv.emit(ev.SlotByLcp(slot.id, slot.id_task, choice.f_sim, srv.settings.sps, 0.0, lcp))
    elif choice.by == "lru":
        srv.emit(ev.SlotByLru(slot.id, slot.id_task))
    if choice.by != "name":
        _exchange(srv, slot, task, compare)
    return slot


def _facts(slot: Slot, prompt: list[int], compare: Compare) -> SlotFacts:
    if slot.busy:
        return SlotFacts(slot.id, True, 0, 0, 0, slot.t_last)
    found = compare.facts(slot.tokens, prompt)
    return SlotFacts(slot.id, False, found.n_tokens, found.asked, found.n_prompt, slot.t_last)


def _exchange(srv: Core, slot: Slot, task: Task, compare: Compare) -> None:
    """Save the slot's conversation if little of it is kept; load a better one if there is any."""
    one, mine = srv.settings, compare.facts(slot.tokens, task.prompt, slot.kept, slot.discarded)
    f_keep = float(part(mine.n_cache, mine.n_tokens)) if mine.n_tokens else 0.0
    srv.emit(ev.PcInfo(len(slot.tokens), slot.kept, slot.discarded, one.n_min, round(f_keep, 2), one.least_keep))
    if srv.cache is None:
        return
    save = srv.decide(srv.rules.pc_save(f_keep, mine.n_tokens, one.least_keep, one.n_min), slot)
    if save:
        srv.cache.save(slot, compare)
    if srv.cache.entries:
        srv.cache.load(slot, task.prompt, compare, one.least_keep)
        srv.cache.update()
