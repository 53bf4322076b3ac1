"""A failure as it is told everywhere: Let, Then, Hence, the source of the decisive rule, and the line that shows it."""

from __future__ import annotations

from typing import Any, Iterator, Mapping

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

Data = Mapping[str, Any]


def failure_block(data: Data) -> RenderableType:
    """The block of one failure, from the data of ``failure_data``. The last line is typed as it stands."""
    table = Table(box=None, padding=(0, 1, 0, 0), show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for word, text, style in _rows(data):
        table.add_row(Text(word, "bold" if word else ""), Text(text, style))
    source = [as_typed(f"source {data['source']}", "dim")] if data["source"] else []
    return Group(table, *source, as_typed(data["command"], "bold"))


def _rows(data: Data) -> Iterator[tuple[str, str, str]]:
    for i, one in enumerate(data["causes"]):
        rule = f" ({one['rule']})" if one["rule"] else ""
        same = i > 0 and data["causes"][i - 1]["request"] == one["request"]
        yield ("Let", "Then", "")[min(i, 2)], f"{'  ' * same}{one['text']}{rule}", ""
    yield "Hence", data["hence"], "bold red"


def as_typed(text: str, style: str = "") -> Text:
    """A line that is never wrapped and never cut."""
    return Text(text, style, no_wrap=True, overflow="ignore")


def block_of_case(case: Data) -> RenderableType:
    """The block of a case that the search found. Where it cannot be played again (``failure`` is None: the simulator
    fails), the causes that the search kept, and the command."""
    if case["failure"] is not None:
        return failure_block(case["failure"])
    causes = (Text(f"  {cause}", "dim") for cause in case.get("causes", ()))
    return Group(*causes, as_typed(case["command"], "bold"))
