"""What every part of the server works on: rules, memory, slots, log, and the few acts that all of them share.

The parts (select, begin, fill, decode) are functions of a ``Core``; every decision is a rule of the profile. ``decide``
asks, the part acts, ``emit`` tells.
Source: llama.cpp tools/server/server-context.cpp server_context_impl, server_slot (3f545be).
"""

from __future__ import annotations

from collections import deque

from cachesim import events as ev
from cachesim.base.tokens import POS_INF
from cachesim.engines.base import Answer, Output
from cachesim.engines.llama_cpp.flags import Options
from cachesim.engines.llama_cpp.memory.context import CommonMemory, Context
from cachesim.engines.llama_cpp.memory.hybrid_memory import Memory
from cachesim.engines.llama_cpp.memory.model_layout import ModelKind
from cachesim.engines.llama_cpp.memory.recurrent import Planes
from cachesim.engines.llama_cpp.memory.ubatch import DecodeBatch, Habits
from cachesim.engines.llama_cpp.profiles import Rule, Rules
from cachesim.engines.llama_cpp.prompt_cache import PromptCache
from cachesim.engines.llama_cpp.rules.checkpoint_facts import Ckpt, Use
from cachesim.engines.llama_cpp.server_flags import can_roll_back, settings
from cachesim.engines.llama_cpp.slot import Slot, State, Task
from cachesim.engines.rule import Decision
from cachesim.engines.shared.batch import TokenOutput
from cachesim.engines.shared.prompt_cache_limits import Limits
from cachesim.engines.shared.restore_point_tracker import ALL_TOKENS, RestorePoints
from cachesim.engines.shared.server_loop import SlotDriver
from cachesim.engines.shared.vocab import CountingSampler, Sampler, forced_or_hashed
from cachesim.model import Model, make_model
from cachesim.model.forward import Carried, mtp_head


