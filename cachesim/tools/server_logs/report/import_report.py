"""Terminal report on an imported log, from the data of ``import_log``: the result first, then known and assumed
values."""

from __future__ import annotations

from typing import Any, Iterator, Mapping

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from cachesim.base.errors import counted
from cachesim.base.layout import WholeTable, as_typed
from cachesim.tools.advise.report import saved_report
from cachesim.tools.request_bodies.report import request_numbers
from cachesim.tools.server_logs.facts.log_gaps import MISSING
from cachesim.tools.server_logs.report.first_lines import facts_first, following, only_if
from cachesim.tools.server_logs.report.headline import headline
from cachesim.tools.server_logs.report.log_contents import contents_report
from cachesim.tools.server_logs.report.statement_report import causes, follows_rows, read_rows

Data = dict[str, Any]
CONTENTS = 2                 # lines about the contents of a log with a cause that are shown without -v
NOT_SIMULATED = ("lora_", "alora_", "media_")
"""Kinds of lines about adapters and images, which the requests of a simulated log do not have."""
CONTRADICTIONS = 3           # printed numbers that the simulation contradicts that are shown without -v
FEW = 1                      # changes of the client, and assumptions, that are shown without -v


def import_report(data: Data, out: str, everything: bool) -> RenderableType:
    """Return the report: what the log shows, what follows from it, what the simulation adds, what is not shown, and
    the next commands. Headline and causes rest on the log alone."""
    return Group(report_head(data), report_rest(data, out, everything))


def report_head(data: Data) -> RenderableType:
    """Return the first lines of the report, which rest on the log alone: they can be printed before it is simulated."""
    known = f"{data['recognised']:,} of {counted(data['lines'], 'line')} known"
    head = f": a log of {data['engine']}, {known}, {counted(data['log_requests'], 'request')}"
    facts = (_first(line.as_data()) for line in facts_first(data["statements"]))
    return Group(Text.assemble((data["file"], "bold"), head), headline(data["statements"]), *facts)


def report_rest(data: Data, out: str, everything: bool) -> RenderableType:
    """Return the lines after the head, of which some rest on a simulation."""
    return Group(*_rest(data, out, everything))


def _rest(data: Data, out: str, everything: bool) -> Iterator[RenderableType]:
    said = data["statements"]
    known = len(facts_first(said))
    yield from map(_first, data["first_lines"][known:])
    yield from saved_report(data.get("saved"), following(data, "advise", out))
    yield from causes(said, everything)
    for heading, rows in (
        ("Read from the log", _read(data, everything)), ("Follows from the log", follows_rows(said, everything)),
        (_assumed(data), _simulated(data, everything)), ("Not shown by this log", map(Text, data["missing"])),
    ):  # fmt: skip
        if shown := [Padding(row, (0, 0, 0, 2), expand=False) for row in rows]:
            yield ""
            yield Text(f"{heading}:", "bold")
            yield from shown


def _first(line: Mapping[str, Any]) -> Text:
    """Return a line of the report's head."""
    if line["what"] == "next":
        return as_typed(line["says"], "dim")
    return Text(line["says"], "bold" if line["what"] == "cure" else "")


def _read(data: Data, everything: bool) -> Iterator[Text]:
    """Yield what the lines say: the contents of the log, in short if a cause is named, and with -v every line."""
    contents = list(contents_report(data["contents"], everything)) if "contents" in data else []
    named = any(said["what"] == "cause" for said in data["statements"])
    shown = contents[:CONTENTS] if named and not everything else contents
    if everything or not shown:
        yield from read_rows(data["statements"], everything)
    yield from shown
    if len(shown) < len(contents):
        yield Text(f"{counted(len(contents) - len(shown), 'more line')} about its contents with -v", "dim")


def _assumed(data: Data) -> str:
    """Return the assumptions of the simulation, as a heading."""
    worse = data["rejected"] or data["undecided"]
    given = "given" if data["profile_given"] else "best of those tried" if worse else "most likely"
    return f"Simulated with assumed texts, {data['profile']} ({given}), model {data['model']}"


def _simulated(data: Data, everything: bool) -> Iterator[RenderableType]:
    """Yield what the simulation of the log adds."""
    if not data["line"]:
        return
    if data["rejected"]:
        yield from _rejection(data, everything)
    yield from _agreement(data, everything)
    if data["rejected"]:
        return
    yield from _result(data)
    yield from _causes(data, everything)
    for cure in data["cures"][1:]:
        yield Text.assemble(("Another cure: ", "bold"), f"{cure['change']}: request {cure['request']} evaluates "
                            f"{cure['evaluated']:,} instead of {cure['before']:,} tokens{only_if(cure['rests_on'])}.")
    if everything and data["requests"]:
        yield _table(data)


