"""Terminal report on an imported log, from the data of ``import_log``: the result first, then known and assumed
values."""

from __future__ import annotations

from typing import Any, Iterator

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from cachesim.base.errors import counted
from cachesim.base.escaping import shell_word
from cachesim.tools.advise.report import saved_report
from cachesim.tools.request_bodies.report import request_numbers
from cachesim.tools.server_logs.log_contents import contents_report
from cachesim.tools.server_logs.statement_report import causes, follows_section, headline, read_section

Data = dict[str, Any]
CONTENTS = 2                 # lines about the contents of a log with a cause that are shown without -v
FEW = 1                      # changes of the client, and assumptions, that are shown without -v


def import_report(data: Data, out: str, everything: bool = False) -> RenderableType:
    """Return the report: what the log shows, what follows from it, what the simulation adds, what is not shown, and
    the next commands. Headline and causes rest on the log alone."""
    said = data["statements"]
    saved = saved_report(data.get("saved"), out or data["file"])
    parts: list[RenderableType] = [headline(said), *saved, *causes(said, everything)]
    parts += [*_read(data, everything), *follows_section(said, everything)]
    if data["line"]:
        parts += [Text("Simulated, with assumed texts:", "bold"), *_open(data, everything), *_result(data),
                  *_causes(data, everything)]
        if everything and data["requests"]:
            parts.append(_table(data))
    parts += [*_unknown(data), *_next(data, out)]
    known = f"{data['recognised']:,} of {counted(data['lines'], 'line')} known"
    head = f": a log of {data['engine']}, {known}, {counted(data['log_requests'], 'request')}"
    return Group(Text.assemble((data["file"], "bold"), head), *parts)


def _read(data: Data, everything: bool) -> Iterator[Text]:
    """Yield what the lines say: the contents of the log, in short if a cause is named, and with -v every line."""
    contents = list(contents_report(data["contents"], everything)) if "contents" in data else []
    named = any(said["what"] == "cause" for said in data["statements"])
    shown = contents[:CONTENTS] if named and not everything else contents
    yield from read_section(data["statements"], everything, bool(shown))
    yield from shown
    if len(shown) < len(contents):
        yield Text(f"{counted(len(contents) - len(shown), 'more line')} about its contents with -v", "dim")


def _result(data: Data) -> Iterator[Text]:
    """Yield the result in a sentence: the prompt tokens evaluated, and those that need not have been."""
    found = data["summary"]
    if not found["requests"]:
        yield Text("No complete request to simulate: the log contains no prompt length.", "bold yellow")
        return
    nothing, lost, total = len(found["from_nothing"]), found["lost"], found["requests"]
    share = f"{100 * found['evaluated'] / max(1, found['tokens']):.0f} %"
    of = f"{share} of {short(found['tokens'])} prompt tokens evaluated"
    again = f"{of}, {short(lost)} of them re-evaluated"
    if nothing:
        which = "The request was" if total == 1 else f"{nothing} of {total} requests were"
        yield Text(f"{which} evaluated from position 0 despite a common prefix: {again}.", "bold red")
    elif lost:
        yield Text(f"{again[0].upper()}{again[1:]}.", "bold yellow")
    elif not found["forced"]:
        yield Text(f"No tokens re-evaluated: {of}.", "bold green")
    if found["forced"]:
        where = ", ".join(map(str, found["forced"][:12]))
        yield Text(f"The server forced full re-processing at request {where}: {of}; the log does not show the common "
                   "prefix with the slot.", "bold yellow")  # fmt: skip


def short(tokens: int) -> str:
    """Return a token count in full below 10,000, else in thousands: 9,999, 310k."""
    return f"{tokens:,}" if tokens < 10_000 else f"{tokens / 1000:,.0f}k"


def _causes(data: Data, everything: bool) -> Iterator[Text]:
    """Yield what the client changed in the simulated requests that lost tokens, with advice."""
    costly = [cause for cause in data["summary"]["causes"] if cause["lost"]]
    for cause in costly if everything else costly[:FEW]:
        where = f"{request_numbers(cause['requests'])}: {cause['lost']:,} tokens re-evaluated"
        yield Text.assemble(("Client: ", "bold"), f"{cause['says']} ({where}).")
        if cause["advice"]:
            yield Text.assemble(("Try: ", "bold"), f"{cause['advice']}.")


def _table(data: Data) -> Table:
    """Return the table of simulated requests."""
    table = Table(box=None, padding=(0, 1), header_style="dim")
    for name in ("#", "slot", "prompt", "common", "evaluated", "reused", "simulated"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("from the log")
    for row in data["requests"]:
        style = "red" if row["agrees"] is False else "yellow" if row["left_out"] else ""
        note = row["left_out"] or ("differs" if row["agrees"] is False else "undecided" if row["undecided"]
                                   else "assumed" if row["assumed"] else "exact")  # fmt: skip
        cells = (row["slot"], row["n_tokens"], row["lcp"] or None, row["prompt_n"], row["cache_n"], row["simulated"])
        numbers = ("-" if cell is None else f"{cell:,}" for cell in cells)
        table.add_row("-" if row["request"] is None else str(row["request"]), *numbers, Text(note), style=style)
    return table


def _open(data: Data, everything: bool) -> Iterator[Text]:
    """Yield the simulated settings, their agreement with the log, and the assumptions."""
    if data["line"]:
        worse = data["differ"] or data["undecided"]
        given = "given" if data["profile_given"] else "best of those tried" if worse else "most likely"
        compared = data["agree"] + data["differ"] + data["undecided"]
        agreement = f"{data['agree']} of {counted(compared, 'request')} reused as many tokens as in the log"
        if data["undecided"]:
            agreement += f", {data['undecided']} undecided: the search stopped early"
        if not compared:
            agreement = "the log does not show how many tokens were reused"
        yield Text(f"simulated under {data['profile']} ({given}), model {data['model']}: {agreement}", "dim")
    if wrong := [str(request["request"]) for request in data["requests"] if request["agrees"] is False]:
        where = ", ".join(wrong[:12]) + (", ..." if len(wrong) > 12 else "")
        yield Text(f"log and simulation differ at {where}: the log is evidence, so the simulator or an assumption "
                   "is wrong there", "yellow")  # fmt: skip
    for number, request in enumerate(request for request in data["requests"] if request["assumed"]):
        if number == FEW and not everything:
            yield Text("  ... more assumptions with -v, in the scenario file and in --json", "dim")
            break
        yield Text(f"  assumed at request {request['request']}: {request['assumed']}", "dim")


def _unknown(data: Data) -> Iterator[Text]:
    """Yield what the log does not show."""
    if data["missing"]:
        yield Text("Not shown by this log:", "bold")
    for text in data["missing"]:
        yield Text(f"  {text}", "dim")


def _next(data: Data, out: str) -> Iterator[Text]:
    """Yield the commands to try next."""
    if not data["line"]:
        return
    worst = max(data["turns"], key=lambda turn: turn["lost"], default=None)
    if not out:
        yield Text("next: cachesim import LOG -o case.toml", "dim")
    elif worst is not None:
        yield Text(f"next: cachesim why {shell_word(out)} {worst['number']}", "dim")
    if data["summary"]["lost"]:
        yield Text(f"next: cachesim advise {shell_word(out or data['file'])}", "dim")
