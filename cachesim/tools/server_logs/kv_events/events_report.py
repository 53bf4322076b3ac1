"""Report on KV events: what the messages say, and the blocks that were stored again after they had left."""

from __future__ import annotations

from typing import Any, Iterator

from rich.console import RenderableType
from rich.text import Text

from cachesim.base.errors import counted, first_of
from cachesim.base.layout import WholeTable
from cachesim.tools.server_logs.kv_events.block_history import (
    CLEARING,
    MOST_PUBLISHERS,
    REMOVAL,
    RESTART,
    BlockHistory,
    Missed,
)
from cachesim.tools.server_logs.kv_events.missed_totals import MissedTotals

Data = dict[str, Any]
ROWS = 20                   # rows of the table without -v
UNSURE = ("unnumbered", "unreadable", "forgotten", "of other publishers")
"""Counts of what makes totals minimums, beside gaps."""
REASONS = {CLEARING: "the cache was cleared", RESTART: "the publisher began again at 0"}


def events_data(history: BlockHistory, file: str) -> Data:
    """Return the data of the report on a file, with all its rows."""
    totals = MissedTotals()
    for missed in history.missed:
        totals.add(missed)
    return {**totals_data(history, totals, file), "missed": [missed_data(one) for one in history.missed]}


def totals_data(history: BlockHistory, totals: MissedTotals, file: str) -> Data:
    """Return the data of a report without its rows. ``file``: file or endpoint."""
    counts = history.counts
    names = ("messages", "stored", "removed", "clearings", "restarts", "repeated", "unnumbered", "missing",
             "unreadable", "forgotten")  # fmt: skip
    return {
        "file": file, **{name: counts[name] for name in names},
        "of_other_publishers": counts["of other publishers"],
        "removed_unseen": counts["removed, not seen stored"], "present": history.present(),
        "first_message": history.first_seq,
        "gaps": [{"after": gap.after, "before": gap.before, "messages": gap.messages} for gap in history.gaps],
        "unknown_fields": [{"name": name, "number": n} for name, n in history.unknown.most_common()],
        **totals.data(),
        "undecided": any(counts[name] for name in ("gaps", *UNSURE)),
    }  # fmt: skip


def missed_data(missed: Missed) -> Data:
    """Return a row as data."""
    return {
        "message": missed.moment.seq, "ts": missed.moment.ts, "blocks": missed.blocks, "tokens": missed.tokens,
        "group": missed.group, "medium": missed.medium, "first_block": str(missed.block_hashes[0]),
        "left": {"message": missed.left.moment.seq, "ts": missed.left.moment.ts, "why": missed.left.why,
                 "stored": missed.left.stored},
        "copies": list(missed.copies), "undecided": missed.undecided,
        "requests": None if missed.requests is None else sorted(missed.requests),
    }  # fmt: skip


def missed_text(row: Data) -> str:
    """Return a row as a line."""
    return (f"message {_moment(row)}: {counted(row['blocks'], 'block')}, {row['tokens']:,} tokens stored again; "
            f"requests: {_requests(row)}; left in {_reason(row)}")  # fmt: skip


def events_report(data: Data, everything: bool) -> Iterator[RenderableType]:
    """Yield the text of a report. ``everything``: all rows."""
    yield from map(Text, totals_text(data))
    missed = data["missed"]
    if not missed:
        return
    shown = missed if everything else sorted(missed, key=lambda row: -row["tokens"])[:ROWS]
    table = WholeTable("message", "blocks", "tokens", "requests", "left", pad_edge=False)
    for row in shown:
        table.add_row(_moment(row), f"{row['blocks']:,}", f"{row['tokens']:,}", _requests(row), _reason(row))
    yield table
    if len(shown) < len(missed):
        yield Text(f"{len(missed) - len(shown):,} more rows (-v)")


def totals_text(data: Data) -> Iterator[str]:
    """Yield the lines of a report without its rows."""
    blocks = f"{counted(data['stored'], 'block')} stored, {data['removed']:,} removed, {data['present']:,} present"
    yield f"{counted(data['messages'], 'message')}: {blocks} at the end; cleared {data['clearings']:,} times"
    yield from _remarks(data)
    if not data["missed_blocks"]:
        seen = "undecided whether a block was" if data["undecided"] else "no block was"
        yield f"{seen} stored again after it had left"
        return
    least = "at least " if data["undecided"] else ""
    yield (f"stored again after they had left: {least}{counted(data['missed_blocks'], 'block')}, "
           f"{data['missed_tokens']:,} tokens (each group of layers counts by itself)")  # fmt: skip
    if data["bodies"] and not data["bodies_joined"]:
        yield (f"no block is in the prompts of the {data['bodies']:,} requests: another server, tokenizer or chat "
               f"template")  # fmt: skip
    requests = sorted(data["requests"], key=lambda one: -one["tokens"])
    for one in requests[:ROWS]:
        others = "" if one["alone"] == one["blocks"] else f"; {one['blocks'] - one['alone']:,} also in other prompts"
        yield (f"in the prompt of request {one['request']}: {counted(one['blocks'], 'block')}, "
               f"{one['tokens']:,} tokens{others}")  # fmt: skip
    if len(requests) > ROWS:
        yield f"in the prompts of {len(requests) - ROWS:,} more requests (--json)"


def _remarks(data: Data) -> Iterator[str]:
    """Yield lines on what the file does not show."""
    if data["gaps"]:
        places = first_of([f"{gap['after']} to {gap['before']}" for gap in data["gaps"]])
        lost = counted(data["missing"], "message")
        yield f"{lost} missing, between {places}: what they may have changed is undecided"
    if data["unreadable"]:
        yield f"{counted(data['unreadable'], 'message')} cannot be read: what they changed is undecided"
    if data["of_other_publishers"]:
        yield f"{counted(data['of_other_publishers'], 'message')} of more than {MOST_PUBLISHERS} publishers skipped"
    if data["forgotten"]:
        yield f"{counted(data['forgotten'], 'block')} forgotten: if it is stored again, it is not listed"
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
