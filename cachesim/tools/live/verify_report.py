"""Report of ``cachesim verify``: simulator and real server side by side, request by request."""

from __future__ import annotations

from typing import Any, Iterator

from rich.console import Group, RenderableType
from rich.text import Text

from cachesim.base.layout import WholeTable

Data = dict[str, Any]
EQUAL = {True: "right", False: "WRONG", None: "?"}
ENDS = {0: "process ended", -1: "never answered"}
SAME = {True: ("same", "green"), False: ("DIFFERS", "bold red"), None: ("undecided", "yellow")}


def verify_report(data: Data) -> RenderableType:
    """Return a table of requests with the values of both sides, followed by the differences."""
    head = Text.assemble((data["scenario"], "bold"), f"  {data['model']}  ", (data["profile"], "cyan"))
    table = WholeTable()
    table.add_column("#", justify="right")
    table.add_column("request", overflow="fold")
    for name in ("reused", "evaluated", "answer", ""):
        table.add_column(name)
    for row in data["requests"]:
        ours, theirs = row["ours"], row["theirs"]
        counts = (_both(ours[name], theirs[name]) for name in ("cache_n", "prompt_n"))
        table.add_row(str(row["number"]), Text(row["text"]), *counts, _both(_answer(ours), _answer(theirs)),
                      Text(*SAME[row["same"]]))  # fmt: skip
    lines = [line for row in data["requests"] for line in _below(row)]
    lines += [Text(f"  note: {note}", "dim") for note in data["notes"]]
    if data["undecided"]:
        lines.append(Text(f"  not run: {data['undecided']}", "yellow"))
    return Group(head, *([table] if data["requests"] else []), *lines, Text(f"  => {SAME[data['same']][0]}"))


def _both(ours: Any, theirs: Any) -> str:
    """Return a single value if both sides agree, otherwise the simulator's and the server's."""
    if ours == theirs:
        return "-" if ours is None else str(ours)
    return f"{'-' if ours is None else ours} | {'-' if theirs is None else theirs}"


def _answer(side: Data) -> str:
    if side["status"] in ENDS:
        return ENDS[side["status"]]
    if side["status"] not in (200, None):
        return f"HTTP {side['status']}"
    return EQUAL[side["equal"]]


def _below(row: Data) -> Iterator[Text]:
    if row["first"]:
        yield Text(f"  request {row['number']}: first difference: {row['first']}", "red")
    if row["why"]:
        yield Text(f"  request {row['number']}: undecided: {row['why']}", "yellow")
