"""How does a run look? A table of its requests, what was lost and why, and a verdict; from the data of ``run_data``."""

from __future__ import annotations

from typing import Any, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from cachesim.counted import counted
from cachesim.verdicts.recompute_reasons import what_happened

Data = dict[str, Any]
WORDS = {True: ("yes", "green"), False: ("NO", "bold red"), None: ("?", "yellow")}


def run_report(data: Data) -> RenderableType:
    """Everything about one run, within 80 columns."""
    head = Text.assemble((data["scenario"], "bold"), f"  {data['model']}  ", (data["profile"], "cyan"))
    lines = [_lives(one) for one in data["lives"]]
    lines += [_lost(charge) for charge in data["lost"]]
    lines += [_wrong(one) for one in data["requests"] if one["equal_cold"] is not True]
    lines += [_armed(one) for one in _once(data["armed"])]
    lines += [_mismatch(one) for one in data["mismatches"]]
    return Group(head, _table(data["requests"]), *lines, _verdict(data), Text(""))


def _table(requests: Sequence[Data]) -> Table:
    table = Table(box=None, padding=(0, 1), header_style="dim", expand=False)
    table.add_column("#", justify="right")
    table.add_column("prompt", max_width=20, no_wrap=True, overflow="ellipsis")
    for name in ("tokens", "kept", "restored", "computed"):
        table.add_column(name, justify="right")
    table.add_column("decided by", max_width=21, no_wrap=True, overflow="ellipsis")
    table.add_column("=cold")
    for one in requests:
        word, style = verdict_word(one)
        counts = (str(one[name]) if one[name] else "·" for name in ("kept", "restored"))
        text = f"+ {one['text']}" if one["how"] == "together" else one["text"]
        table.add_row(
            str(one["i"]), Text(text), str(one["prompt"] or "·"), *counts, str(one["computed"] or "·"), _outcome(one),
            Text(word, style),
        )
    return table


def verdict_word(one: Data) -> tuple[str, str]:
    """Was the answer a cold run's? In one word, with its colour; "-" where there was none to compare."""
    return ("-", "yellow") if one["refused"] else WORDS[one["equal_cold"]]


def _outcome(one: Data) -> str:
    """The rule that settled what was kept, or how the step ended instead."""
    if one["died"]:
        return "process ended"
    if one["status"] != 200:
        return f"{'refused' if one['refused'] and one['status'] < 500 else 'error'} ({one['status']})"
    return "hung up" if one["cancelled"] else str(one["rule"])


def _lives(one: Data) -> Text:
    since = f"from {one['first']} " if one["first"] else ""
    return Text(f"  the fault of request {one['request']} lives {since}to {one['last']}", "dim")


def _lost(charge: Data) -> Text:
    when = f" at request {charge['at']}" if charge["at"] >= 0 else ""
    what = what_happened(charge["event"], charge["kind"])
    return Text(f"  request {charge['request']}: {charge['tokens']} tokens: {what}{when} {charge['rule']}".rstrip())


def _wrong(one: Data) -> Text:
    style = WORDS[one["equal_cold"]][1]
    rung = f" [{one['rung']}]" if one["rung"] else ""
    return Text(f"  request {one['i']}: {one['fault']}{rung}", style)


def _once(armed: Sequence[Data]) -> list[Data]:
    """Each armed object at the request where it first shows."""
    seen: set[tuple[Any, ...]] = set()
    out = []
    for one in armed:
        key = (one["kind"], one["owner"], one["tokens"], one["fault"])
        if key not in seen:
            seen.add(key)
            out.append(one)
    return out


def _armed(one: Data) -> Text:
    what = f"{one['kind']} of {one['tokens']} tokens (of {one['owner']})"
    return Text(f"  after request {one['request']}: {what} is armed: {one['fault']}", "yellow")


def _mismatch(one: Data) -> Text:
    where = f"request {one['request']}: " if one["request"] >= 0 else ""
    return Text(f"  {where}{one['what']} is {one['got']}, the file expects {one['expected']}", "red")


def _verdict(data: Data) -> Text:
    broken = f"BROKEN at request {', '.join(map(str, data['broken']))}"
    word = {True: "holds", False: broken, None: "undecided"}[data["holds"]]
    expected = {True: ", as its file says", False: ", NOT as its file says", None: ""}[data["as_expected"]]
    refused = f"; not answered: request {', '.join(map(str, data['refused']))}" if data["refused"] else ""
    return Text(f"  => {word}{expected}{refused}", WORDS[data["holds"]][1])


def closing_line(runs: Sequence[Data], failed: int = 0) -> Text:
    """One line about all runs, and about what could not be run."""
    hold, broken = (sum(run["holds"] is value for run in runs) for value in (True, False))
    undecided = len(runs) - hold - broken
    off = sum(run["as_expected"] is False for run in runs)
    known = sum(run["as_expected"] is True for run in runs)
    text = f"{counted(len(runs), 'run')}: {counted(hold, 'holds', 'hold')}, {broken} broken, {undecided} undecided"
    text += f"; {counted(known, 'as its file says', 'as their files say')}, {off} not"
    if failed:
        text += f"; {failed} not run"
    return Text(text, "bold red" if off or failed else "bold yellow" if broken or undecided else "bold green")
