"""llama-server: tasks come in, slots are chosen, one shared batch is filled and decoded per iteration.

The loop is the real one; every decision is a rule of the profile. ``decide`` asks, the driver acts, ``emit`` tells.
Source: llama.cpp tools/server/server-context.cpp, server-queue.cpp (3f545be); spec 3.3 to 3.7.
"""

from __future__ import annotations

import zlib
from array import array
from collections import deque
from typing import Any, Callable, Sequence

from cachesim import events as ev
from cachesim.engines.base import Answer, Decision, Request
from cachesim.engines.llama_cpp.begin import begin_prompt
from cachesim.engines.llama_cpp.decode import decode
from cachesim.engines.llama_cpp.fill import add_prompt
from cachesim.engines.llama_cpp.memory.context import Context
from cachesim.engines.llama_cpp.memory.kinds import ModelKind
from cachesim.engines.llama_cpp.memory.memory import Memory
from cachesim.engines.llama_cpp.memory.ubatch import Batch
from cachesim.engines.llama_cpp.options import Options, settings
from cachesim.engines.llama_cpp.profiles import Rules
from cachesim.engines.llama_cpp.prompt_cache import PromptCache
from cachesim.engines.llama_cpp.rules.choice import Choice, IdlePlan, SlotFacts
from cachesim.engines.llama_cpp.rules.prompt_cache import Limits, part
from cachesim.engines.llama_cpp.slot import Slot, State, Task
from cachesim.errors import Aborted
from cachesim.model import Model
from cachesim.tokens import POS_INF, common_prefix

Sampler = Callable[[Sequence[int], Request, int], int]
SAMPLED = 1 << 40        # sampled tokens are numbered from here, so that no prompt word contains one by chance


def forced_or_hashed(held: Sequence[int], request: Request, n_gen: int) -> int:
    """The request's forced token number n_gen; where there is none, a token that depends on everything held:
    the same conversation always goes on in the same way."""
    if request.forced is not None and n_gen < len(request.forced):
        return request.forced[n_gen]
    return SAMPLED + zlib.crc32(array("q", held).tobytes())


