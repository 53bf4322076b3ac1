"""State of the server: rules, the two contexts, slots and log, with the operations that all parts use.

The parts of the server are functions of a ``Core``. Each decision is a rule of the profile: ``decide`` logs it, the
part acts on the memory, ``emit`` logs events. Source: ik_llama.cpp examples/server/server-context.cpp server_context
(8337e4cd3).
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from typing import Callable, Sequence

import numpy as np

from cachesim import events as ev
from cachesim.base.errors import NotInBuild
from cachesim.base.media_items import item_at
from cachesim.base.tokens import POS_INF
from cachesim.engines.ik_llama.flags import Options
from cachesim.engines.ik_llama.memory.context import Context, DecodeRules
from cachesim.engines.ik_llama.memory.kv_cache import KvCache, Window, capacity
from cachesim.engines.ik_llama.memory.model_layout import ModelKind
from cachesim.engines.ik_llama.profiles import Rules
from cachesim.engines.ik_llama.prompt_cache import PromptCache
from cachesim.engines.ik_llama.rules.common_prefix import TextsBetweenImages
from cachesim.engines.ik_llama.rules.micro_batch import ComputeGraph
from cachesim.engines.ik_llama.server_flags import settings
from cachesim.engines.ik_llama.slot import Slot, State, Task
from cachesim.engines.shared import slot_events as slot_ev
from cachesim.engines.shared.batch import TokenOutput
from cachesim.engines.shared.conversation_points import ALL_TOKENS, ConversationPoints, ConversationSource
from cachesim.engines.shared.prompt_cache_limits import Limits
from cachesim.engines.shared.server_loop import SlotCore
from cachesim.engines.shared.vocab import CountingSampler, Sampler, recorded_piece, unique_piece
from cachesim.model import Model


def task_error(task: int, text: str) -> str:
    """Return the log line about an error that the client of a task gets."""
    return f'task error id_multi=-1 id_task={task} error="{text}"'


class Core(SlotCore):
    """A server of a given version. ``model`` None = positions only, nothing is computed. ``points_of`` reads the
    restore points of a core."""

    def __init__(self, rules: Rules, kind: ModelKind, opts: Options, model: Model | None, log: ev.Log,
                 sampler: Sampler, points_of: Callable[[Core], ConversationSource]) -> None:
        if opts.spec_type != "mtp" and kind.spec.mtp:      # an unused head is not loaded
            kind = replace(kind, spec=replace(kind.spec, mtp=False))
        self.rules = rules
        self.kind = kind
        self.model = model
        self.log = log
        self.emit = log.emit
        self.sampler = CountingSampler(sampler, log)
        if not rules.spec_start(opts.spec_type, opts.parallel).value:
            raise NotInBuild("the server does not start with drafts and several slots", hint="parallel = 1")
        self.settings = settings(opts, kind, rules)
        pieces: Callable[[int], str] = recorded_piece if kind.words else unique_piece
        self.pieces = TextsBetweenImages(pieces) if self.settings.projector else pieces
        self.memory = self._cache(model, opts.swa_compress, None)
        self.context = Context(
            self.memory, model, n_ubatch=self.settings.n_ubatch, rules=self._decode_rules(), emit=log.emit
        )
        self.companion = self._companion(opts) if opts.spec_type == "mtp" else None
        limits = Limits(self.settings.limit_size, 0)
        self.points = ConversationPoints(points_of(self), log)
        self.cache = PromptCache(rules, self.memory, limits, log, self.points) if opts.cache_ram else None
        self.slots: list[Slot] = [Slot(i) for i in range(self.settings.n_slots)]
        self.queue: deque[Task] = deque()
        self.deferred: deque[Task] = deque()
        self.outputs: dict[int, TokenOutput] = {}
        self.system: list[int] = []            # system prompt, before the tokens of every slot
        self.later: dict[int, list[int]] = {}  # sequence -> rows of the draft context made from a later state
        self.overwritten: dict[int, str] = {}  # slots whose state another slot's micro-batch overwrote -> rule
        self.known_next: set[int] = set()      # sequences whose next draft the draft context knows
        self.next_id, self.tick = 1, 0
        self.image_failed, self.spun = False, 0      # an image failed; consecutive rounds with nothing else
        self.dead = False

    def _cache(self, model: Model | None, compress: bool, recurrent: bool | None) -> KvCache:
        fixed = self.settings
        window = None
        if self.rules.window(compress, self.kind.private, fixed.n_slots).value:
            window = Window(self.kind.n_swa, capacity(self.kind.n_swa, fixed.n_ubatch))
        return KvCache(
            self.kind,
            fixed.n_ctx,
            n_seq=fixed.n_slots,
            model=model,
            refuses=lambda *facts: bool(self.rules.seq_rm(*facts).value),
            emit=self.emit,
            window=window,
            recurrent=recurrent,
            claims=lambda partial: bool(self.rules.ckpt_cells(partial).value),
        )

    def _companion(self, opts: Options) -> Context:
        """Create the context of the MTP head: positions only, because drafts are forced. It has no recurrent rows and
        is recurrent only if the options say so."""
        cache = self._cache(None, opts.swa_compress, opts.companion_recurrent)
        unread = replace(self._decode_rules(), seen=lambda pos: self.settings.n_ctx)
        return Context(cache, None, n_ubatch=self.settings.n_ubatch, rules=unread, emit=self.emit, name="draft")

    def _seen(self, pos: np.ndarray) -> int:
        """Return the number of cells that attention reads; log the decision if used cells are missed."""
        decision = self.rules.kv_seen(pos, self.settings.n_ctx, self.settings.pad)
        if (pos[decision.value :] >= 0).any():
            self.decide(decision, None)
        return int(decision.value)

    def _window_from(self, n_kv: int, tokens: int, missed: Callable[[int], bool]) -> int:
        """Return the first cell that window layers read; log the decision if they miss rows that their mask shows."""
        kind = self.kind
        if not kind.windows or kind.private:       # DeepSeek-V4 stores its windows separately
            return 0
        decision = self.rules.kv_window(n_kv, tokens, kind.n_swa, self.settings.flags.flash_attn, kind.head)
        low = int(decision.value)
        if low and missed(low):
            self.decide(decision, None)
        return low

    def _is_blind(self, tokens: int) -> bool:
        """True if tokens without a visible cell have NaN results; log the decision."""
        return bool(self.decide(self.rules.kv_blind(tokens, self.settings.flags.flash_attn), None))

    def _reuses(self, last: ComputeGraph | None, now: ComputeGraph, first: int) -> bool:
        """True if the graph of the last micro-batch is used again; log the decision if that matters. The
        micro-batch then overwrites the states of the slots of the last one."""
        decision = self.rules.graph(last, now, first)
        if last is not None and decision.value and last != now:
            self.decide(decision, None)
            self.overwritten.update(dict.fromkeys(last.rows, decision.rule))
        return bool(decision.value)

    def evaluated(self, rule: str) -> None:
        """Report that a batch was evaluated, and the idle slots whose states it overwrote."""
        for slot in self.slots:
            if slot.id in self.overwritten and not slot.busy and (slot.tokens or self.system):
                self.points.changed(slot, "overwritten", self.overwritten[slot.id], ALL_TOKENS, grown=True)
        self.overwritten.clear()
        super().evaluated(rule)

    def _decode_rules(self) -> DecodeRules:
        rules = self.rules
        fixed = self.settings
        hybrid = self.kind.hybrid
        return DecodeRules(
            split=lambda seqs: int(rules.ubatch_split(hybrid, seqs).value),
            seen=self._seen,
            window_from=self._window_from,
            blind=self._is_blind,
            zeroes=lambda pos, sequences: bool(rules.state_zero(pos, sequences).value),
            reuses=self._reuses,
            keeps=lambda n: str(rules.spec_steps(n, fixed.n_max + 1).value),
        )

    @property
    def has_media_positions(self) -> bool:
        """True if the positions of tokens after an image are not their indices."""
        return self.kind.mrope and bool(self.settings.projector)

    def position(self, tokens: Sequence[int], n: int) -> int:
        """Return the position after the first ``n`` tokens of a list."""
        if not self.settings.projector:
            return n
        found: int = self.rules.media.position(tokens, n, self.kind.mrope).value
        return found

    def cell_position(self, slot: Slot, index: int) -> int:
        """Return the position of a cell of the slot, given as an index of its tokens; -1 = none."""
        inside = item_at(slot.tokens, index) if self.has_media_positions else None
        return self.position(slot.tokens, index - inside.number if inside else index) if index >= 0 else index

    def has_left(self, slot: Slot) -> bool:
        """True if the client of a slot waits for a whole answer and has disconnected, which stops an evaluation: the
        slot has evaluated ``cancel_at`` tokens."""
        task = slot.task
        at = None if task is None or task.streams or task.is_stopped else task.request.cancel_at
        return at is not None and self.memory.pos_max(slot.id) + 1 >= at + len(self.system)

    def is_stopped(self) -> bool:
        """True if a client that disconnected stops the evaluation. The rules decide that."""
        slot = next(filter(self.has_left, self.slots), None)
        return slot is not None and self.rules.abort(len(slot.tokens), self.memory.pos_max(slot.id)).value >= 0

    def wipe(self, slot: Slot) -> None:
        """Remove the slot's sequence from both contexts, and clear its tokens and checkpoints."""
        self.memory.seq_rm(slot.id, 0, POS_INF)
        if self.companion is not None:
            self.companion.kv.seq_rm(slot.id, 0, POS_INF)
        slot.tokens.clear()
        slot.checkpoints.clear()

    def fail(self, slot: Slot, text: str, kind: str, **numbers: int) -> None:
        """Send an error to the client of the slot's task, unless the client already got an error. The slot
        continues."""
        task = slot.task
        assert task is not None
        self.emit(slot_ev.Error(task_error(task.id, text)))
        if not task.answer.error:
            task.answer.fails(500, text, kind, **numbers)
            self.take_id()                     # the client disconnects: a task with its own id

    def leave(self, slot: Slot) -> None:
        """Release the slot in the next iteration."""
        slot.state = State.LEAVING
        slot.at = -1
        slot.draft = []
        slot.is_drafting = False

    def take_id(self) -> int:
        """Return the next task id; every request and every iteration takes an id."""
        self.next_id += 1
        return self.next_id - 1
