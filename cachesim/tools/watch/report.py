"""RowOutput of the rows: a line each, JSON lines, or a table on a terminal that shows the latest; then the totals."""

from __future__ import annotations

import sys
from collections import deque
from textwrap import fill
from typing import TYPE_CHECKING, Any, Mapping, Protocol

from cachesim.base.console import say, say_json, stdout_console
from cachesim.base.errors import counted, cut, stdout_errors

if TYPE_CHECKING:
    from rich.live import Live
    from rich.table import Table

Row = Mapping[str, Any]
SCHEMA = 2                   # version of the JSON form of rows and totals
TEXT, CURE = 300, 160        # characters of a cause and of a cure in a line, at most
MARGIN = 6                   # lines of the terminal that the table leaves free
MOST = 200                   # rows of the table, at most


class RowOutput(Protocol):
    """RowOutput of rows and totals."""

    def row(self, row: Row) -> None:
        """Print a row."""

    def end(self, totals: Row) -> None:
        """Print the totals, after the last row."""


class JsonLines:
    """RowOutput as JSON lines."""

    def row(self, row: Row) -> None:
        """Print a row as an object."""
        _flushed(lambda: say_json({"schema": SCHEMA, "request": dict(row)}))

    def end(self, totals: Row) -> None:
        """Print the totals as the last object."""
        _flushed(lambda: say_json({"schema": SCHEMA, "totals": dict(totals)}))


class TextLines:
    """RowOutput as lines of text."""

    def row(self, row: Row) -> None:
        """Print a row."""
        _flushed(lambda: say(row_text(row)))

    def end(self, totals: Row) -> None:
        """Print the totals."""
        _flushed(lambda: say(totals_text(totals)))


class LiveTable:
    """RowOutput as a table of the latest rows, which changes in place."""

    def __init__(self) -> None:
        self._rows: deque[Row] = deque(maxlen=MOST)
        self._console = stdout_console()
        self._live: Live | None = None

    def row(self, row: Row) -> None:
        """Show a row below the others."""
        from rich.live import Live

        self._rows.append(row)
        with stdout_errors():
            if self._live is None:
                self._live = Live(console=self._console, auto_refresh=False, vertical_overflow="crop")
                self._live.start()
            self._live.update(self._table(), refresh=True)

    def end(self, totals: Row) -> None:
        """Leave the table on the terminal, and print the totals."""
        if self._live is not None:
            self._live.stop()
        width = self._console.width
        lines = [fill(line, width, subsequent_indent="  ") for line in totals_text(totals).splitlines()]
        _flushed(lambda: say("\n".join(lines)))

    def _table(self) -> Table:
        """Return the table of the latest rows that fit the terminal."""
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, padding=(0, 1), header_style="dim", expand=True)
        for name in ("#", "conv", "slot", "prompt", "reused", "evaluated"):
            table.add_column(name, justify="right", no_wrap=True)
        table.add_column("cause", overflow="ellipsis", no_wrap=True, ratio=1)    # what the numbers leave
        for row in list(self._rows)[-max(1, self._console.height - MARGIN) :]:
            cells = [_number(row.get(name)) for name in ("number", "conversation", "slot", "prompt", "reused",
                                                         "evaluated")]  # fmt: skip
            table.add_row(*cells, Text(cause_text(row)), style="" if _is_cheap(row) else "red")
        return table


def output(as_json: bool) -> RowOutput:
    """Return the output for stdout: JSON lines, a table on a terminal, else lines."""
    return JsonLines() if as_json else LiveTable() if sys.stdout.isatty() else TextLines()