def _result(data: Data) -> Iterator[Text]:
    """Yield the result in a sentence: the prompt tokens evaluated, and those that need not have been."""
    found = data["summary"]
    if not found["requests"]:
        simulated = [row for row in data["requests"] if row["step"] >= 0]
        unsized = [row for row in simulated if row["n_tokens"] is None]
        if any(row["prompt_n"] is not None or row["cache_n"] is not None for row in unsized):
            yield Text("Not compared: the log only bounds the prompt lengths.", "yellow")
        elif simulated:
            yield Text("Not compared: the log shows neither reused nor evaluated tokens.", "yellow")
        else:
            yield Text("Not simulated: the log shows no prompt length.", "yellow")
        return
    nothing = len(found["from_nothing"])
    lost = found["lost"]
    total = found["requests"]
    share = f"{100 * found['evaluated'] / max(1, found['tokens']):.0f} %"
    shown = sum(row["step"] >= 0 for row in data["requests"])
    known = "" if total >= shown else f" in {total} of {counted(shown, 'request')}, whose counts the log shows"
    of = f"{share} of {short(found['tokens'])} prompt tokens evaluated{known}"
    again = f"{of}, {short(lost)} of them re-evaluated"
    if nothing:
        which = "The request was" if total == 1 else f"{nothing} of {total} requests were"
        yield Text(f"{which} evaluated from position 0 despite a common prefix: {again}.", "red")
    elif lost:
        yield Text(f"{again[0].upper()}{again[1:]}.", "yellow")
    elif not found["forced"]:
        yield Text(f"No tokens re-evaluated: {of}.", "green")
    if found["forced"]:
        where = ", ".join(map(str, found["forced"][:12]))
        yield Text(f"The server forced full re-processing at request {where}: {of}; the log does not show the common "
                   "prefix with the slot.", "yellow")  # fmt: skip


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


def _rejection(data: Data, everything: bool) -> Iterator[Text]:
    """Yield the printed numbers that the simulation contradicts."""
    tried = f"nearest of {data['candidates']} candidates" if data["candidates"] > 1 else "only candidate"
    if any(note.startswith(MISSING) for note in data["missing"]):
        yield Text(f"Not reproduced: the log lacks lines ({tried}).", "yellow")
    elif data["complete"]:
        yield Text(f"Not reproduced: no simulated run meets all printed numbers ({tried}).", "yellow")
    else:
        yield Text(f"Not reproduced yet: the search stopped early ({tried}).", "yellow")
    lines = data["contradicted"]
    if any(line["what"].startswith(NOT_SIMULATED) for line in lines):
        yield Text("  A log does not name adapters or images: the simulated requests have none.", "yellow")
    for line in lines if everything else lines[:CONTRADICTIONS]:
        simulated = _numbers(line["simulated"]) if line["simulated"] is not None else "no such event"
        also = "; no candidate meets it" if line["by_all"] else ""
        printed = " ".join(filter(None, (line["what"], _numbers(line["printed"]))))
        yield Text(f"  line {line['line']}: {printed}; simulated: {simulated}{also}")
    if len(lines) > CONTRADICTIONS and not everything:
        yield Text(f"  {counted(len(lines) - CONTRADICTIONS, 'more line')} with -v", "dim")


def _numbers(fields: Mapping[str, Any]) -> str:
    """Return named numbers as text."""
    return ", ".join(f"{name} = {value}" for name, value in fields.items())


def _table(data: Data) -> WholeTable:
    """Return the table of simulated requests."""
    table = WholeTable()
    for name in ("#", "slot", "prompt", "common", "evaluated", "reused", "simulated"):
        table.add_column(name, justify="right")
    table.add_column("from the log")
    for row in data["requests"]:
        style = "red" if row["agrees"] is False else "yellow" if row["left_out"] else ""
        note = row["left_out"] or ("differs" if row["agrees"] is False else "undecided" if row["undecided"]
                                   else "assumed" if row["assumed"] else "exact")  # fmt: skip
        cells = (row["slot"], row["n_tokens"], row["lcp"] or None, row["prompt_n"], row["cache_n"], row["simulated"])
        numbers = ("-" if cell is None else f"{cell:,}" for cell in cells)
        table.add_row("-" if row["request"] is None else str(row["request"]), *numbers, Text(note), style=style)
    return table


def _agreement(data: Data, everything: bool) -> Iterator[Text]:
    """Yield how far the simulation agrees with the log, and its assumptions."""
    compared = data["agree"] + data["differ"] + data["undecided"]
    agreement = f"{data['agree']} of {counted(compared, 'request')} reused as many tokens as in the log"
    if data["undecided"]:
        agreement += f", {data['undecided']} undecided: the search stopped early"
    yield Text(agreement if compared else "the log does not show how many tokens were reused", "dim")
    if wrong := [str(request["request"]) for request in data["requests"] if request["agrees"] is False]:
        where = ", ".join(wrong[:12]) + (", ..." if len(wrong) > 12 else "")
        yield Text(f"simulation and log differ at {where}: the log is right, the simulation or an assumption of it "
                   "is wrong there", "yellow")  # fmt: skip
    for number, request in enumerate(request for request in data["requests"] if request["assumed"]):
        if number == FEW and not everything:
            yield Text("... more assumptions with -v, in the scenario file and in --json", "dim")
            break
        yield Text(f"assumed at request {request['request']}: {request['assumed']}", "dim")
