"""Earlier decisions that cost a request a restore point: a removed checkpoint that the request could have resumed from.

Such a cause is stated only if printed numbers prove it: every request of the slot since the removal had the removed
tokens in common with the slot, no line shows that the slot lost or replaced them, and the excerpt cannot lack such a
line.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from itertools import pairwise
from typing import Iterator, NamedTuple, Sequence

from cachesim.engines.shared.log_grammar import LogGrammar
from cachesim.engines.shared.log_signatures import SEARCHES, RemovedPoint, Signature
from cachesim.tools.server_logs.facts.logged_requests import checkpoint_end
from cachesim.tools.server_logs.facts.proven_range import ProvenRange
from cachesim.tools.server_logs.facts.request_numbers import DerivedNumbers
from cachesim.tools.server_logs.facts.statements import Statement, conclusion
from cachesim.tools.server_logs.lines.read_lines import LineSieve, ReadLine

_OF_SLOT = frozenset({"slot_clear", "ctx_shift", "reuse_chunk", "reuse_result", "trim_failed", "copy_to_child",
                      "copy_shared", "ckpt_from_file", "ckpt_restore_failed", "spec_restore"})  # fmt: skip
_OF_SERVER = frozenset({"pc_load", "slot_purge", "cache_clear", "kv_full", "pc_load_failed"})
"""Kinds of lines after which a slot may have other contents or other checkpoints."""
_BREAKS = _OF_SLOT | _OF_SERVER
_MADE = "ckpt_create"
_BACK = 100                  # requests of the slot before a request in which removals are looked up, at most


class _Removal(NamedTuple):
    """Line that reports a removed restore point, and the number of its request in the slot's requests."""

    end: int
    line: ReadLine
    at: int
    point: RemovedPoint
    signature: Signature


