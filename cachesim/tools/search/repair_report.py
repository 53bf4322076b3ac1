"""How does a repair look? The verdict, a table of changes with what they cure and cost, then each with its case."""

from __future__ import annotations

from typing import Any, Iterator

from rich.console import Group as Parts
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from cachesim.base.errors import counted
from cachesim.base.layout import indented
from cachesim.tools.run.run_table import block_of_case

Data = dict[str, Any]
OTHERS = 3             # other changes that are told of a group


def repair_report(data: Data) -> RenderableType:
    """Everything about a repair, within 80 columns. Its groups and what is uncured are ``explained``."""
    where = "files" if data["files"] else f"seed {data['seed']}"
    n = counted(data["examples"], "conversation")
    head = Text.assemble((data["profile"], "cyan"), f"  {where}, {n}, {data['failing']} fail")
    if data["undecided"]:
        head.append(f", {data['undecided']} undecided")
    if not data["failing"]:
        return Parts(head, Text(f"nothing to repair: no failure of {', '.join(data['properties'])}", "bold green"))
    parts: list[RenderableType] = [head, _verdict(data)]
    if data["groups"]:
        parts += [_table(data["groups"]), _together(data)]
    parts += [_group(i, one) for i, one in enumerate(data["groups"], 1)]
    parts += _left(data["uncured"])
    return Parts(*parts)


def _verdict(data: Data) -> Text:
    cured, left = data["failing"] - len(data["uncured"]), len(data["uncured"])
    text = f"one change each cures {cured} of {data['failing']}: {counted(len(data['groups']), 'cause')}"
    return Text(text + (f"; no single change cures {left}" if left else ""), "bold yellow" if left else "bold green")


def _table(found: list[Data]) -> Table:
    table = Table(box=None, padding=(0, 1), header_style="dim", expand=False)
    table.add_column("#", justify="right")
    table.add_column("cures", justify="right")
    table.add_column("tokens", justify="right", no_wrap=True)
    table.add_column("breaks", justify="right")
    table.add_column("change", overflow="fold")
    for i, one in enumerate(found, 1):
        breaks = Text(str(one["broken"]), "red" if one["broken"] else "")
        change = Text(f"{one['field']}: {one['old']} -> {one['new']}")
        table.add_row(str(i), str(one["failures"]), _percent(one["cost"]), breaks, change)
    return table


def _percent(share: float) -> str:
    return f"{100 * share:+.2f} %"


def _together(data: Data) -> Text:
    one = data["together"]
    text = f"all of them: {one['held']} of {data['failing']} fixed, {one['broken']} newly failing; tokens "
    kinds = ", ".join(f"{kind} {_percent(each['cost'])}" for kind, each in one["kinds"].items())
    price = f"{_percent(one['cost'])} ({kinds})" if kinds else "unknown"
    return Text(f"{text}{price}\n")


def _group(number: int, one: Data) -> RenderableType:
    out = Text.assemble(f"{number}  ", (f"{one['field']}: {one['new']}", "bold"), f"  of {one['profile']}")
    found = [indented(f"{each['times']} {each['property']}: {each['rule']}", "dim", 3)
             for each in one["findings"][:OTHERS]]  # fmt: skip
    others = [indented(_other(other), "dim", 3) for other in one["others"][:OTHERS]]
    return Parts(out, *found, *_case(one), *others, Text(""))


def _other(one: Data) -> str:
    breaks = f", breaks {one['broken']}" if one["broken"] else ""
    return f"{one['cures']} of them by {one['field']}: {one['new']} ({_percent(one['cost'])}{breaks})"


def _case(one: Data) -> list[RenderableType]:
    """How a conversation fails, or its name."""
    if "line" not in one:
        return [indented(f"conversation {one['conversation']}", "", 3)]
    return [block_of_case(one)]


def _left(uncured: list[Data]) -> Iterator[RenderableType]:
    """Failures that no single change cures, and the pairs that do."""
    for one in uncured:
        yield Text(f"-  {one['property']}: {one['text']}", "bold red")
        yield from _case(one)
        for a, b in one["pairs"][:OTHERS]:
            yield indented(f"by {a['field']}: {a['new']} together with {b['field']}: {b['new']}", "dim", 3)
