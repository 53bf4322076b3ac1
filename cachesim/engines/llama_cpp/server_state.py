"""State shared by all parts of the server: rules, memory, slots, log, and the operations that several parts use.

The parts (slot selection, prompt start, batch fill, decode) are functions of a ``Core``. Every decision is a rule of
the profile: ``decide`` evaluates it, the part acts on it, ``emit`` logs the event.
Source: llama.cpp tools/server/server-context.cpp server_context_impl, server_slot (3f545be).
"""

from __future__ import annotations

from collections import deque
from typing import Callable, Sequence

from cachesim import events as ev
from cachesim.base.tokens import POS_INF, TokenList, Tokens
from cachesim.engines.base import Answer, Output
from cachesim.engines.llama_cpp import events as llama_ev
from cachesim.engines.llama_cpp.asked_traits import AskedTraits
from cachesim.engines.llama_cpp.flags import Options, drafters_of, needing_model
from cachesim.engines.llama_cpp.memory.context import CommonMemory, Context
from cachesim.engines.llama_cpp.memory.create_memory import create_memory
from cachesim.engines.llama_cpp.memory.hybrid_memory import Memory
from cachesim.engines.llama_cpp.memory.model_layout import ModelKind
from cachesim.engines.llama_cpp.memory.recurrent import RollbackPlanes
from cachesim.engines.llama_cpp.memory.ubatch import DecodeBatch
from cachesim.engines.llama_cpp.newest_start import model_as_read, newest_decisions
from cachesim.engines.llama_cpp.profiles import Rule, Rules
from cachesim.engines.llama_cpp.prompt_cache import PromptCache
from cachesim.engines.llama_cpp.rules.adapters import Scales
from cachesim.engines.llama_cpp.rules.checkpoint_facts import CheckpointUse, Ckpt
from cachesim.engines.llama_cpp.rules.server_of_2023 import LIST_SAMPLED
from cachesim.engines.llama_cpp.server_flags import can_roll_back, loaded_adapters, settings
from cachesim.engines.llama_cpp.slot import Slot, State, Task
from cachesim.engines.rule import Decision
from cachesim.engines.shared import slot_events as slot_ev
from cachesim.engines.shared.batch import TokenOutput
from cachesim.engines.shared.conversation_points import ALL_TOKENS, ConversationPoints, ConversationSource
from cachesim.engines.shared.prompt_cache_limits import Limits
from cachesim.engines.shared.server_loop import SlotCore
from cachesim.engines.shared.vocab import CountingSampler, Sampler
from cachesim.model import Model, make_model
from cachesim.model.forward import TrunkOutput, mtp_head


