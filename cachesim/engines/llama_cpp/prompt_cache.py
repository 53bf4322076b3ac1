"""The prompt cache in host memory: applies the rules for saving, loading and evicting, and logs the results.

Source: llama.cpp tools/server/server-task.cpp server_prompt_cache, server-context.cpp prompt_save (3f545be).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Sequence

from cachesim import events as ev
from cachesim.base.errors import ProcessAborted
from cachesim.base.tokens import common_prefix
from cachesim.engines.base import Immutable
from cachesim.engines.llama_cpp import events as llama_ev
from cachesim.engines.llama_cpp.memory.context import CommonMemory
from cachesim.engines.llama_cpp.memory.saved_state import LOADING, Blob, StateReadError
from cachesim.engines.llama_cpp.profiles import Rules
from cachesim.engines.llama_cpp.rules.adapters import SavedAdapters, Scales
from cachesim.engines.llama_cpp.rules.prompt_cache import Admission, EntryFacts
from cachesim.engines.llama_cpp.server_flags import MIB
from cachesim.engines.llama_cpp.slot import Checkpoint, Slot
from cachesim.engines.shared import slot_events as slot_ev
from cachesim.engines.shared.conversation_points import ConversationPoints
from cachesim.engines.shared.prompt_cache_limits import Eviction, Limits, part
from cachesim.engines.shared.server_loop import log_decision

LOST = Blob(0, None, None, None)
OTHER = -1               # common prefix with an entry that notes other adapters


@dataclass(frozen=True, slots=True, eq=False)
class Entry(Immutable):
    """Stored conversation. ``size`` [bytes]: state and checkpoints with their headers. ``blob`` is LOST if a load freed
    the state and then failed at the draft context. ``noted``: adapters of its slot, if the build notes them."""

    tokens: list[int]
    checkpoints: tuple[Checkpoint, ...]
    blob: Blob
    size: int
    draft: Blob | None = None
    noted: SavedAdapters | None = None


def _is_seen(entry: Entry, scales: Scales) -> bool:
    """True if an entry is looked at for these adapters."""
    return entry.noted is None or not scales or entry.noted.scales == scales


@lru_cache(maxsize=4096)
def _candidate(n_tokens: int, lcp: int, n_prompt: int) -> llama_ev.PcCand:
    """Return the event of an entry of ``n_tokens`` that shares ``lcp`` tokens with a prompt of ``n_prompt``."""
    f_keep = part(lcp, n_tokens)
    f_sim = part(lcp, n_prompt)
    return llama_ev.PcCand(n_tokens, lcp, ev.share(f_keep), ev.share(f_sim))


@lru_cache(maxsize=4096)
def _listed(n_tokens: int, n_checkpoints: int, size: int) -> llama_ev.PcEntry:
    """Return the event of an entry in the list of all entries. ``size``: bytes."""
    return llama_ev.PcEntry(n_tokens, n_checkpoints, ev.mib(size))


class PromptCache:
    """Entries in order of insertion, oldest first. ``memory``: target and draft memory."""

    def __init__(self, rules: Rules, memory: CommonMemory, limits: Limits, log: ev.Log,
                 points: ConversationPoints) -> None:
        self.rules = rules
        self.memory = memory.tgt
        self.dft = memory.dft
        self.limits = limits
        self.log = log
        self.points = points
        self.entries: list[Entry] = []

    def _facts(self, tokens: Sequence[int], scales: Scales) -> list[EntryFacts]:
        """Return the facts of the entries; those that note other adapters have no common prefix."""
        self.log.look(len(self.entries))
        return [EntryFacts(len(e.tokens), common_prefix(e.tokens, tokens) if _is_seen(e, scales) else OTHER, e.size)
                for e in self.entries]

    def save(self, slot: Slot) -> bool:
        """Store a copy of the slot's contents. The slot is unchanged. Return True if an entry was stored."""
        if not slot.tokens:
            return False
        draft = self.dft.state_size(slot.id, partial=False) + self.rules.host_header if self.dft else 0
        state = self.memory.state_size(slot.id, partial=False) + self.rules.host_header + draft
        self.log.emit(slot_ev.PcSave(len(slot.tokens), ev.mib(state), ev.mib(draft)))
        size = state + sum(c.facts.size for c in slot.checkpoints)
        decision = self.rules.pc_alloc(self._facts(slot.tokens, slot.adapters), len(slot.tokens), size, self.limits)
        log_decision(self.log, decision, slot)
        plan: Admission = decision.value
        if plan.verdict == "already":
            self.log.emit(slot_ev.PcAlready())
        elif plan.verdict == "too_big":
            self.log.emit(llama_ev.PcTooBig(ev.mib(size), ev.mib(self.limits.size)))
        if plan.verdict != "store":
            return False
        for i in plan.obsolete:
            self.log.emit(slot_ev.PcObsolete(len(self.entries[i].tokens)))
            self.points.lost(self.entries[i], "evicted", decision.rule)
        self.entries = [e for i, e in enumerate(self.entries) if i not in plan.obsolete]
        for _ in range(plan.evict):
            self.log.emit(slot_ev.PcEvict(ev.mib(self._evict(decision.rule).size)))
        blob = self.memory.state_write(slot.id, partial=False)
        drafted = self.dft.state_write(slot.id, partial=False) if self.dft else None
        noted = self.rules.adapters.entry(slot.noted)
        if slot.adapters:
            log_decision(self.log, noted, slot)
        self.entries.append(Entry(
            list(slot.tokens), tuple(slot.checkpoints), blob=blob, size=size, draft=drafted, noted=noted.value
        ))
        self.points.stored(self.entries[-1])
        return True

    def _evict(self, rule: str) -> Entry:
        """Evict the oldest entry and return it."""
        gone = self.entries.pop(0)
        self.points.lost(gone, "evicted", rule)
        return gone

    def load(self, slot: Slot, prompt: list[int], scales: Scales, lost: bool) -> bool:
        """Load the entry that rule LC-PC-LOAD picks for the prompt into the slot. Return True also if no entry suits
        the prompt better than the slot's contents, False if an entry was found but not restored (the caller then clears
        the slot). ``scales``: adapters of the request; ``lost``: the slot's tokens count as
        gone for them."""
        held, lcp = (0, 0) if lost else (len(slot.tokens), common_prefix(slot.tokens, prompt))
        self._check_image(slot.tokens, prompt, lcp)
        base = self.rules.pc_load([], held, lcp, len(prompt))
        self.log.emit(slot_ev.PcSearch(ev.share(base.because["f_keep"]), ev.share(base.because["f_sim"])))
        facts = self._facts(prompt, scales)
        self.log.look(len(facts))
        for entry, fact in zip(self.entries, facts, strict=True):
            if fact.lcp == OTHER:
                continue
            self._check_image(entry.tokens, prompt, fact.lcp)
            self.log.emit(_candidate(fact.n_tokens, fact.lcp, len(prompt)))
        decision = self.rules.pc_load(facts, held, lcp, len(prompt))
        log_decision(self.log, decision, slot)
        if decision.value is None:
            return True
        self.log.emit(slot_ev.PcLoad(ev.share(decision.because["f_keep"]), ev.share(decision.because["f_sim"])))
        return self._restore(slot, decision.value, decision.rule)

    def _check_image(self, tokens: Sequence[int], prompt: Sequence[int], lcp: int) -> None:
        """End the process if a token -1 of the prompt meets an image (rule LC-MEDIA-NULL)."""
        if lcp < len(prompt) and prompt[lcp] < 0 and (end := self.rules.media.null(tokens, prompt, lcp)).value:
            raise ProcessAborted(log_decision(self.log, end, None), "token-at-an-image")

    def _restore(self, slot: Slot, index: int, rule: str) -> bool:
        entry = self.entries[index]
        after = self.rules.pc_after_hit(index)
        read = False
        try:
            if entry.blob is LOST:
                # As many bytes as exist were read (none), so the server takes the failed read for a success: the
                # memory stays as it was.
                self.log.emit(slot_ev.Error(f"{LOADING} unexpectedly reached end of buffer"))
            else:
                self.memory.state_read(slot.id, entry.blob)
            read = True
            if self.dft is not None and entry.draft is not None:
                self.dft.state_read(slot.id, entry.draft)
        except StateReadError as error:
            if read and after.value:
                self._mark_lost(index, after.rule)
            for line in error.lines:
                self.log.emit(slot_ev.Error(line))
            self.log.emit(slot_ev.PcLoadFailed())
            self.log.emit(slot_ev.PcLoadFailed(slot.id))
            return False
        slot.tokens, slot.checkpoints = list(entry.tokens), list(entry.checkpoints)
        slot.source, slot.noted = "entry", entry.noted or slot.noted
        self.points.changed(slot, "overwritten", rule)
        log_decision(self.log, after, slot)
        if after.value:
            del self.entries[index]
            self.points.lost(entry, "consumed", after.rule)
        return True

    def _mark_lost(self, index: int, rule: str) -> None:
        """Mark the state of an entry as LOST: the server frees it once it is read, before it reads the draft context's
        state. If that read fails, the entry stays without a state."""
        entry = self.entries[index]
        if entry.blob is not LOST:
            size = entry.size - entry.blob.size - self.rules.host_header
            self.entries[index] = replace(entry, blob=LOST, size=size)
            self.points.stored(self.entries[index], "consumed", rule, instead=entry)

    def update(self) -> None:
        """Evict the oldest entries (rule LC-PC-UPDATE) until the limits are met, then log the remaining entries."""
        sizes, lengths = [e.size for e in self.entries], [len(e.tokens) for e in self.entries]
        decision = self.rules.pc_update(sizes, lengths, self.limits)
        log_decision(self.log, decision, None)
        plan: Eviction = decision.value
        for _ in range(plan.for_size):
            self.log.emit(slot_ev.PcEvict(ev.mib(self._evict(decision.rule).size)))
        for _ in range(plan.for_tokens):
            gone = self._evict(decision.rule)
            self.log.emit(llama_ev.PcEvictTokens(self.limits.tokens, plan.est, ev.mib(gone.size)))
        total, limit = ev.mib(sum(e.size for e in self.entries)), self.limits.size / MIB
        self.log.emit(slot_ev.PcState(
            len(self.entries), total, limit_mib=limit, limit_tokens=self.limits.tokens, est=plan.est
        ))
        self.log.look(len(self.entries))
        for e in self.entries:
            self.log.emit(_listed(len(e.tokens), len(e.checkpoints), e.size))
