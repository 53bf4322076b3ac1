"""Comparison of the lines of a request with the events of a simulated run: a run that contradicts a printed number is
not the run of the log.

Sizes are not compared, because the simulated memory has the sizes of a tiny model. Lines about drafts and further
completions are not compared, because a reconstruction has none; nor are lines about slots between two requests.
"""

from __future__ import annotations

from bisect import bisect_left
from functools import cache
from itertools import islice
from typing import Any, Iterable, Mapping, NamedTuple, Sequence

from cachesim.engines.registry import ENGINES
from cachesim.events import Event, Launch, Release
from cachesim.tools.server_logs.facts.logged_requests import LoggedRequest
from cachesim.tools.server_logs.lines.read_lines import ReadLine

ROUNDING = 0.0015            # difference of shares that were rounded to three decimals, at most
_UNCOMPARED = frozenset({
    "launch", "cancel", "warn", "error", "user_pos", "kv_full", "spec_ckpt", "spec_restore", "spec_step", "pc_begin",
    "reuse_unsupported", "slot_clear", "slot_purge", "idle_save", "slot_skip_busy", "slot_skip_empty", "copy_shared",
    "copy_to_child", "pc_info", "cache_lcp", "prompt_truncated",
})  # fmt: skip
_TIMED = frozenset({"prompt_time", "in_cache"})
_NAMES = frozenset({"slot", "task", "tid", "timestamp", "mib", "mib_draft", "limit_mib", "est", "max", "n_ctx_slot"})
"""Fields without a number that a simulation can contradict: ids, times, sizes, options, and the context of a slot,
which the real model may limit."""
_EARLIER = frozenset({
    "pc_entry", "pc_state", "pc_cand", "pc_load", "pc_already", "pc_obsolete", "pc_evict", "pc_evict_tokens",
    "ckpt_evict", "ckpt_invalidate",
})  # fmt: skip
"""Lines whose numbers depend on requests since the start of the server."""
_OF_WHOLE_PROMPT = frozenset({"slot_by_lcp", "slot_sim", "new_prompt", "pc_search", "pc_cand", "pc_load", "need_one"})
"""Lines with the length of a prompt, or a share of it: of a cancelled prompt only a part is simulated."""
_LATE = frozenset({"release", "prompt_time", "ctx_shift"})
_PART_OF = "n_past was set to"
"""Second line about the last token of a prompt; the first has the event's numbers."""
Fields = Mapping[str, Any]


class Contradiction(NamedTuple):
    """Line that the simulated run does not print. ``printed``: its numbers that differ from those of the next simulated
    event of its kind, all if there is none; ``simulated``: the numbers of that event, None if there is none."""

    line: int
    what: str
    printed: Fields
    simulated: Fields | None


@cache
def compared_kinds(engine: str) -> frozenset[str]:
    """Return the kinds of lines of an engine's log whose numbers a simulation can contradict."""
    logged: Sequence[type[Event]] = (Release, *ENGINES[engine].recorded.events())
    return (frozenset(kind.ev for kind in logged) - _UNCOMPARED) | _TIMED


def printed_lines(request: LoggedRequest, engine: str, started: bool) -> list[ReadLine]:
    """Return the lines of a request whose numbers a simulation can contradict. ``started``: the start of the server is
    in the log; otherwise its prompt cache and checkpoints before the log are unknown."""
    kinds, one = compared_kinds(engine), request.tied
    kinds -= frozenset() if started else _EARLIER
    kinds -= _OF_WHOLE_PROMPT if request.is_cancelled else frozenset()
    if one is None or one.is_doubtful or one.slot is None:
        return []
    lines = [*one.similar, *([one.choice] if one.choice else []), *one.cache, *one.lines]
    return [line if started or line.kind == "slot_sim" else line.without("n") for line in lines
            if line.kind in kinds and not line.text.startswith(_PART_OF)]  # fmt: skip


def early_lines(lines: Iterable[ReadLine], n_tokens: int) -> list[ReadLine]:
    """Return the lines that a server prints until the last of the ``n_tokens`` of a prompt is evaluated."""
    return [line for line in lines if line.kind not in _LATE and (line.number_of("pos_max") or 0) < n_tokens]


def events_by_task(found: Iterable[Event]) -> list[list[Event]]:
    """Return the events of each task that is not a further completion, in the order of their submission. Events about
    slots and the prompt cache belong to the task that is launched next."""
    tasks: dict[int, list[Event]] = {}
    before: list[Event] = []
    for event in found:
        task = getattr(event, "task", None)
        if isinstance(event, Launch) and task is not None:
            if not event.is_child:
                tasks[task], before = [*before, event], []
        elif task is None or event.ev.startswith("slot_"):
            before.append(event)
        elif task in tasks:
            tasks[task].append(event)
    return [tasks[task] for task in sorted(tasks)]


def contradictions(lines: Sequence[ReadLine], found: Sequence[Event], timed: Fields) -> list[Contradiction]:
    """Return the lines that no event matches. The lines of a kind must match events of that kind in the same order;
    lines may be missing from a log. ``timed``: numbers of the answer."""
    out: list[Contradiction] = []
    for kind in dict.fromkeys(line.kind for line in lines):
        events = _SimulatedEvents([timed] if kind in _TIMED else [
            {name: getattr(event, name) for name in event.__match_args__} for event in found if event.ev == kind])
        rows = events.rows
        at = 0
        for line in lines:
            if line.kind != kind:
                continue
            printed = {name: value for name, value in line.read.numbers.items() if name not in _NAMES
                       and not isinstance(value, str) and (not rows or name in rows[0])}  # fmt: skip
            match = events.next_match(printed, at)
            if match is not None:
                at = match + 1
                continue
            names = _differing(printed, rows[at]) if at < len(rows) else list(printed)
            simulated = {name: rows[at][name] for name in names} if at < len(rows) else None
            out.append(Contradiction(line.number, kind, {name: printed[name] for name in names}, simulated))
    return sorted(out, key=lambda one: one.line)


class _SimulatedEvents:
    """Numbers of the simulated events of a kind, in their order: ``rows``. A match is looked up by its whole numbers,
    because a prompt that is evaluated in small batches has thousands of lines and as many events."""

    def __init__(self, rows: Sequence[Fields]) -> None:
        self.rows = rows
        self._indices: dict[str, dict[int, list[int]] | None] = {}

    def next_match(self, printed: Fields, at: int) -> int | None:
        """Return the index of the first event from ``at`` on that has the printed numbers, None if none has."""
        fewest: Sequence[int] = range(len(self.rows))
        for name, value in printed.items():
            indices = None if isinstance(value, float) else self._by_number(name)
            if indices is not None:
                fewest = min(fewest, indices.get(value, []), key=len)
        later = islice(fewest, bisect_left(fewest, at), None)
        return next((index for index in later if not _differing(printed, self.rows[index])), None)

    def _by_number(self, name: str) -> dict[int, list[int]] | None:
        """Return the indices of the events by their value of a field, None if an event has a text there: any number
        agrees with it."""
        if name not in self._indices:
            found: dict[int, list[int]] = {}
            for index, row in enumerate(self.rows):
                found.setdefault(row[name], []).append(index)
            self._indices[name] = None if any(isinstance(value, str) for value in found) else found
        return self._indices[name]


def _differing(printed: Fields, simulated: Fields) -> list[str]:
    """Return the names of the numbers that differ by more than their rounding."""
    return [name for name, value in printed.items()
            if not isinstance(simulated[name], str)
            and abs(value - simulated[name]) > (ROUNDING if isinstance(value, float) else 0)]  # fmt: skip