def row_text(row: Row) -> str:
    """Return a row as a line: who, counts, cause, cure."""
    who = [f"{name} {row[key]}" for name, key in (("conversation", "conversation"), ("slot", "slot"), ("task", "task"))
           if row.get(key) is not None]  # fmt: skip
    ends = f" ({row['end']})" if row.get("end") not in (None, "whole") else ""
    status = f" status {row['status']}:" if row.get("status") not in (None, 200) else ""
    head = f"{row['number']:>4}  {', '.join(who) or 'request'}{ends}:{status} {counts_text(row)}"
    parts = [head, cut(cause_text(row), TEXT), cut(cure_text(row), CURE)]
    return "; ".join(part for part in parts if part)


def counts_text(row: Row) -> str:
    """Return the token counts of a row; ~ marks an estimated length."""
    prompt = row.get("prompt")
    length = f"~{row['estimated']:,}" if prompt is None and row.get("estimated") else _number(prompt)
    again = row.get("again")
    more = f", {_number(again)} again" if again not in (None, 0) else ""
    return f"prompt {length}, reused {_number(row.get('reused'))}, evaluated {_number(row.get('evaluated'))}{more}"


def cause_text(row: Row) -> str:
    """Return the cause: the client's change with the first byte that differs, and what the log proves."""
    parts = [str(row.get("note") or row.get("says") or "")]
    if row.get("detail"):
        parts[0] += f" ({row['detail']})"
    if row.get("where"):
        parts[0] += f" in {row['where']}"
    if row.get("path") and not row.get("harmless"):
        byte = f"{row['byte']:,}" if row["byte"] is not None else f"{row['byte_at_least']:,} or later"
        parts[0] += f" ({row['path']}, character {row['character']:,}; byte {byte} of the body)"
    if row.get("parameters"):
        parts.append(f"changed: {', '.join(row['parameters'])}")
    if row.get("loss"):
        parts.append(row["loss"]["says"])
    if row.get("refused"):
        parts.append("the server refused the request")
    return "; ".join(part for part in (*parts, *(one["says"] for one in row.get("causes", ()))) if part)


def cure_text(row: Row) -> str:
    """Return what may cure the cause, "" if nothing was lost."""
    flags = f"may help: {' '.join(row['flags'])}" if row.get("flags") else ""
    tries = [row.get("advice") if not row.get("harmless") else "", (row.get("loss") or {}).get("advice")]
    return "; ".join(part for part in (*(f"try: {one}" for one in tries if one), flags) if part)


def totals_text(totals: Row) -> str:
    """Return the totals as text."""
    sums = (f"{name} {'at least ' * (name in totals['at_least'])}{totals[name]:,}"
            for name in ("prompt", "reused", "evaluated"))  # fmt: skip
    lines = [f"{counted(totals['requests'], 'request')}: {', '.join(sums)} tokens", *totals["first_lines"]]
    lines += [f"  {one['requests']:>4}  {one['cause']}" for one in totals["causes"]]
    lines += [f"  {said}" for said in totals["log"]]
    lines += [f"  {one['requests']:>4}  left out: {one['why']}" for one in totals["left_out"]]
    lost = {"unread_log_bytes": "bytes of the log were not read",
            "dropped_bytes": "bytes were not analysed: the queue was full",
            "unread_connections": "connections were not analysed: not HTTP/1.1, or a part was not copied",
            "refused_connections": "connections were refused by the server",
            "unsaved_requests": "requests were not saved: the file could not be written"}  # fmt: skip
    lines += [f"  {totals[name]:,} {what}" for name, what in lost.items() if totals.get(name)]
    return "\n".join(lines)


def _is_cheap(row: Row) -> bool:
    return bool(row.get("harmless", True)) and row.get("again") in (None, 0)


def _number(value: Any) -> str:
    """Return a count, or a range of counts; "-" if it is unknown."""
    if value is None:
        return "-"
    if isinstance(value, list):
        low, high = value
        return f"{low:,}" if low == high else f">={low:,}" if high is None else f"{low:,}-{high:,}"
    return f"{value:,}"


def _flushed(print_it: Any) -> None:
    """Print, so that a reader of the pipe sees it at once."""
    print_it()
    with stdout_errors():
        sys.stdout.flush()
