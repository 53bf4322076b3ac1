"""Memory and micro-batches of a request as plain data: bytes of stored objects, memory of the draft model, and tokens
that were evaluated together."""

from __future__ import annotations

from typing import Any, Iterable

from cachesim.events import Event, MicroBatch
from cachesim.judging.judgement import Judgement


def memory_data(judgement: Judgement, events: Iterable[Event]) -> dict[str, Any]:
    """Return the sizes of all stored objects after a step [bytes], the bytes that the server does not count, the memory
    of the draft model for the slot (None without a draft model), and the micro-batches. ``events``: those of the
    step."""
    draft = judgement.draft
    return {
        "sizes": [size._asdict() for size in judgement.sizes],
        "uncounted": judgement.uncounted,
        "draft_memory": None if draft is None else draft._asdict(),
        "micro_batches": micro_batches(events),
    }


def micro_batches(events: Iterable[Event]) -> list[dict[str, Any]]:
    """Return the micro-batches of a request in order. ``spans``: slot, first position and number of tokens of each run.
    ``repeats``: number of micro-batches of the model in a row that each continue the runs of the one before, as a
    generation does."""
    found: list[dict[str, Any]] = []
    newest: dict[str, dict[str, Any]] = {}
    for event in events:
        if not isinstance(event, MicroBatch):
            continue
        last = newest.get(event.model)
        if last is not None and [[seq, pos - n * last["repeats"], n] for seq, pos, n in event.runs] == last["spans"]:
            last["repeats"] += 1
        else:
            newest[event.model] = {"part": event.model, "spans": [list(run) for run in event.runs], "repeats": 1}
            found.append(newest[event.model])
    return found
