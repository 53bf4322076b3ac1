"""How does an imported log look? The result first, then what was known and assumed; from the data of ``import_log``."""

from __future__ import annotations

from typing import Any, Iterator

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from cachesim.counted import counted

Data = dict[str, Any]
SHOWN = 40                   # requests in the table; -v shows all


def import_report(data: Data, out: str, everything: bool = False) -> RenderableType:
    """The result, the causes, a table of requests, what stayed open, and what to do next."""
    parts: list[RenderableType] = [Text(""), *_result(data), *_causes(data)]
    if data["requests"]:
        parts += [Text(""), _table(data, everything)]
    parts += [*_open(data), *_next(data, out)]
    return Group(_head(data), *parts)


def _head(data: Data) -> Text:
    known = f"{data['recognised']:,} of {counted(data['lines'], 'line')} known"
    head = Text.assemble((data["file"], "bold"), f": a log of {data['engine']}, {known}, ")
    head.append(counted(data["log_requests"], "request"))
    return head


def _result(data: Data) -> Iterator[Text]:
    """One sentence: what was evaluated that need not have been."""
    found = data["summary"]
    if not found["requests"]:
        yield Text("no request of it can be played: the log does not say how long a prompt is", "bold yellow")
        return
    nothing, lost = len(found["from_nothing"]), found["lost"]
    share = f"{100 * found['evaluated'] / max(1, found['tokens']):.0f} %"
    of = f"{found['evaluated']:,} of {found['tokens']:,} prompt tokens evaluated ({share})"
    if nothing:
        text = f"{nothing} of {counted(found['requests'], 'request')} evaluated from nothing despite a common prefix"
        yield Text(f"{text}; {of}, {lost:,} of them again", "bold red")
    elif lost:
        yield Text(f"{of}, {lost:,} of them again", "bold yellow")
    else:
        yield Text(f"nothing was evaluated twice; {of}", "bold green")


def _causes(data: Data) -> Iterator[Text]:
    for cause in data["summary"]["causes"]:
        if cause["cause"] in ("extends", "new") and not cause["lost"]:
            continue
        numbers = ", ".join(map(str, cause["requests"][:12])) + (", ..." if len(cause["requests"]) > 12 else "")
        where = f"requests {numbers}; {cause['lost']:,} tokens again"
        yield Text.assemble(("cause  ", "bold"), f"{cause['says']} ({where})")
        if cause["advice"] and cause["lost"]:
            yield Text.assemble(("try    ", "bold"), cause["advice"])


def _table(data: Data, everything: bool) -> Table:
    table = Table(box=None, padding=(0, 1), header_style="dim")
    for name in ("#", "slot", "prompt", "common", "evaluated", "reused", "simulated"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("from the log")
    rows = data["requests"] if everything else data["requests"][:SHOWN]
    for one in rows:
        style = "red" if one["agrees"] is False else "yellow" if one["left_out"] else ""
        note = one["left_out"] or ("differs" if one["agrees"] is False else "assumed" if one["assumed"] else "exact")
        cells = (one["slot"], one["n_tokens"], one["lcp"] or None, one["prompt_n"], one["cache_n"], one["simulated"])
        numbers = ("-" if cell is None else f"{cell:,}" for cell in cells)
        table.add_row(str(one["request"]), *numbers, Text(note), style=style)
    if len(rows) < len(data["requests"]):
        table.add_row("...", *[""] * 6, Text(f"{len(data['requests']) - len(rows)} more with -v"))
    return table


def _open(data: Data) -> Iterator[Text]:
    """What was solved for and what could not be known."""
    if data["line"]:
        given = "given" if data["profile_given"] else "the best of those tried" if data["differ"] else "the likeliest"
        sure = f"{data['agree']} of {data['agree'] + data['differ']} requests reuse what the log says"
        yield Text(f"simulated under {data['profile']} ({given}), model {data['model']}: {sure}", "dim")
    for number, one in enumerate(one for one in data["requests"] if one["assumed"]):
        if number == 6:
            yield Text("  ... more assumptions in the file and in --json", "dim")
            break
        yield Text(f"  assumed at request {one['request']}: {one['assumed']}", "dim")
    for text in data["missing"]:
        yield Text(f"not in the log: {text}", "dim")


def _next(data: Data, out: str) -> Iterator[Text]:
    if not data["line"]:
        return
    worst = max(data["turns"], key=lambda one: one["lost"], default=None)
    name = out or "FILE.toml (write it with -o)"
    steps = {one["request"]: one["step"] for one in data["requests"]}
    if worst is not None and out:
        yield Text(f"next: cachesim why {name} {steps[worst['number']]}", "dim")
    elif not out:
        yield Text("next: cachesim import LOG -o case.toml", "dim")