class Core(SlotDriver):
    """One llama-server of a given version, with its memory. ``model`` None = positions only, nothing computed."""

    def __init__(
        self, rules: Rules, kind: ModelKind, opts: Options, model: Model | None, log: ev.Log,
        sampler: Sampler = forced_or_hashed,
    ) -> None:
        self.rules, self.kind, self.model, self.log, self.emit = rules, kind, model, log, log.emit
        self.sampler, self.points = CountingSampler(sampler, log), RestorePoints(self, log)
        self.settings = settings(opts, kind, rules)
        habits = [
            rules.kv_read(), rules.kv_undo(), rules.kv_fail(), rules.kv_copy(), rules.kv_full(), rules.kv_shift(),
        ]  # fmt: skip
        self._memory = memory = Memory(
            kind, self.settings.sizes, model,
            lambda pos, pos_max, n_swa: rules.kv_state(pos, pos_max, n_swa).value, self._refuses, log.emit,
            Habits(*(habit.value for habit in habits))._replace(split=lambda *of: rules.rs_split(*of).value),
        )
        self.context = self._context(memory, model)
        self.unsaid: list[tuple[Answer, int]] = []   # after which tokens the model has spoken, but was not heard
        self.carried: dict[int, Carried] = {}        # per sequence, what the trunk said last: in no saved state
        self.dft = self._draft_context(self.settings.draft)
        self._both = CommonMemory(memory, self.dft.memory if self.dft else None)
        sizes = self.settings.sizes
        for asked in (
            rules.n_swa(kind.n_swa, sizes.swa_full), *habits,
            rules.ctx_pool(opts.ctx_size, sizes.n_seq, opts.kv_unified_per_slot),
            rules.slot_ctx(sizes.n_ctx_seq, self.settings.n_ctx, sizes.n_seq, opts.kv_unified_per_slot),
            rules.spec_on(self.settings.exact),
            rules.rs_planes(opts.spec_type, opts.spec_draft_n_max, can_roll_back(kind)),
            rules.rs_split(sizes.n_rs_seq, kind.kind != "R", sizes.unified),
        ):
            self.decide(asked, None)
        limits = Limits(self.settings.limit_size, self.settings.limit_tokens)
        self.cache = PromptCache(rules, self._both, limits, log, self.points) if self.settings.has_cache else None
        self.slots: list[Slot] = [Slot(i) for i in range(self.settings.n_slots)]
        self.queue: deque[Task] = deque()
        self.deferred: deque[Task] = deque()
        self.view = (0, 0)                           # where the last view began and ended in its batch
        self.said: dict[int, TokenOutput] = {}
        self.tick, self.dead = 0, False
        self.ended = 0                               # tasks that were released
        self.empty_rounds = 0                        # rounds in sequence in which nothing came of the busy slots

    @property
    def window_is_shared(self) -> bool:
        """A batch may take cells that the windows of idle slots had."""
        return self.settings.unified and bool(self.kind.n_swa)

    @property
    def stuck(self) -> bool:
        """Will nothing happen any more until somebody sends something? Slots are busy, and a round leaves them as they
        were (D2: a conversation longer than the running prompt was loaded over it)."""
        return self.empty_rounds > 1 and not self.queue

    @property
    def memory(self) -> Memory:
        """The memory, as it is when every token is evaluated."""
        if self.context.waiting:
            self.settle()
        return self._memory

    @property
    def both(self) -> CommonMemory:
        """The same together with that of the drafter."""
        self.settle()
        return self._both

    def put_off(self, view: DecodeBatch) -> bool:
        """Put off the evaluation of a generated token, if it may wait: not if it is heard of at once, or a drafter
        evaluates it, too."""
        slot = self.slots[view.seq[0]]
        at_once = self.log.heard(ev.Advanced) or self.dft is not None or slot.state is not State.GENERATING
        if at_once or not self.context.put_off(view):
            self.settle()
            return False
        if slot.task is not None and self.context.model is not None:
            self.unsaid.append((slot.task.answer, len(slot.tokens) - 1))
        return True

    def settle(self) -> None:
        """Evaluate the tokens whose evaluation was put off."""
        if self.context.waiting:
            said, unsaid, self.unsaid = self.context.settle(), self.unsaid, []
            for (answer, pos), one in zip(unsaid, said, strict=True):
                answer.outputs.append(Output(pos, one.digest, one.logits))

    def _draft_context(self, kind: ModelKind | None) -> Context | None:
        """The drafter's own context: an MTP head behind the trunk, or a model of its own. What it would guess is not
        asked, since drafts are forced; what it holds is kept and saved as the real one's is."""
        if kind is None:
            return None
        trunk, model = self.context.model, None
        if trunk is not None:
            model = mtp_head(trunk) if self.settings.mtp else make_model(kind.spec, trunk.exact, trunk.seed + 2)
        sizes = self.settings.sizes._replace(n_rs_seq=0)
        memory = Memory(kind, sizes, model, self.memory.keep, self.memory.refuses, self.log.emit, self.memory.habits)
        return self._context(memory, model)

    def _context(self, memory: Memory, model: Model | None) -> Context:
        n_batch, n_ubatch = self.settings.n_batch, self.settings.n_ubatch
        return Context(memory, model, n_batch, n_ubatch, self.log.emit, self.rules.bad_batch_lines)

    def _refuses(self, pos: int, p0: int, p1: int, planes: Planes) -> bool:
        """RS-BACK, written down where planes reach so far; then RS-RM, written down where it says no."""
        back = pos - p0 + 1 if 0 < p0 <= pos < p1 else 0
        goes = self.rules.rs_back(back, *planes)
        if 1 <= back <= planes.n_rs_seq:
            self.decide(goes, None)
        refused = self.rules.rs_rm(pos, p0, p1, goes.value)
        return bool(refused.value and self.decide(refused, None))

    def drop(self, slot: Slot, which: Decision, told: Rule, cause: str, kept: int) -> list[Ckpt]:
        """Checkpoints leave a slot; returns, for each, the one that the log names. ``kept``: see ``changed``."""
        had, gone = slot.facts, self.decide(which, slot)
        slot.drop(gone)
        named = [had[i] for i in told(len(had), gone).value]
        if named:
            self.changed(slot, cause, which.rule, kept)
        return named

    def noted(self, slot: Slot, ckpt: Ckpt, use: str, task: Task) -> Ckpt:
        """CKPT-NOTE: the checkpoint with what this rule set remembers of it. Written down where that is something."""
        note = self.rules.ckpt_note(ckpt, Use(use, task.id))
        if note.value is not None:
            self.decide(note, slot)
        return ckpt._replace(note=note.value)

    def clear(self, slot: Slot) -> None:
        """PROMPT-CLEAR: the slot's sequence leaves the memory, its tokens are forgotten."""
        self.emit(ev.SlotClear(slot.id, slot.id_task, len(slot.tokens)))
        self.both.must_rm(slot.id, 0, POS_INF)
        slot.tokens.clear()
        clear = self.rules.clear(len(slot.checkpoints))
        if self.decide(clear, slot):
            slot.checkpoints.clear()
        self.changed(slot, "cleared", clear.rule)

    def release(self, slot: Slot) -> None:
        """The task ends; tokens and checkpoints stay. The oldest deferred task gets its turn."""
        task = slot.task
        assert task is not None
        self.settle()
        self.ended += 1
        self.points.changed(slot, "evaluated", kept=ALL_TOKENS, grown=True)
        self.emit(ev.Release(slot.id, task.id, len(slot.tokens), int(slot.truncated)))
        answer = task.answer
        answer.id_slot, answer.tokens_cached, answer.predicted_n = slot.id, len(slot.tokens), slot.n_gen
        held = () if slot.state is State.WAITING else tuple(slot.tokens)     # a child that never began: another text's
        answer.truncated, answer.slot_tokens, answer.done = slot.truncated, held, True
        if slot.child:
            self.clear(slot)
        slot.state, slot.task, slot.t_last, slot.at = State.IDLE, None, self.next_tick(), -1
        slot.child, slot.children = False, []
        if self.deferred:       # the first task that wants this slot, else the oldest one, comes first in the queue
            task = next((t for t in self.deferred if t.request.id_slot == slot.id), self.deferred[0])
            self.deferred.remove(task)
            self.queue.appendleft(task)

    def fail(self, slot: Slot, status: int, text: str, kind: str, **numbers: int) -> None:
        """The client of the slot's task gets an error; the slot is released. ``kind`` and ``numbers`` say which."""
        task = slot.task
        assert task is not None
        self.emit(ev.Error(f"error: {text}"))
        task.answer.fails(status, text, kind, **numbers)
        self.release(slot)

    def fail_all(self, text: str, kind: str, clear: bool = True) -> None:
        """Every busy slot's client gets the error; the slots are released, and emptied if ``clear``."""
        for slot in self.slots:
            if slot.busy:
                self.fail(slot, 500, text, kind)
                if clear:
                    self.clear(slot)
