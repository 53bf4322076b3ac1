"""Assignment of tasks to slots, with the exchange of conversations with the prompt cache.

Source: ik_llama.cpp examples/server/server-context.cpp get_available_slot, launch_slot_with_task (8337e4cd3).
"""

from __future__ import annotations

from cachesim import events as ev
from cachesim.base.errors import ProcessAborted
from cachesim.base.tokens import common_prefix
from cachesim.engines.ik_llama.events import PcInfo
from cachesim.engines.ik_llama.prompt_cache import PromptComparison
from cachesim.engines.ik_llama.rules.carried_over import ClearedObjects
from cachesim.engines.ik_llama.rules.common_prefix import without_reasoning
from cachesim.engines.ik_llama.rules.slot_selection import ComparedTexts, SlotChoice, SlotFacts
from cachesim.engines.ik_llama.server_state import Core
from cachesim.engines.ik_llama.slot import Slot, Task
from cachesim.engines.shared import slot_events as slot_ev
from cachesim.engines.shared.batch import DecodeBatch
from cachesim.engines.shared.prompt_cache_limits import part


def assign_slot(srv: Core, task: Task) -> None:
    """Assign a slot to the task, or defer the task."""
    slot = select_slot(srv, task)
    if slot is None:
        srv.deferred.append(task)
        return
    if task.system is not None:
        _set_system_prompt(srv, slot, task, task.system)
    if srv.system:
        task.answer.prompt = (*srv.system, *task.prompt)
    slot.begin(task, srv.rules.last_checkpoint)
    parser = srv.rules.parser(task.parses, slot.parser)
    if parser.value or slot.parser:
        srv.decide(parser, slot)
    slot.parser = parser.value
    on = srv.rules.ckpt_on(srv.settings.max_checkpoints, bool(srv.kind.states), srv.kind.private)
    slot.marks = srv.decide(on, slot)
    slot.n_keep = srv.decide(srv.rules.keep(task.request.n_keep, slot.n_keep), slot)
    srv.emit(ev.Launch(slot.id, task.id, 0))


def _set_system_prompt(srv: Core, slot: Slot, task: Task, tokens: list[int]) -> None:
    """Clear the memory and evaluate another system prompt. The rules decide what is cleared besides the memory."""
    decision = srv.rules.system(len(tokens))
    cleared: ClearedObjects = srv.decide(decision, slot)
    srv.memory.clear()
    if cleared.companion and srv.companion is not None:
        srv.companion.kv.clear()
    if cleared.slots:
        slot.tokens.clear()
        slot.checkpoints.clear()
    if cleared.entries and srv.cache is not None:
        srv.cache.clear(decision.rule)
    srv.system = tokens
    batch = DecodeBatch()
    batch.extend(tokens, 0, slot.id)
    if tokens:
        srv.context.decode(batch)
    task.answer.prompt_n += len(tokens)
    srv.changed(slot, "cleared", decision.rule)


def select_slot(srv: Core, task: Task) -> Slot | None:
    """Select a slot; the prompt cache saves and replaces its content. A slot requested by id is used unchanged. None =
    no slot is available."""
    how: ComparedTexts = srv.rules.compare(0, 0).value
    marks = srv.settings.marks if how.without_reasoning else None
    compare = PromptComparison(srv.pieces, marks, task.prompt, how.text)
    facts, sps = [_facts(srv, slot, compare) for slot in srv.slots], srv.settings.flags.slot_prompt_similarity
    decision = srv.rules.slot_select(facts, task.request.id_slot, sps)
    choice: SlotChoice | None = decision.value
    if choice is None:
        return None
    slot = srv.slots[choice.slot]
    for other in srv.slots:
        left = len(without_reasoning(other.tokens, srv.settings.marks, srv.pieces))
        if left < len(other.tokens):
            srv.decide(srv.rules.compare(len(other.tokens), left), other)
    srv.decide(decision, slot)
    slot.source = "slot"
    if choice.by == "lcp":
        lcp = compare.facts(slot.tokens, n_keep=0, n_discard=0).n_cache
        srv.emit(slot_ev.SlotByLcp(slot.id, slot.id_task, f_sim=choice.f_sim, thold=sps, f_keep=0.0, lcp=lcp))
    elif choice.by == "lru":
        srv.emit(slot_ev.SlotByLru(slot.id, slot.id_task))
    if choice.by != "name":
        _exchange(srv, slot, task, compare)
    return slot


def _facts(srv: Core, slot: Slot, compare: PromptComparison) -> SlotFacts:
    if slot.busy:
        return SlotFacts(slot.id, True, held=0, asked=0, n_prompt=0, t_last=slot.t_last)
    found = compare.facts(slot.tokens, slot.kept, slot.discarded)
    too = srv.rules.shifted(slot.discarded, found.asked, srv.settings.n_ctx_slot).value
    shifted = found.shifted if too else None
    last = () if compare.text else slot.last_prompt.tokens
    lcp = common_prefix(list(last), list(compare.prompt))
    return SlotFacts(
        slot.id,
        False,
        held=found.n_tokens,
        asked=found.asked,
        n_prompt=found.n_prompt,
        t_last=slot.t_last,
        shifted=shifted,
        last_prompt=len(last),
        last_common=lcp,
    )


def _f_keep(srv: Core, slot: Slot, compare: PromptComparison) -> tuple[float, int]:
    """Return the share of the slot's tokens that the prompt keeps, and the number of these tokens, both without
    reasoning. A shifted slot is compared with the shifted prompt alone; the kept prefix has the length that the slot's
    last request stated, not its actual length."""
    facts = compare.facts(slot.tokens, max(0, slot.n_keep), slot.discarded)
    if not facts.n_tokens:
        return 0.0, 0
    n_cache = facts.n_cache
    if srv.decide(srv.rules.shifted(slot.discarded, facts.asked, srv.settings.n_ctx_slot), slot):
        if slot.n_keep < 0:
            raise ProcessAborted("GGML_ASSERT(n_keep >= 0 && n_discard >= 0) failed", "negative-n-keep")
        assert facts.shifted is not None
        n_cache = facts.shifted.n_cache
    return float(part(n_cache, facts.n_tokens)), facts.n_tokens


def _exchange(srv: Core, slot: Slot, task: Task, compare: PromptComparison) -> None:
    """Save the slot's conversation if the prompt keeps little of it; then load a better entry, if any."""
    n_min, least_keep = srv.settings.flags.cache_ram_n_min, srv.settings.flags.cache_ram_similarity
    f_keep, held = _f_keep(srv, slot, compare)
    srv.emit(PcInfo(
        len(slot.tokens), slot.kept, n_discarded=slot.discarded, n_min=n_min, f_keep=round(f_keep, 2), thold=least_keep
    ))
    if srv.cache is None:
        return
    if srv.decide(srv.rules.pc_save(f_keep, held, least_keep, n_min), slot):
        srv.cache.save(slot, compare, srv.system)
    if srv.cache.entries:
        srv.cache.load(slot, compare, least_keep)
        srv.cache.update()
