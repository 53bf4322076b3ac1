"""Report on KV events: what the file has, and the blocks that were stored again after they had left."""

from __future__ import annotations

from typing import Any, Iterator

from rich.console import RenderableType
from rich.text import Text

from cachesim.base.errors import counted, first_of
from cachesim.base.layout import WholeTable
from cachesim.tools.server_logs.kv_events.block_history import CLEARING, REMOVAL, RESTART, BlockHistory, Missed

Data = dict[str, Any]
ROWS = 20                   # rows of the table without -v
REASONS = {CLEARING: "the cache was cleared", RESTART: "the publisher began again at 0"}


def events_data(history: BlockHistory, file: str) -> Data:
    """Return the report's data."""
    counts = history.counts
    names = ("messages", "stored", "removed", "clearings", "restarts", "repeated", "unnumbered")
    return {
        "file": file, **{name: counts[name] for name in names},
        "removed_unseen": counts["removed, not seen stored"], "present": history.present(),
        "first_message": history.first_seq,
        "gaps": [{"after": gap.after, "before": gap.before, "messages": gap.messages} for gap in history.gaps],
        "unknown_fields": [{"name": name, "number": n} for name, n in history.unknown.most_common()],
        "missed": [_row(one) for one in history.missed],
        "undecided": bool(history.gaps or counts["unnumbered"]),
    }  # fmt: skip


def _row(missed: Missed) -> Data:
    return {
        "message": missed.moment.seq, "ts": missed.moment.ts, "blocks": missed.blocks, "tokens": missed.tokens,
        "group": missed.group, "medium": missed.medium, "first_block": str(missed.block_hashes[0]),
        "left": {"message": missed.left.moment.seq, "ts": missed.left.moment.ts, "why": missed.left.why,
                 "stored": missed.left.stored},
        "copies": list(missed.copies), "undecided": missed.undecided,
        "requests": None if missed.requests is None else sorted(missed.requests),
    }  # fmt: skip


def events_report(data: Data, everything: bool) -> Iterator[RenderableType]:
    """Yield the text of a report. ``everything``: all rows."""
    blocks = f"{counted(data['stored'], 'block')} stored, {data['removed']:,} removed, {data['present']:,} present"
    yield Text(f"{counted(data['messages'], 'message')}: {blocks} at the end; cleared {data['clearings']:,} times")
    yield from map(Text, _remarks(data))
    missed = data["missed"]
    if not missed:
        seen = "undecided whether a block was" if data["undecided"] else "no block was"
        yield Text(f"{seen} stored again after it had left")
        return
    total = sum(row["tokens"] for row in missed)
    least = "at least " if data["undecided"] else ""
    yield Text(f"stored again after they had left: {least}{counted(sum(row['blocks'] for row in missed), 'block')}, "
               f"{total:,} tokens (each group of layers counts by itself)")  # fmt: skip
    shown = missed if everything else sorted(missed, key=lambda row: -row["tokens"])[:ROWS]
    table = WholeTable("message", "blocks", "tokens", "requests", "left", pad_edge=False)
    for row in shown:
        table.add_row(_moment(row), f"{row['blocks']:,}", f"{row['tokens']:,}", _requests(row), _reason(row))
    yield table
    if len(shown) < len(missed):
        yield Text(f"{len(missed) - len(shown):,} more rows (-v)")


def _remarks(data: Data) -> Iterator[str]:
    """Yield lines on what the file does not show."""
    if data["gaps"]:
        places = first_of([f"{gap['after']} to {gap['before']}" for gap in data["gaps"]])
        lost = sum(gap["messages"] for gap in data["gaps"])
        yield f"{counted(lost, 'message')} missing, between {places}: what they may have changed is undecided"
    if data["unnumbered"]:
        yield "messages without sequence numbers: lost ones cannot be seen, so all rows are undecided"
    if data["first_message"]:
        yield f"the file begins with message {data['first_message']}: blocks stored before are not known"
    if data["restarts"]:
        yield f"the publisher began again {data['restarts']:,} times"
    if data["repeated"]:
        yield f"{counted(data['repeated'], 'repeated message')} skipped"
    if data["removed_unseen"]:
        yield f"{counted(data['removed_unseen'], 'removed block')} not seen stored"
    if data["unknown_fields"]:
        yield f"not read: {first_of([one['name'] for one in data['unknown_fields']])}"


def _moment(row: Data) -> str:
    """Return the message of a row, with its time stamp."""
    number = "?" if row["message"] is None else str(row["message"])
    return f"{number} at {row['ts']:.6g}"


def _requests(row: Data) -> str:
    if row["requests"] is None:
        return "not known"
    return first_of([str(number) for number in row["requests"]]) or "none"


def _reason(row: Data) -> str:
    """Return when and why blocks left, and what is not certain."""
    left = row["left"]
    text = f"message {'?' if left['message'] is None else left['message']} at {left['ts']:.6g}: "
    if left["why"] == REMOVAL:
        beside = counted(left["stored"], "block")
        text += f"removed; the same message stores {beside}" if left["stored"] else "removed"
    else:
        text += REASONS[left["why"]]
    if row["copies"]:
        text += f"; a copy was in {', '.join(row['copies'])}"
    return f"{text}; undecided" if row["undecided"] else text
