"""Text of the memory and the micro-batches of a request, from the data of ``run_data`` or ``answer_data``."""

from __future__ import annotations

from typing import Any, Iterator, Mapping, Sequence

from cachesim.base.errors import counted
from cachesim.engines.point_kinds import CHECKPOINT, CONVERSATION

MOST = 8               # stored objects and micro-batches listed individually
Data = Mapping[str, Any]


def memory_parts(request: Data) -> Iterator[str]:
    """Yield the sizes of stored objects, the memory of the draft model, and the micro-batches."""
    for kind, noun in ((CHECKPOINT, "checkpoints"), (CONVERSATION, "entries")):
        found = [size for size in request["sizes"] if size["kind"] == kind]
        if found:
            total = sum(size["bytes"] for size in found)
            more = ", .." * (len(found) > MOST)
            yield f"{noun}: {total:,} bytes ({', '.join(_size(size) for size in found[:MOST])}{more})"
    if request["uncounted"]:
        yield f"{request['uncounted']:,} more bytes that the server does not count"
    if request["draft_memory"] is not None:
        yield _draft(request["draft_memory"])
    for model, behind in (("target", ""), ("draft", " of the draft model")):
        batches = [batch for batch in request["micro_batches"] if batch["part"] == model]
        if batches:
            number = counted(sum(batch["repeats"] for batch in batches), "micro-batch", "micro-batches")
            yield f"{number}{behind}: {_batches(batches)}"


def _size(size: Data) -> str:
    """Return ``60 tokens 15,360``, with the type of an entry and the bytes of its parts."""
    parts = ", ".join(f"{size[f'{part}_bytes']:,} {part}" for part in ("draft", "checkpoint") if size[f"{part}_bytes"])
    name = f"{size['entry_type']} " if size["entry_type"] else ""
    return f"{name}{counted(size['tokens'], 'token')} {size['bytes']:,}{f' with {parts}' if parts else ''}"


def _draft(draft: Data) -> str:
    if not draft["rows"]:
        return "draft memory: empty"
    state = f", state at {draft['state_pos']}" if draft["state_pos"] >= 0 else ""
    span = f"positions {draft['pos_min']}..{draft['pos_max']}"
    return f"draft memory: {counted(draft['rows'], 'row')}, {span}{state}, {draft['bytes']:,} bytes"


def _batches(batches: Sequence[Data]) -> str:
    """Return ``slot 0: 0..65, slot 0: 66..69``; runs of a micro-batch are joined with +, repeated ones are counted."""
    shown = [_batch(batch) for batch in batches[:MOST]]
    return ", ".join(shown) + ", .." * (len(batches) > MOST)


def _batch(batch: Data) -> str:
    runs = " + ".join(f"slot {seq}: {_span(pos, n)}" for seq, pos, n in batch["spans"])
    return f"{batch['repeats']} from {runs} on" if batch["repeats"] > 1 else runs


def _span(pos: int, n: int) -> str:
    return f"{pos}" if n == 1 else f"{pos}..{pos + n - 1}"
