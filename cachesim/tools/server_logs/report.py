"""How does an imported log look? The result first, then what was known and assumed; from the data of ``import_log``."""

from __future__ import annotations

from typing import Any, Iterator

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from cachesim.base.errors import counted
from cachesim.tools.request_bodies.report import request_numbers

Data = dict[str, Any]
SHOWN = 40                   # requests in the table; -v shows all


def import_report(data: Data, out: str, everything: bool = False) -> RenderableType:
    """The result, the causes, a table of requests, what stayed open, and what to do next."""
    parts: list[RenderableType] = [Text(""), *_result(data), *_causes(data)]
    if data["requests"]:
        parts += [Text(""), _table(data, everything)]
    parts += [*_open(data), *_next(data, out)]
    known = f"{data['recognised']:,} of {counted(data['lines'], 'line')} known"
    head = f": a log of {data['engine']}, {known}, {counted(data['log_requests'], 'request')}"
    return Group(Text.assemble((data["file"], "bold"), head), *parts)


def _result(data: Data) -> Iterator[Text]:
    """One sentence: what was evaluated that need not have been."""
    found = data["summary"]
    if not found["requests"]:
        yield Text("no request of it can be played: the log does not say how long a prompt is", "bold yellow")
        return
    nothing, lost, total = len(found["from_nothing"]), found["lost"], found["requests"]
    share = f"{100 * found['evaluated'] / max(1, found['tokens']):.0f} %"
    of = f"{share} of {short(found['tokens'])} prompt tokens evaluated"
    again = f"{of}, {short(lost)} of them although they had been evaluated before"
    if nothing:
        which = "The request was" if total == 1 else f"{nothing} of {total} requests were"
        yield Text(f"{which} evaluated from nothing despite a common prefix: {again}.", "bold red")
    elif lost:
        yield Text(f"{again[0].upper()}{again[1:]}.", "bold yellow")
    elif not found["forced"]:
        yield Text(f"Nothing was evaluated twice: {of}.", "bold green")
    if found["forced"]:
        where = ", ".join(map(str, found["forced"][:12]))
        yield Text(f"The server forced full re-processing at request {where}: {of}; how much was in common with the "
                   "slot is not in the log.", "bold yellow")  # fmt: skip


def short(tokens: int) -> str:
    """A count as it is, or in thousands: 9,999, 310k."""
    return f"{tokens:,}" if tokens < 10_000 else f"{tokens / 1000:,.0f}k"


def _causes(data: Data) -> Iterator[Text]:
    for cause in data["summary"]["causes"]:
        if not cause["lost"]:
            continue
        where = f"{request_numbers(cause['requests'])}: {cause['lost']:,} tokens recomputed"
        yield Text.assemble(("Cause: ", "bold"), f"{cause['says']} ({where}).")
        if cause["advice"]:
            yield Text.assemble(("Try: ", "bold"), f"{cause['advice']}.")


def _table(data: Data, everything: bool) -> Table:
    table = Table(box=None, padding=(0, 1), header_style="dim")
    for name in ("#", "slot", "prompt", "common", "evaluated", "reused", "simulated"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("from the log")
    rows = data["requests"] if everything else data["requests"][:SHOWN]
    for one in rows:
        style = "red" if one["agrees"] is False else "yellow" if one["left_out"] else ""
        note = one["left_out"] or ("differs" if one["agrees"] is False else "undecided" if one["undecided"]
                                   else "assumed" if one["assumed"] else "exact")  # fmt: skip
        cells = (one["slot"], one["n_tokens"], one["lcp"] or None, one["prompt_n"], one["cache_n"], one["simulated"])
        numbers = ("-" if cell is None else f"{cell:,}" for cell in cells)
        table.add_row(str(one["request"]), *numbers, Text(note), style=style)
    if len(rows) < len(data["requests"]):
        table.add_row("...", *[""] * 6, Text(f"{len(data['requests']) - len(rows)} more with -v"))
    return table


def _open(data: Data) -> Iterator[Text]:
    """What was solved for and what could not be known."""
    if data["line"]:
        worse = data["differ"] or data["undecided"]
        given = "given" if data["profile_given"] else "the best of those tried" if worse else "the likeliest"
        told = data["agree"] + data["differ"] + data["undecided"]
        sure = f"{data['agree']} of {counted(told, 'request')} reused as in the log"
        if data["undecided"]:
            sure += f", {data['undecided']} undecided: the search was cut"
        if not told:
            sure = "the log does not say what was reused"
        yield Text(f"simulated under {data['profile']} ({given}), model {data['model']}: {sure}", "dim")
    if wrong := [str(one["request"]) for one in data["requests"] if one["agrees"] is False]:
        where = ", ".join(wrong[:12]) + (", ..." if len(wrong) > 12 else "")
        yield Text(f"log and simulator differ at {where}: the log is evidence, the simulator or what was assumed "
                   "is wrong there", "yellow")  # fmt: skip
    for number, one in enumerate(one for one in data["requests"] if one["assumed"]):
        if number == 6:
            yield Text("  ... more assumptions in the file and in --json", "dim")
            break
        yield Text(f"  assumed at request {one['request']}: {one['assumed']}", "dim")
    for text in data["missing"]:
        yield Text(f"note: {text}", "dim")


def _next(data: Data, out: str) -> Iterator[Text]:
    if not data["line"]:
        return
    worst = max(data["turns"], key=lambda one: one["lost"], default=None)
    steps = {one["request"]: one["step"] for one in data["requests"]}
    if not out:
        yield Text("next: cachesim import LOG -o case.toml", "dim")
    elif worst is not None:
        yield Text(f"next: cachesim why {out} {steps[worst['number']]}", "dim")
    if data["summary"]["lost"]:
        yield Text(f"next: cachesim advise {out or 'case.toml'}", "dim")