class EarlierCauses:
    """Search for earlier decisions in the lines of a server run."""

    def __init__(
        self, lines: Sequence[ReadLine], requests: Sequence[DerivedNumbers], grammar: LogGrammar, sieve: LineSieve
    ) -> None:
        self.grammar, self.sieve = grammar, sieve
        self.slots: dict[int, list[DerivedNumbers]] = {}
        self.places: dict[int, int] = {}                   # id of a request's numbers -> place among those of its slot
        for one in requests:
            if one.request.slot is not None:
                of_slot = self.slots.setdefault(one.request.slot, [])
                self.places[id(one)] = len(of_slot)
                of_slot.append(one)
        self.removing = {kind: one for one in grammar.signatures if one.removed is not None for kind in one.kinds}
        self.heads = {line.head for line in lines if line.read.slot is None and line.read.task is None}
        self.breaks = [line for line in lines if line.read.line.ev in _BREAKS]
        self.breaks_at = [line.number for line in self.breaks]

    def of(self, derived: DerivedNumbers) -> Iterator[Statement]:
        """Yield the earlier decision that cost a request its nearest removed restore point."""
        request, kept = derived.request, derived.numbers.get("cache_n")
        shared, length = derived.numbers.get("lcp"), derived.numbers.get("n_tokens")
        searched = {line.kind for line in request.lines} & (SEARCHES - {"trim_failed"})
        if request.slot is None or request.is_doubtful or not searched:
            return
        if kept is None or not kept.is_exact or shared is None:
            return
        most = min(shared.low, (length.low if length is not None else shared.low) - 1)
        of_slot, here = self.slots[request.slot], self.places[id(derived)]
        removals = self._removals(of_slot, here, kept.low, most)
        found = max(removals, key=lambda one: (one.end, one.line.number), default=None)
        if found is None or not _is_restorable(found.point, derived, shared.low):
            return
        if self._is_proven(found, of_slot, here, shared):
            yield self._statement(found, derived, of_slot[found.at : here + 1], kept)

    def _removals(self, of_slot: Sequence[DerivedNumbers], here: int, low: int, high: int) -> Iterator[_Removal]:
        """Yield the removed restore points after ``low`` tokens and at most ``high``, of the requests before a request
        of a slot, as far as all later ones had these tokens in common with the slot."""
        for at in range(here - 1, max(-1, here - 1 - _BACK), -1):
            for line in of_slot[at].request.lines:
                signature = self.removing.get(line.kind)
                point = signature.removed(line.read.numbers) if signature and signature.removed else None
                if signature is not None and point is not None and low < point.low and point.high <= high:
                    yield _Removal(end=point.high, line=line, at=at, point=point, signature=signature)
            shared = of_slot[at].numbers.get("lcp")
            high = min(high, shared.low if shared is not None else 0)
            if high <= low:
                return

    def _is_proven(self, found: _Removal, of_slot: Sequence[DerivedNumbers], here: int, shared: ProvenRange) -> bool:
        """True if the slot kept the removed tokens from the removal to the request, and the excerpt shows
        everything in between."""
        chain, slot = of_slot[found.at : here + 1], of_slot[here].request.slot
        first, last = chain[0].request, chain[-1].request
        start = last.start
        if start is None or not all(_continues(before, after) for before, after in pairwise(chain)):
            return False
        made = [(line.number, end) for one in chain[:-1] for line in one.request.of(_MADE)
                if (end := checkpoint_end(line)) is not None]  # fmt: skip
        own = any(number < found.line.number and end == found.end for number, end in made)
        for one in chain[1:] if own else chain:
            prefix = one.numbers.get("lcp")
            if one.request.is_doubtful or one.request.start is None or prefix is None or prefix.low < found.end:
                return False
        if any(one.request.of("full_reprocess") for one in chain[1:-1]):
            return False
        within = [(number, end) for number, end in made
                  if found.end <= end and (shared.high is None or end <= shared.high)]  # fmt: skip
        if any(end > found.end or number > found.line.number for number, end in within):
            return False
        begin = (first.choice or first.lines[0]).number
        between = slice(bisect_right(self.breaks_at, begin), bisect_left(self.breaks_at, last.lines[-1].number))
        if any(line.kind in _OF_SERVER or line.slot == slot for line in self.breaks[between]):
            return False
        return not self._may_lack_lines(start, found.line)

    def _may_lack_lines(self, start: ReadLine, removal: ReadLine) -> bool:
        """True if the excerpt may lack a launch in the slot, a line about the slot, or one about the server."""
        launch = _without_task(start) + start.read.line.template
        of_slot = {_without_task(removal) + text for text in self._templates(_OF_SLOT)}
        of_server = self._templates(_OF_SERVER)
        return self.sieve.hides({launch, *of_slot}) or all(
            self.sieve.hides({head + text for text in of_server}) for head in self.heads
        )

    def _templates(self, kinds: frozenset[str]) -> list[str]:
        """Return the messages of these kinds of lines."""
        return [line.template for line in self.grammar.lines if line.ev in kinds]

    def _statement(
        self, found: _Removal, derived: DerivedNumbers, chain: Sequence[DerivedNumbers], kept: ProvenRange
    ) -> Statement:
        point = found.point
        lost = (point.low - kept.low, point.high - kept.low)
        used = {found.line.number} | kept.lines
        for one in chain:
            used |= one.numbers["lcp"].lines if "lcp" in one.numbers else frozenset()
        amount = f"{lost[0]:,}" if lost[0] == lost[1] else f"{lost[0]:,} to {lost[1]:,}"
        says = f"{found.signature.says[0]}: its {point.high:,} tokens are a prefix of this prompt ({amount} lost)"
        numbers = {"cause": found.signature.key, "lost": lost[0] if lost[0] == lost[1] else list(lost)}
        return conclusion("cause", sorted(used), numbers, says, about=derived.request)


def _continues(before: DerivedNumbers, after: DerivedNumbers) -> bool:
    """True if a request found as many tokens in the slot as the one before it left there."""
    end, held = before.numbers.get("end"), after.numbers.get("held")
    first, second = before.request.task, after.request.task
    is_later = first is not None and second is not None and first < second
    return is_later and end is not None and held is not None and end.meets(held)


def _is_restorable(point: RemovedPoint, derived: DerivedNumbers, shared: int) -> bool:
    """True if a request with this common prefix could have restored a checkpoint."""
    tholds = [thold for line in derived.request.of("ckpt_check") if (thold := line.number_of("thold")) is not None]
    least = min(tholds) if tholds else shared - 1 if point.first == point.last else 0
    return point.first < least and point.last < shared


def _without_task(line: ReadLine) -> str:
    """Return the prefix of a line as it may be for another task."""
    return re.sub(rf"(?<!\d){line.task}(?!\d)", "#", line.head)
