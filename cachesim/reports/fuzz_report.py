"""How does a campaign look? A line of counts, a table of distinct failures, then each with its case and its causes."""

from __future__ import annotations

from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from cachesim.reports.failure_block import block_of_case
from cachesim.reports.layout import indented

Data = dict[str, Any]


def fuzz_report(data: Data) -> RenderableType:
    """Everything about a campaign, within 80 columns."""
    found = data["failures"]
    head = Text.assemble((data["profile"], "cyan"), f"  seed {data['seed']}, {data['examples']} conversations")
    if data["refused"]:
        head.append(f", {data['refused']} of them not modelled")
    other = [_against(data)] if "against" in data else []
    if not found:
        return Group(head, *other, Text(f"nothing found for {', '.join(data['properties'])}", "bold green"))
    return Group(head, _table(found), *(_case(i, one, data["profile"]) for i, one in enumerate(found, 1)), *other,
                 Text(f"{len(found)} distinct failure{'s' * (len(found) > 1)}", "bold red"))


def _against(data: Data) -> Group:
    """What only the other rule set has, and what each has evaluated."""
    other, cost, mended = data["against"], data["cost"], data["mended"]
    head = Text.assemble("\nfixed: what only ", (other, "cyan"), " has", "" if mended else ": nothing")
    return Group(
        head, *([_table(mended)] if mended else []),
        Text(f"tokens evaluated in {cost['requests']} requests: {_change(cost['mine'], cost['theirs'])}"),
        Text(f"in the {cost['right']} that both answer correctly: {_change(cost['right_mine'], cost['right_theirs'])}"),
    )  # fmt: skip


def _change(mine: int, theirs: int) -> str:
    """One count beside the other's."""
    share = f" ({100 * (mine - theirs) / theirs:+.2f} %)" if theirs else ""
    return f"{mine}, the other {theirs}{share}"


def _table(found: list[Data]) -> Table:
    table = Table(box=None, padding=(0, 1), header_style="dim", expand=False)
    table.add_column("#", justify="right")
    table.add_column("times", justify="right")
    table.add_column("property", no_wrap=True)
    table.add_column("rule", overflow="fold")
    for i, one in enumerate(found, 1):
        table.add_row(str(i), str(one["times"]), Text(one["property"]), Text(one["rule"]))
    return table


def _case(number: int, one: Data, profile: str) -> RenderableType:
    """A failure: what is wrong, how it comes about, the line that shows it."""
    left = "" if one["shrunk"] or "line" not in one else "   (not shrunk)"
    head = Text.assemble(f"\n{number}  ", (f"{one['property']}: {one['text']}", "bold red"), (left, "yellow"))
    if "line" not in one:
        return Group(head, *(indented(cause, "dim") for cause in one["causes"]))
    return Group(head, block_of_case(one, profile, one["step"], one["text"]))
