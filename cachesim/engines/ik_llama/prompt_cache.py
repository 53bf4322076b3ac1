"""Prompt cache in host memory.

Source: ik_llama.cpp examples/server/server-task.cpp server_prompt_cache (8337e4cd3).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Sequence

from cachesim import events as ev
from cachesim.engines.base import Immutable
from cachesim.engines.ik_llama.events import PcEntryShifted
from cachesim.engines.ik_llama.memory.kv_cache import Blob, KvCache
from cachesim.engines.ik_llama.profiles import Rules
from cachesim.engines.ik_llama.rules.common_prefix import (
    CommonLength,
    Pieces,
    common,
    discarded,
    equal_tokens,
    without_reasoning,
)
from cachesim.engines.ik_llama.rules.prompt_cache import Admission, EntryFacts
from cachesim.engines.ik_llama.rules.slot_selection import ShiftedPrefix
from cachesim.engines.ik_llama.slot import Checkpoint, Slot
from cachesim.engines.rule import Decision
from cachesim.engines.shared import slot_events as slot_ev
from cachesim.engines.shared.conversation_points import ConversationPoints
from cachesim.engines.shared.prompt_cache_limits import Eviction, Limits
from cachesim.engines.shared.server_loop import log_decision

MIB = 1 << 20
NAN_SHARE = "-nan"             # printed by the server for 0 / 0
COMPARED = 2                   # looks at an entry whose text is compared


@dataclass(frozen=True, slots=True, eq=False)
class Entry(Immutable):
    """A stored conversation; ``blob``: the target's whole state; ``size``: bytes of the state and the checkpoints."""

    tokens: list[int]
    checkpoints: tuple[Checkpoint, ...]
    blob: Blob
    size: int
    kept: int = 0
    discarded: int = 0
    system: tuple[int, ...] = ()   # system prompt before the tokens


@lru_cache(maxsize=4096)
def _listed(n_tokens: int, n_discarded: int, n_checkpoints: int, size: int) -> PcEntryShifted:
    """Return the event of an entry in the list of all entries. ``size``: bytes."""
    return PcEntryShifted(n_tokens, n_discarded, n_checkpoints, ev.mib(size))


@dataclass(frozen=True)
class PromptComparison:
    """Comparison of texts with a prompt: ``pieces`` returns the text of a token, ``marks`` are the tokens around
    omitted reasoning; ``text`` False = token ids are compared."""

    pieces: Pieces
    marks: tuple[int, int] | None
    prompt: Sequence[int]
    text: bool = True

    @cached_property
    def asked(self) -> Sequence[int]:
        """The prompt without its reasoning."""
        return without_reasoning(self.prompt, self.marks, self.pieces)

    def common(self, held: Sequence[int], tokens: Sequence[int]) -> CommonLength:
        """Return the common prefix of two token lists."""
        if self.text:
            return common(held, tokens, self.pieces, strict=False)
        n = equal_tokens(held, tokens)
        return CommonLength(n, n)

    def facts(self, held: Sequence[int], n_keep: int, n_discard: int) -> EntryFacts:
        """Compare the tokens of a slot or an entry with the prompt, and, if a shift discarded tokens, also with the
        prompt without the discarded part."""
        kept, prompt = without_reasoning(held, self.marks, self.pieces), self.asked
        found = self.common(kept, prompt)
        moved = None
        if n_discard > 0:
            rest = discarded(prompt, n_keep, n_discard)
            n_cache, n_prompt = self.common(kept, rest)
            moved = ShiftedPrefix(len(rest), n_prompt, n_cache)
        return EntryFacts(len(kept), len(prompt), found.cache, found.prompt, shifted=moved)


