"""Report of ``why``: verdict of a request, sources of its prompt tokens, and the decisions that caused them."""

from __future__ import annotations

from typing import Any, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from cachesim.base.errors import counted
from cachesim.base.layout import indented
from cachesim.engines.rule import Role
from cachesim.judging.evidence import Grade
from cachesim.judging.reproduce_command import flags_line
from cachesim.judging.verdict_text import QUIET, style_of
from cachesim.tools.run.run_table import failure_block, predicted_lines


def why_report(data: dict[str, Any], verbose: int = 0) -> RenderableType:
    """Return the verdict, wrong reads, token sources and decisions. ``verbose`` adds decisions without an effect."""
    what = f" request {data['request']} "
    top = Text.assemble((data["scenario"], "bold"), what, (data["text"], "bold"), "  ", (data["profile"], "cyan"))
    head = Group(top, *flags_line(data["flags"]))
    title = [] if data["scenario"] == "try" else [Text(data["title"])]
    why = [indented(" ".join(text.split()), "dim") for text in (data["why"], data["request_why"]) if text]
    reads = [indented(f"it {read}") for read in data["read_instead"]]
    doubt = [Text("other outcomes are possible here", "yellow")] if data["doubt"] else []
    tokens = [] if data["refused"] or data["died"] else [_tokens(data), _ranges(data["computed"])]
    failure = [failure_block(data["failure"])] if data["failure"] else []
    read = [*reads, *predicted_lines(data["predicted"])]
    return Group(head, *title, _verdict(data), *read, *doubt, *why, *tokens, _decisions(data, verbose), *failure)


def _decisions(data: dict[str, Any], verbose: int) -> RenderableType:
    table = Table(box=None, padding=(0, 1), header_style="dim")
    table.add_column("rule", no_wrap=True)
    table.add_column("decision")
    made = True                       # if checkpoints are disabled, decisions about each checkpoint are omitted
    for step in (step for step in data["decisions"] if verbose or not step["dull"]):
        if step["role"] == Role.ENABLE:
            made = bool(step["value"])
        if verbose or (step["role"] not in QUIET and (made or step["role"] != Role.CREATE)):
            mark = f" [{step['grade']}]" if step["grade"] in (Grade.READ, Grade.OURS) else ""
            table.add_row(step["rule"], Text(f"{step['says']}{mark}"))
    return table if table.row_count else Text("no decisions", "dim")


def _verdict(data: dict[str, Any]) -> Text:
    """Return the verdict line of the request."""
    verdict, fault = data["verdict"], data["fault"]
    known = " (known bug, as expected)" if data["known_bug"] and data["equal_cold"] is False else ""
    if verdict == "OK":
        return Text("OK: equal to a cold run", "green")
    if data["refused"]:
        return Text(fault + (" (as expected)" if data["told"] else ""), "yellow")
    rung = f" [{data['rung']}]" if data["rung"] in ("bits", "argmax") else ""
    where = " left in the slot" if verdict == "CORRUPT STATE" else ""
    return Text(f"{verdict}{where}: {fault}{rung}{known}", style_of(verdict))


def _tokens(data: dict[str, Any]) -> RenderableType:
    """Return the prompt length as a sum of kept, restored, loaded and evaluated tokens."""
    parts = (data["kept"], "kept"), (data["restored"] - data["loaded"], "restored"), (data["loaded"], "loaded")
    whole = " + ".join(f"{n} {name}" for n, name in (*parts, (data["prompt_n"], "evaluated")))
    reason = f" ({data['reason']})" if data["reason"] else ""
    line = Text(f"{counted(data['prompt'], 'token')} = {whole}{reason}")
    if not data["best"]:
        return line
    return Group(line, indented(f"at most {data['held']} reusable; {data['best']} evaluated before", "dim"))


def _ranges(reasons: Sequence[dict[str, Any]]) -> Table:
    """Return a table with a row for every range of evaluated tokens: positions and reason."""
    table = Table(box=None, padding=(0, 1), show_header=False)
    table.add_column(justify="right", no_wrap=True)
    table.add_column()
    for entry in reasons:
        where = [f"at request {entry['at']}"] * (entry["at"] >= 0) + [entry["rule"]] * bool(entry["rule"])
        text = entry["why"] + (f" ({', '.join(where)})" if where else "")
        table.add_row(f"{entry['start']}..{entry['stop'] - 1}", Text(text, "yellow" if entry["rule"] else "dim"))
        if entry["survives"]:
            table.add_row("", Text(f"reused under {', '.join(entry['survives'])}", "dim"))
    return table