class Core(SlotCore):
    """llama-server of a given version, with its memory. ``model`` None: track positions only, compute nothing.
    ``points_of`` reads the restore points of a core."""

    leader: Slot | None = None                       # first slot of the batch, which decides its adapters
    put_back: tuple[Slot, float] | None = None       # slot that this batch splits, and the scale of its aLoRA
    in_force: Scales                                 # scales of the last batch, under which images are evaluated

    def __init__(
        self, rules: Rules, kind: ModelKind, opts: Options, model: Model | None, log: ev.Log,
        sampler: Sampler, points_of: Callable[[Core], ConversationSource],
    ) -> None:
        self.rules = rules
        self.kind = kind
        self.log = log
        self.emit = log.emit
        self.sampler, self.points = CountingSampler(sampler, log), ConversationPoints(points_of(self), log)
        self.settings = settings(opts, kind, rules)
        self.model = model = model_as_read(rules, kind, self.settings, model)
        traits = AskedTraits(rules, kind, self._plane, self._saved_plane)
        recorded = traits.ask() if log.keeps_decisions else ()
        self._memory = memory = create_memory(
            kind,
            self.settings.sizes,
            model,
            keep=lambda pos, pos_max, n_swa: rules.kv_state(pos, pos_max, n_swa).value,
            refuses=self._refuses,
            emit=log.emit,
            traits=traits,
        )
        self.context = self._context(memory, model)
        self.pending_outputs: list[tuple[Answer, int]] = []   # deferred tokens whose output is still to be recorded
        self.first_cells: dict[int, int] = {}        # recurrent cell of a sequence when a draft first saved its state
        self.carried: dict[int, TrunkOutput] = {}        # per sequence: the trunk's last hidden state, never saved
        self.dft = self._draft_context(self.settings.draft)
        self._common_memory = CommonMemory(memory, self.dft.memory if self.dft else None, self._refusal_ends)
        has_cache = self.settings.has_cache
        if log.keeps_decisions:
            self._record_startup(recorded)
        limits = Limits(self.settings.limit_size, self.settings.limit_tokens)
        self.cache = PromptCache(rules, self._common_memory, limits, log, self.points) if has_cache else None
        self.slots: list[Slot] = [Slot(i) for i in range(self.settings.n_slots)]
        self.adapters = loaded_adapters(opts, rules)
        self.served = self._scales_at_start()
        self._start_media()
        self.queue: deque[Task] = deque()
        self.deferred: deque[Task] = deque()
        self.view = (0, 0)                           # start and stop of the last view in its batch
        self.outputs: dict[int, TokenOutput] = {}
        self.tick, self.dead = 0, False
        self.ended = 0                               # number of released tasks
        self.empty_rounds = 0                        # consecutive rounds in which busy slots made no progress

    def _scales_at_start(self) -> Scales:
        """Return the scales of the server's adapters."""
        flags = tuple(one.scale for one in self.adapters)
        without = self.settings.flags.lora_init_without_apply
        scales: Scales = self.decide(self.rules.adapters.init(flags, without), None) if flags else ()
        self.in_force = () if without else scales
        return scales

    def _start_media(self) -> None:
        """Tell both contexts the positions of tokens, and record that a projector excludes moved positions."""
        projector = bool(self.settings.projector)
        for context in filter(None, (self.context, self.dft) if self.has_media_positions else ()):
            context.use_positions(self._position_in)
        moves = self.rules.media.moves(self._memory.can_shift(), projector)
        if projector:
            self.decide(moves, None)

    def _position_in(self, seq: int, index: int) -> int:
        return self.position(self.slots[seq], index)

    def _record_startup(self, traits: Sequence[Decision]) -> None:
        """Record the decisions that the server makes once, when it starts."""
        rules = self.rules
        kind = self.kind
        opts = self.settings.flags
        sizes = self.settings.sizes
        faults = (rules.kv_turn(), rules.kv_mask(), rules.kv_pos(), rules.rs_tail(), rules.batch_check())
        for decision in (
            rules.n_swa(rules.window_told(kind.n_swa, kind.kind).value, sizes.swa_full), *traits,
            rules.ctx_pool(opts.ctx_size, sizes.n_seq, opts.kv_unified_per_slot),
            rules.slot_ctx(
                sizes.n_ctx_seq, self.settings.n_ctx, sizes.n_seq, opts.kv_unified_per_slot, opts.n_ctx_train,
            ),
            rules.spec_on(self.settings.exact),
            rules.rs_planes(needing_model(drafters_of(opts.spec_type)), opts.spec_draft_n_max, can_roll_back(kind)),
            rules.rs_split(sizes.n_rs_seq, kind.kind != "R", sizes.unified),
            *self._blocks_switched_off(),
            *(fault for fault in faults if fault.value), *newest_decisions(rules, kind, self.settings),
        ):
            self.decide(decision, None)

    def _blocks_switched_off(self) -> list[Decision]:
        """Return the decision about ``--cache-reuse`` on a server that cannot move positions."""
        least = self.settings.flags.cache_reuse
        moves = self.rules.media.moves(self._memory.can_shift(), bool(self.settings.projector)).value
        return [self.rules.reuse_start(least, moves)] if least and not moves else []

    @property
    def window_is_shared(self) -> bool:
        """True if a batch may take cells from the windows of idle slots."""
        return self.settings.unified and bool(self.kind.n_swa)

    @property
    def memory(self) -> Memory:
        """Target memory, after all deferred tokens have been evaluated."""
        if self.context.n_deferred:
            self.flush_deferred()
        return self._memory

    @property
    def common_memory(self) -> CommonMemory:
        """Target and draft memory together, after all deferred tokens have been evaluated."""
        self.flush_deferred()
        return self._common_memory

    def position(self, slot: Slot, index: int) -> int:
        """Return the position of a token of the slot. -1 stays as it is."""
        if not self.has_media_positions or index < 0:
            return index
        found: int = self.rules.media.position(slot.tokens, index).value
        return found

    @property
    def has_media_positions(self) -> bool:
        """True if the positions of tokens after an image are not their indices."""
        return self.kind.mrope and bool(self.settings.projector)

    def pos_min(self, slot: Slot) -> int:
        """Return the first position in the memory from which everything up to ``pos_max`` is present, -1 = none."""
        return self.position(slot, self.memory.pos_min(slot.id))

    def pos_max(self, slot: Slot) -> int:
        """Return the last position of the slot in the memory, -1 = none."""
        return self.position(slot, self.memory.pos_max(slot.id))

    def defer_token(self, view: DecodeBatch) -> bool:
        """Defer the evaluation of a generated token and return True, unless an observer needs its result at once, a
        draft context evaluates it, too, or a slot whose prompt ends with an image is answered with it."""
        slot = self.slots[view.seq[0]]
        at_once = self.log.listens_to(ev.Advanced) or self.dft is not None or slot.state is not State.GENERATING \
            or any(other.i_batch >= 0 for other in self.slots if other is not slot)
        if at_once or not self.context.defer_token(view):
            self.flush_deferred()
            return False
        if slot.task is not None and self.context.model is not None:
            self.pending_outputs.append((slot.task.answer, len(slot.tokens) - 1))
        return True

    def defer_more(self, slot: Slot, task: Task, tokens: Tokens) -> None:
        """Defer the evaluation of the next tokens of a slot, as many as its context can defer at once."""
        self.context.defer_more(tokens)
        if self.context.model is not None:
            first = len(slot.tokens)
            self.pending_outputs += [(task.answer, pos) for pos in range(first, first + len(tokens))]

    def flush_deferred(self) -> None:
        """Evaluate the deferred tokens."""
        if self.context.n_deferred:
            outputs = self.context.flush_deferred()
            pending = self.pending_outputs
            self.pending_outputs = []
            for (answer, pos), output in zip(pending, outputs, strict=True):
                answer.outputs.append(Output(pos, output.digest, output.logits))

    def _draft_context(self, kind: ModelKind | None) -> Context | None:
        """Return the context of the drafter: of an MTP head, which reads the target model's hidden states, or of a
        separate draft model. Scenarios state the drafts, so its predictions are not computed; its memory is kept and
        saved as in the real server."""
        if kind is None:
            return None
        trunk, model = self.context.model, None
        if trunk is not None:
            model = mtp_head(trunk) if self.settings.mtp else make_model(kind.spec, trunk.exact, trunk.seed + 2)
        sizes = self.settings.sizes._replace(n_rs_seq=0)
        target = self.memory
        memory = create_memory(kind, sizes, model, target.keep, target.refuses, self.log.emit, target.traits)
        return self._context(memory, model, "draft")

    def _context(self, memory: Memory, model: Model | None, name: str = "target") -> Context:
        n_batch, n_ubatch = self.settings.n_batch, self.settings.n_ubatch
        return Context(
            memory,
            model,
            n_batch=n_batch,
            n_ubatch=n_ubatch,
            emit=self.log.emit,
            bad_batch_lines=self.rules.bad_batch_lines,
            name=name,
        )

    def _refuses(self, pos: int, p0: int, p1: int, planes: RollbackPlanes) -> bool:
        """True if the recurrent memory refuses a removal. Applies rule LC-RS-BACK (recorded if the planes reach
        far enough), then LC-RS-RM (recorded if it refuses)."""
        back = pos - p0 + 1 if 0 < p0 <= pos < p1 else 0
        rollback = self.rules.rs_back(back, *planes)
        if 1 <= back <= planes.n_rs_seq:
            self.decide(rollback, None)
        refused = self.rules.rs_rm(pos, p0, p1, rollback.value)
        if not refused.value:
            return False
        self.decide(refused, None)
        return True

    def _refusal_ends(self, seq: int, p0: int, p1: int) -> bool:
        """True if a refused removal ends the process (rule LC-RM-REFUSED)."""
        return bool(self.decide(self.rules.rm_refused(p0, -1 if p1 == POS_INF else p1), self.slots[seq]))

    def _plane(self, back: int, pending: int, since: int, written: int) -> int:
        """Return the plane of a rollback (rule LC-RS-PLANE). Recorded where the ways to count differ."""
        return self._recorded(self.rules.rs_plane(back, pending, since, written), pending or since)

    def _saved_plane(self, pending: int) -> int:
        """Return the plane that is saved (rule LC-RS-SAVED). Recorded if it is not that of the pending rollback."""
        saved = self.rules.rs_saved(pending)
        return self._recorded(saved, saved.value != pending)

    def _recorded(self, decision: Decision, record: object) -> int:
        """Return the value of a decision, and record the decision if ``record``."""
        if record:
            self.decide(decision, None)
        return int(decision.value)

    def drop(self, slot: Slot, which: Decision, logged: Rule, cause: str, kept: int) -> list[Ckpt]:
        """Remove checkpoints from a slot; return those that the log names. ``kept``: see ``changed``."""
        had, gone = slot.facts, self.decide(which, slot)
        slot.drop(gone)
        named = [had[i] for i in logged(len(had), gone).value]
        if named:
            self.changed(slot, cause, which.rule, kept)
        return named

    def with_note(self, slot: Slot, ckpt: Ckpt, use: str, task: Task) -> Ckpt:
        """Apply CKPT-NOTE: return the checkpoint with this rule set's note. The decision is recorded if there is a
        note."""
        note = self.rules.ckpt_note(ckpt, CheckpointUse(use, task.id))
        if note.value is not None:
            self.decide(note, slot)
        return ckpt._replace(note=note.value)

    def clear(self, slot: Slot) -> None:
        """Apply PROMPT-CLEAR: remove the slot's sequence from the memory and its tokens from the slot."""
        self.emit(llama_ev.SlotClear(slot.id, slot.id_task, len(slot.tokens)))
        self.common_memory.must_rm(slot.id, 0, POS_INF)
        slot.tokens.clear()
        clear = self.rules.clear(len(slot.checkpoints))
        if self.decide(clear, slot):
            slot.checkpoints.clear()
        self.changed(slot, "cleared", clear.rule)

    def release(self, slot: Slot) -> None:
        """End the slot's task. Tokens and checkpoints stay. A deferred task returns to the front of the queue."""
        task = slot.task
        assert task is not None
        self.flush_deferred()
        self.ended += 1
        self.points.changed(slot, "evaluated", kept=ALL_TOKENS, grown=True)
        self.emit(ev.Release(slot.id, task.id, len(slot.tokens), int(slot.truncated)))
        answer = task.answer
        answer.id_slot = slot.id
        answer.tokens_cached = len(slot.tokens)
        answer.predicted_n = slot.n_gen
        # A child that has not started still holds another conversation.
        held = () if slot.state is State.WAITING else tuple(slot.tokens)
        answer.truncated = slot.truncated
        answer.slot_tokens = held
        answer.done = True
        if slot.child:
            self.clear(slot)
        listed = self.rules.list_kept(task.request.cache_prompt, slot.before)
        if listed.value == LIST_SAMPLED and slot.n_gen:
            self.decide(listed, slot)
            slot.tokens.append(slot.sampled)
        elif listed.value is not None and held:      # the list does not name what the cells hold
            slot.tokens = TokenList([0] * self.decide(listed, slot))
            self.changed(slot, "truncated", listed.rule, 0)
        slot.state = State.IDLE
        slot.task = None
        slot.t_last = self.next_tick()
        slot.i_batch = -1
        slot.child = False
        slot.children = []
        slot.alora_start = -1
        if self.deferred:       # prefer the first task that requests this slot, else take the oldest
            task = next((t for t in self.deferred if t.request.id_slot == slot.id), self.deferred[0])
            self.deferred.remove(task)
            self.queue.appendleft(task)

    def fail(self, slot: Slot, status: int, text: str, kind: str, **numbers: int) -> None:
        """Fail the slot's task with an error and release the slot. ``kind`` and ``numbers`` identify the error."""
        task = slot.task
        assert task is not None
        self.emit(slot_ev.Error(f"error: {text}"))
        task.answer.fails(status, text, kind, **numbers)
        self.release(slot)

    def fail_all(self, text: str, kind: str, clear: bool) -> None:
        """Fail the task of every busy slot with this error and release the slots; also clear them if ``clear``."""
        for slot in self.slots:
            if slot.busy:
                self.fail(slot, 500, text, kind)
                if clear:
                    self.clear(slot)