class PromptCache:
    """The prompt cache; ``entries`` in order of insertion, oldest first."""

    def __init__(self, rules: Rules, memory: KvCache, limits: Limits, log: ev.Log, points: ConversationPoints) -> None:
        self.rules = rules
        self.memory = memory
        self.limits = limits
        self.log = log
        self.points = points
        self.entries: list[Entry] = []

    def _decide(self, decision: Decision, slot: Slot | None) -> Decision:
        log_decision(self.log, decision, slot)
        return decision

    def save(self, slot: Slot, compare: PromptComparison, system: Sequence[int]) -> None:
        """Store a copy of the slot's tokens, state and checkpoints; ``system`` precedes the tokens. The slot is
        unchanged."""
        self.log.emit(slot_ev.PcBegin())
        self.log.emit(slot_ev.PcSave(len(slot.tokens), ev.mib(self.memory.size_of(slot.id, partial=False)), 0.0))
        facts, rest = [], discarded(slot.tokens, slot.kept, slot.discarded)
        self.log.look(COMPARED * len(self.entries))
        for entry in self.entries:
            found = compare.common(entry.tokens, rest)
            facts.append(EntryFacts(len(entry.tokens), len(rest), found.cache, found.prompt))
        decision = self._decide(self.rules.pc_alloc(facts), slot)
        plan: Admission = decision.value
        for i in plan.obsolete:
            self.log.emit(slot_ev.PcObsolete(len(self.entries[i].tokens)))
            self.points.lost(self.entries[i], "evicted", decision.rule)
        self.entries = [e for i, e in enumerate(self.entries) if i not in plan.obsolete]
        if plan.verdict == "already":
            self.log.emit(slot_ev.PcAlready())
            return
        blob = self.memory.get(slot.id, partial=False)
        size = blob.size + sum(c.facts.size for c in slot.checkpoints)
        entry = Entry(
            list(slot.tokens),
            tuple(slot.checkpoints),
            blob=blob,
            size=size,
            kept=slot.kept,
            discarded=slot.discarded,
            system=tuple(system),
        )
        self.entries.append(entry)
        self.points.stored(entry)

    def load(self, slot: Slot, compare: PromptComparison, least_keep: float) -> None:
        """Load the best entry into the slot if it is better than the slot's content."""
        held = compare.facts(slot.tokens, slot.kept, slot.discarded)
        base = self.rules.pc_load([], held, least_keep)
        kept = ev.share(base.because["f_keep"]) if held.n_tokens else NAN_SHARE
        self.log.emit(slot_ev.PcSearch(kept, ev.share(base.because["f_sim"])))
        self.log.look(COMPARED * len(self.entries))
        facts = [self._reach(e, compare.facts(e.tokens, e.kept, e.discarded)) for e in self.entries]
        decision = self._decide(self.rules.pc_load(facts, held, least_keep), slot)
        peek = self._decide(self.rules.pc_peek(compare.marks is not None), slot)
        if decision.value is not None:
            self._restore(slot, decision)
        if peek.value:
            full, self.entries = self.entries, [replace(entry, tokens=[]) for entry in self.entries]
            for entry, left in zip(full, self.entries, strict=True):
                self.points.stored(left, "cleared", peek.rule, instead=entry)
            if decision.value is None:
                slot.tokens.clear()
            self.points.changed(slot, "cleared", peek.rule)

    def _reach(self, entry: Entry, facts: EntryFacts) -> EntryFacts:
        """Add the length from which evaluation could resume within the common prefix of an entry: its whole length, or
        with recurrent layers the end of a checkpoint."""
        if not facts.n_cache:
            return facts
        if not self.memory.kind.states or facts.n_cache == len(entry.tokens):
            return facts._replace(reach=facts.n_cache)
        ends = [c.facts.pos_max + 1 for c in entry.checkpoints if c.facts.pos_max + 1 < facts.n_cache]
        return facts._replace(reach=max(ends, default=0))

    def _restore(self, slot: Slot, decision: Decision) -> None:
        entry = self.entries[decision.value]
        self.log.emit(slot_ev.PcLoad(ev.share(decision.because["f_keep"]), ev.share(decision.because["f_sim"])))
        if not self.memory.set(slot.id, entry.blob):
            self.log.emit(slot_ev.PcLoadFailed())       # once for the state, once for the prompt
            self.log.emit(slot_ev.PcLoadFailed())
            failed = self._decide(self.rules.pc_failed(len(slot.tokens)), slot)
            if failed.value:
                slot.tokens.clear()
                slot.checkpoints.clear()
                self.points.changed(slot, "cleared", failed.rule)
            return
        slot.tokens = list(entry.tokens)
        slot.checkpoints = list(entry.checkpoints)
        slot.source = "entry"
        slot.kept, slot.discarded = entry.kept, entry.discarded
        self.points.changed(slot, "overwritten", decision.rule)
        after = self._decide(self.rules.pc_after_hit(decision.value), slot)
        if after.value:
            del self.entries[decision.value]
            self.points.lost(entry, "consumed", after.rule)

    def clear(self, rule: str) -> None:
        """Remove all entries."""
        for entry in self.entries:
            self.points.lost(entry, "cleared", rule)
        self.entries = []

    def update(self) -> None:
        """Evict the oldest entries over the limit, then log the remaining entries."""
        sizes, lengths = [e.size for e in self.entries], [len(e.tokens) for e in self.entries]
        decision = self._decide(self.rules.pc_update(sizes, lengths, self.limits), None)
        plan: Eviction = decision.value
        for _ in range(plan.for_size):
            gone = self.entries.pop(0)
            self.points.lost(gone, "evicted", decision.rule)
            self.log.emit(slot_ev.PcEvict(ev.mib(gone.size)))
        total = sum(e.size for e in self.entries)
        limit = self.limits.size / MIB
        self.log.emit(slot_ev.PcState(
            len(self.entries), ev.mib(total), limit_mib=limit, limit_tokens=self.limits.tokens, est=plan.est
        ))
        self.log.look(len(self.entries))
        for e in self.entries:
            self.log.emit(_listed(len(e.tokens), e.discarded, len(e.checkpoints), e.size))
