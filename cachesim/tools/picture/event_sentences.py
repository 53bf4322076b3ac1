"""Sentences of a timeline: a decision in the words of its engine, a change of the memory in words that are the same for
every engine. Events without a sentence are not shown: their changes belong to the next sentence."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from functools import lru_cache
from operator import itemgetter
from typing import Any, Iterable, Iterator, Mapping, Sequence

from cachesim.engines.rule import role_of
from cachesim.engines.shared.slot_events import CtxShift, Error, PcLoad, ReuseChunk, Warn
from cachesim.events import Aborted, Decided, Event, SeqRm
from cachesim.judging.verdict_text import QUIET, sentence
from cachesim.tools.picture.event_stream import CaptionedWalk, EventWalk, SlotContents, Span


def told(found: EventWalk) -> CaptionedWalk:
    """Return an event log in sentences."""
    says, shown = list[str](), list[bool]()
    for event in found.events:
        effect = isinstance(event, Decided) and has_effect(event) and _decision(event)
        says.append(f"{event.rule}: {effect}" if isinstance(event, Decided) and effect else _noted(event))
        shown.append(bool(effect))
    before, slots = 0, set[int]()                       # slots that changed after event ``before``
    later = deque(sorted((k, slot) for slot, changes in found.held.items() for k, _ in changes))
    for k in _ends(found, says):
        while later and later[0][0] <= k:
            slots.add(later.popleft()[1])
        if changes := "; ".join(_changes(found, sorted(slots), before, k)):
            says[k] = f"{says[k]}; {changes}" if says[k] and not shown[k] else says[k] or changes
        if says[k]:
            before = k
            slots.clear()
    return CaptionedWalk(found, says, shown)


def has_effect(event: Decided) -> bool:
    """True if ``why`` shows a decision without -v."""
    return role_of(event.rule) not in QUIET and bool(_decision(event))


def _decision(event: Decided) -> str:
    return sentence(event.rule, event.value, event.because)


def _noted(event: Event) -> str:
    """Return a sentence about an event that changes no memory by itself, or whose change would not explain itself."""
    if isinstance(event, SeqRm) and not event.ok:
        return f"the memory refuses to remove the rows from position {event.p0} on"
    if isinstance(event, PcLoad):
        return "the entry is read into the slot"
    if isinstance(event, CtxShift):
        return f"context shift: {event.n_discard} tokens after the first {event.n_keep} go, later rows move down"
    if isinstance(event, ReuseChunk):
        return f"{event.n} rows move from position {event.c0} to {event.p0}"
    return event.text if isinstance(event, Warn | Error | Aborted) else ""


def _ends(found: EventWalk, says: Sequence[str]) -> Iterator[int]:
    """Yield the events at which the timeline may stop: those with a sentence, and the last before a sentence, before
    another request, and before a change of another kind."""
    kinds, kind = _kinds(found), frozenset[str]()
    for k, row in enumerate(found.rows):
        kind = kinds.get(k, kind)
        after = kinds.get(k + 1, kind)
        if says[k] or k + 1 == len(found.rows) or says[k + 1] or found.rows[k + 1] != row or after != kind:
            yield k
            kind = frozenset() if says[k] else kind


def _kinds(found: EventWalk) -> dict[int, frozenset[str]]:
    """Return the kinds of memory that change at each event."""
    kinds = {k: {"entries"} for k, _ in found.entries}
    for changes in found.held.values():
        for (_, was), (k, now) in zip([(0, SlotContents()), *changes], changes, strict=False):
            changed = kinds.setdefault(k, set())
            if _evaluated(was) != _evaluated(now):
                changed.add("rows")
            if was.checkpoints != now.checkpoints:
                changed.add("checkpoints")
    return {k: frozenset(some) for k, some in kinds.items() if some}


def _evaluated(held: SlotContents) -> tuple[object, ...]:
    """Return what evaluation writes: the contents without the tokens and the checkpoints."""
    return held[SlotContents._fields.index("rows") : SlotContents._fields.index("checkpoints")]


def _changes(found: EventWalk, slots: Iterable[int], before: int, k: int) -> Iterator[str]:
    """Yield what changed in these slots and in the prompt cache after event ``before``, up to event ``k``."""
    old, new = (at_event(found.entries, when, ()) for when in (before, k))
    lengths = {tokens for _, tokens in (*old, *new)}
    for slot in slots:
        was, now = slot_change(found, slot, before, k)
        if was != now:
            mine = "; ".join(_held(was, now, lengths))
            yield from [f"slot {slot}: {mine}" if len(found.held) > 1 else mine] * bool(mine)
    yield from (f"entry of {tokens} tokens saved" for column, tokens in new if (column, tokens) not in old)
    yield from (f"entry of {tokens} tokens removed" for column, tokens in old if (column, tokens) not in new)


def slot_change(found: EventWalk, slot: int, before: int, k: int) -> tuple[SlotContents, SlotContents]:
    """Return the contents of a slot at event ``before`` and at event ``k``. If an entry of the prompt cache replaced
    everything in between, the slot counts as empty before."""
    changes = found.held[slot]
    was, now = (at_event(changes, when, SlotContents()) for when in (before, k))
    fresh = now.rows and any(before < at <= k and any(when == at for when, _ in changes)
                             for at, _ in found.owners.get(slot, ()))  # fmt: skip
    return (SlotContents() if fresh and was != now else was), now


def _held(was: SlotContents, now: SlotContents, stored: set[int]) -> Iterator[str]:
    """Yield the changes of a slot. ``stored``: lengths of entries that are named by themselves; an engine without
    checkpoints reports entries as such."""
    for name, old, new in (("rows", was.rows, now.rows), ("window rows", was.window, now.window),
                           ("index rows", was.index_rows, now.index_rows)):  # fmt: skip
        if old == new:
            continue
        yield from (f"{name} {low} to {high - 1} erased" for low, high in minus(old, new))
        yield from (f"{name} {low} to {high - 1} written" for low, high in minus(new, old))
    yield from _numbered(dict(was.compressed), dict(now.compressed))
    if now.state != was.state:
        yield "state erased" if now.state is None else f"state after {now.state} tokens"
    for some, others, verb in ((was, now, "erased"), (now, was, "created")):
        marks = [length for length in _lengths_of_new(some.checkpoints, others.checkpoints) if length not in stored]
        if marks:
            yield f"checkpoint{'s' * (len(marks) > 1)} of {' and '.join(map(str, marks))} tokens {verb}"


def _numbered(was: Mapping[int, int], now: Mapping[int, int]) -> Iterator[str]:
    """Yield the changes of compressed rows, numbers of rows by ratio. Rows beyond the last token are hidden; a slot
    that holds no token has none."""
    for ratio in sorted({*was, *now}):
        old, new = was.get(ratio, 0), now.get(ratio, 0)
        if old != new:
            verb = "written" if new > old else "hidden" if any(now.values()) else "erased"
            low, high = sorted((old, new))
            yield f"compressed rows {low} to {high - 1} of {ratio} tokens {verb}"


@lru_cache(maxsize=8)                                    # requests that share all checkpoints have the same change
def _lengths_of_new(some: Sequence[Sequence[int]], others: Sequence[Sequence[int]]) -> list[int]:
    """Return the lengths of some checkpoints that are not among others."""
    known = set(others)
    return [one[0] for one in some if one not in known]


def minus(some: Iterable[Span], others: Iterable[Span]) -> list[Span]:
    """Return the parts of ``some`` ranges that are not in ``others``."""
    out = []
    for low, high in some:
        for start, stop in sorted(others):
            if start < high and stop > low:
                if start > low:
                    out.append((low, start))
                low = max(low, stop)
        if low < high:
            out.append((low, high))
    return out


def at_event(changes: Sequence[tuple[int, Any]], k: int, nothing: Any) -> Any:
    """Return the last value that is not later than event ``k``."""
    at = bisect_right(changes, k, key=itemgetter(0))
    return changes[at - 1][1] if at else nothing
