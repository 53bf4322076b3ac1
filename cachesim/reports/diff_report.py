"""Where do two profiles part on one scenario, and what does it cost?"""

from __future__ import annotations

from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from cachesim.events import Decided
from cachesim.reports.run_data import run_data
from cachesim.reports.run_table import verdict_word
from cachesim.reports.sentences import sentence
from cachesim.verdicts.judged_run import Run


def diff_data(a: Run, b: Run) -> dict[str, Any]:
    """Both runs, and the first decision whose answer is not the same."""
    one, two = run_data(a), run_data(b)
    return {"scenario": a.scenario.id, "a": one, "b": two, "first": _first(a, b)}


def _first(a: Run, b: Run) -> dict[str, Any] | None:
    for number in range(len(a.requests)):
        mine = [e for e in a.events(number) if isinstance(e, Decided)]
        theirs = [e for e in b.events(number) if isinstance(e, Decided)]
        for x, y in zip(mine, theirs, strict=False):
            if _family(x) != _family(y) or repr(x.value) != repr(y.value):
                return {"request": number, "a": _said(x), "b": _said(y)}
    return None


def _family(event: Decided) -> str:
    return event.rule.split(".")[0]


def _said(event: Decided) -> dict[str, str]:
    return {"rule": event.rule, "says": sentence(event.rule, event.value, event.because)}


def diff_report(data: dict[str, Any]) -> RenderableType:
    """A row per request with both profiles' numbers; what was lost; the first decision that parts."""
    a, b = data["a"], data["b"]
    table = Table(box=None, padding=(0, 1), header_style="dim")
    table.add_column("#", justify="right")
    table.add_column("prompt", max_width=22, no_wrap=True, overflow="ellipsis")
    for name in ("tokens", "cache_n A", "cache_n B", "=cold A", "=cold B"):
        table.add_column(name, justify="right")
    for x, y in zip(a["requests"], b["requests"], strict=True):
        same = x["cache_n"] == y["cache_n"] and x["equal_cold"] == y["equal_cold"]
        row = [str(x["i"]), x["text"], *(str(n) for n in (x["prompt"], x["cache_n"], y["cache_n"]))]
        equal = [verdict_word(one)[0] for one in (x, y)]
        table.add_row(*(Text(cell) for cell in [*row, *equal]), style="" if same else "bold")
    head = Text.assemble((data["scenario"], "bold"), "  A ", (a["profile"], "cyan"), "  B ", (b["profile"], "cyan"))
    faults = [_fault(name, one) for name, run in (("A", a), ("B", b)) for one in run["requests"] if one["fault"]]
    return Group(head, table, *faults, _lost("A", a), _lost("B", b), _parting(data["first"]))


def _fault(name: str, one: dict[str, Any]) -> Text:
    """What is wrong with an answer, or why it is not known to be right."""
    return Text(f"  {name} request {one['i']}: {one['fault']}", verdict_word(one)[1])


def _lost(name: str, run: dict[str, Any]) -> Text:
    total = sum(charge["tokens"] for charge in run["lost"])
    return Text(f"  {name} computes {total} tokens again whose state had once existed")


def _parting(first: dict[str, Any] | None) -> Text:
    if first is None:
        return Text("  every decision is the same", "green")
    lines = [f"  they part at request {first['request']}:"]
    lines += [f"    {name}  {first[key]['rule']}: {first[key]['says']}" for name, key in (("A", "a"), ("B", "b"))]
    return Text("\n".join(lines), "yellow")