class Server:
    """One llama-server of a given version, with its memory. ``model`` None = positions only, nothing computed."""

    def __init__(
        self, rules: Rules, kind: ModelKind, opts: Options, model: Model | None, log: ev.Log,
        sampler: Sampler = forced_or_hashed,
    ) -> None:
        self.rules, self.kind, self.log, self.sampler, self.emit = rules, kind, log, sampler, log.emit
        self.settings = settings(opts, kind, rules.min_step)
        self.memory = Memory(
            kind, self.settings.sizes, model,
            keep=lambda pos, pos_max, n_swa: rules.kv_state(pos, pos_max, n_swa).value,
            refuses=lambda pos, p0, p1: rules.rs_rm(pos, p0, p1).value,
            emit=log.emit,
        )
        self.context = Context(self.memory, model, self.settings.n_batch, self.settings.n_ubatch, log.emit)
        limits = Limits(self.settings.limit_size, self.settings.limit_tokens)
        self.cache = PromptCache(rules, self.memory, limits, log) if self.settings.has_cache else None
        self.slots = [Slot(i) for i in range(self.settings.n_slots)]
        self.queue: deque[Task] = deque()
        self.deferred: deque[Task] = deque()
        self.tick = 0
        self.dead = False

    # --- what a client can do -----------------------------------------------------------------------------------

    def complete(self, request: Request) -> Answer:
        """Work on one request until it is answered."""
        answer = self.submit(request)
        while self.queue or any(slot.busy for slot in self.slots):
            self.iterate()
        return answer

    def submit(self, request: Request) -> Answer:
        """Queue a request; the answer fills as the server works."""
        answer = Answer(self.log.mark(), died=self.dead)
        if request.byte_pos is not None and request.user_starts:
            self.emit(ev.UserPos(request.byte_pos, 0, request.user_starts[-1]))
        if not self.dead:
            self.queue.append(Task(self._tick(), request, answer))
        return answer

    def iterate(self) -> None:
        """One round of the main loop: every pending task, then one update of the slots."""
        try:
            while self.queue:
                self._process(self.queue.popleft())
            self._update_slots()
        except Aborted as abort:
            self._die(str(abort))

    # --- helpers of the driver ------------------------------------------------------------------------------------

    def decide(self, decision: Decision, slot: Slot | None) -> Any:
        """Write a decision down; returns its value."""
        self.log.emit(ev.Decided(slot.id if slot else None, decision.rule, decision.value, decision.because))
        return decision.value

    def changed(self, slot: Slot | None, cause: str, rule: str = "") -> None:
        """Restore points may have come or gone, because of this rule."""
        self.log.emit(ev.Changed(slot.id if slot else None, cause, rule))

    def clear(self, slot: Slot) -> None:
        """PROMPT-CLEAR: the slot's sequence leaves the memory, its tokens are forgotten."""
        self.emit(ev.SlotClear(slot.id, slot.id_task, len(slot.tokens)))
        self.memory.seq_rm(slot.id, 0, POS_INF)
        slot.tokens.clear()
        clear = self.rules.clear(len(slot.checkpoints))
        if self.decide(clear, slot):
            slot.checkpoints.clear()
        self.changed(slot, "cleared", clear.rule)

    def release(self, slot: Slot) -> None:
        """The task ends; tokens and checkpoints stay. The oldest deferred task gets its turn."""
        task = slot.task
        assert task is not None
        self.emit(ev.Release(slot.id, task.id, len(slot.tokens), int(slot.truncated)))
        answer = task.answer
        answer.id_slot, answer.tokens_cached, answer.predicted_n = slot.id, len(slot.tokens), slot.n_gen
        answer.truncated, answer.slot_tokens = slot.truncated, tuple(slot.tokens)
        slot.state, slot.task, slot.t_last, slot.at = State.IDLE, None, self._tick(), -1
        if self.deferred:
            self.queue.appendleft(self.deferred.popleft())

    def fail(self, slot: Slot, status: int, text: str) -> None:
        """The client of the slot's task gets an error; the slot is released."""
        task = slot.task
        assert task is not None
        self.emit(ev.Error(f"error: {text}"))
        task.answer.status, task.answer.error = status, text
        self.release(slot)

    def _tick(self) -> int:
        self.tick += 1
        return self.tick - 1

    def _die(self, text: str) -> None:
        self.emit(ev.Aborted(text))
        self.dead = True
        tasks = [*self.queue, *self.deferred, *(slot.task for slot in self.slots if slot.task)]
        for task in tasks:
            task.answer.died, task.answer.error = True, text
        self.queue.clear()
        self.deferred.clear()
        for slot in self.slots:
            slot.state, slot.task = State.IDLE, None

    # --- tasks ------------------------------------------------------------------------------------------------------

    def _process(self, task: Task) -> None:
        """Give the task a slot, or defer it."""
        slot = self._available(task)
        if slot is None or slot.busy:
            self.deferred.append(task)
            return
        slot.task, slot.state = task, State.STARTED
        slot.n_gen, slot.truncated = 0, False
        self.emit(ev.Launch(slot.id, task.id, 0))
        if self.settings.cache_idle_slots:
            self._save_idle()

    def _available(self, task: Task) -> Slot | None:
        """SLOT-SELECT: choose a slot, and let the prompt cache replace what it holds."""
        request, prompt = task.request, list(task.request.prompt)
        facts = [
            SlotFacts(s.id, s.busy, len(s.tokens), 0 if s.busy else common_prefix(s.tokens, prompt), s.t_last)
            for s in self.slots
        ]
        decision = self.rules.slot_select(facts, len(prompt), request.id_slot, self.settings.sps)
        choice: Choice | None = decision.value
        self._tell_choice(facts, choice, len(prompt), request.id_slot)
        if choice is None:
            return None
        slot = self.slots[choice.slot]
        self.decide(decision, slot)
        slot.loaded = False
        if choice.update and self.cache is not None:
            self.emit(ev.PcBegin())
            self.cache.save(slot)
            if not self.cache.load(slot, prompt):
                self.clear(slot)
            self.cache.update()
        return slot

    def _tell_choice(self, facts: Sequence[SlotFacts], choice: Choice | None, asked: int, id_slot: int) -> None:
        by = choice.by if choice else ""
        looked = [f for f in facts if choice and f.id == choice.slot] if by == "id" else facts
        if choice and by == "id":
            self.emit(ev.SlotById(choice.slot, self.slots[choice.slot].id_task, id_slot))
        for fact in looked if self.settings.sps and by != "name" else ():
            id_task = self.slots[fact.id].id_task
            if fact.busy:
                self.emit(ev.SlotSkipBusy(fact.id, id_task))
            elif not fact.held:
                self.emit(ev.SlotSkipEmpty(fact.id, id_task))
            else:
                f_sim = ev.share(part(fact.lcp, asked)) if asked else 0.0
                self.emit(ev.SlotSim(fact.id, id_task, f_sim, fact.lcp, asked, self.settings.sps))
        if choice and by == "lcp":
            shares = ev.share(choice.f_sim), self.settings.sps, ev.share(choice.f_keep)
            self.emit(ev.SlotByLcp(choice.slot, None, *shares))
        elif choice and by == "lru":
            self.emit(ev.SlotByLru(choice.slot, None))

    def _save_idle(self) -> None:
        """IDLE-SAVE: idle slots go to the prompt cache, and with a unified cache they are emptied."""
        assert self.cache is not None
        for slot in self.slots:
            if slot.busy:
                continue
            plan: IdlePlan = self.decide(self.rules.idle_save(self.settings.unified, len(slot.tokens)), slot)
            if plan.say:
                self.emit(ev.IdleSave(slot.id, None))
            saved = plan.save and self.cache.save(slot)
            if plan.clear == "before":
                self.clear(slot)
            if saved:
                self.cache.update()
            if plan.clear == "after":
                self.clear(slot)

    # --- one iteration ------------------------------------------------------------------------------------------------

    def _update_slots(self) -> None:
        if not any(slot.busy for slot in self.slots):
            return
        self._tick()
        batch = Batch()
        for slot in self.slots:
            if slot.state is State.GENERATING:
                slot.at = len(batch)
                batch.add(slot.sampled, len(slot.tokens), slot.id, True)
                slot.tokens.append(slot.sampled)
        for slot in self.slots:
            if len(batch) >= self.settings.n_batch:
                break
            self._work_on_prompt(slot, batch)
        decode(self, batch)

    def _work_on_prompt(self, slot: Slot, batch: Batch) -> None:
        task = slot.task
        if task is None or slot.state not in (State.STARTED, State.PROMPT):
            return
        if slot.state is State.PROMPT or begin_prompt(self, slot, task):
            add_prompt(self, slot, task, batch)
