"""How does a conversation look that was made small? What is broken, its line, how much smaller that is, how it comes
about."""

from __future__ import annotations

from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from cachesim.base.layout import indented
from cachesim.tools.run.run_table import block_of_case


def shrink_report(data: dict[str, Any]) -> RenderableType:
    """Everything, from ``explained`` data; the last line is the command that runs it, as it is typed."""
    before, tries = data["before"], data["tries"]
    out = Text.assemble((data["profile"], "cyan"), "  ", (f"{data['property']}: {data['text']}\n", "bold red"),
                        f"  {data['rule']}\n  ", (f"{data['line']}\n", "bold"))
    out.append(f"  {_many(before['requests'], 'step')}, the longest of {_many(before['longest'], 'token')}, became "
               f"{data['requests']} and {data['longest']} in {_many(tries, 'try')}", "dim")  # fmt: skip
    others = (indented(f"also broken, and not looked at: {other['property']} ({other['rule']})", "dim")
              for other in data["others"])  # fmt: skip
    return Group(out, *others, block_of_case(data))


def _many(n: int, what: str) -> str:
    """``1 try``, ``2 tries``."""
    plural = f"{what[:-1]}ies" if what.endswith("y") else f"{what}s"
    return f"{n} {what if n == 1 else plural}"
