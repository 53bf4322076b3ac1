"""Cost of a recorded workload: sums over its sessions, as data and as tables."""

from __future__ import annotations

from typing import Any, Iterator, Mapping, Sequence

from rich.console import RenderableType
from rich.text import Text

from cachesim.base.layout import WholeTable
from cachesim.judging.evidence import PREDICTED
from cachesim.judging.reproduce_command import settings

Data = dict[str, Any]
NOT_JUDGED = "-"
LONGEST = 20            # characters of a name that is printed on a single line


def workload_data(lines: Sequence[Mapping[str, Any]], totals: Sequence[Mapping[str, Any]]) -> Data:
    """Return the report's data. ``lines``: a record for each server and rule set; ``totals``: a record for each rule
    set, in tokens of the recording."""
    return {"lines": [_plain(one) for one in lines], "totals": [_plain(one) for one in totals]}


def _plain(line: Mapping[str, Any]) -> Data:
    """Return a line with lists in place of tables that have arbitrary keys."""
    lost = None if line["lost"] is None else [{"event": event, "tokens": n} for event, n in line["lost"].items()]
    scaled = [{"flag": flag, "real": real, "scaled": to} for flag, (real, to) in line["scaled"].items()]
    rest = {name: value for name, value in line.items() if name not in ("given", "flags", "how")}
    return {"servers": 1, **rest, "lost": lost, "scaled": scaled, "set": settings(line["given"])}


def workload_report(data: Data) -> list[RenderableType]:
    """Return the report: a header, a row for each rule set, the bounds, the causes of re-evaluation, warnings."""
    totals = data["totals"]
    return [*_header(totals[0]), _table(totals), *_bounds(totals), *_told(totals)]


def merged_report(data: Data) -> list[RenderableType]:
    """Return the report of a merged workload, with the number of files and of missing jobs."""
    n = data["jobs"]
    files = len(data["files"])
    done = len(data["lines"])
    head = Text(f"{counted(files, 'file')}, {done:,} of {counted(n, 'job')}", "bold")
    if done < n:
        head.append(f"; not run: {n - done:,}", "yellow")
    return [head, *(workload_report(data) if data["totals"] else [])]


def _header(first: Mapping[str, Any]) -> Iterator[RenderableType]:
    sessions = counted(first["sessions"], "session")
    if first["sessions"] != first["servers"]:
        sessions += f" on {counted(first['servers'], 'server')}"
    agents = f", {first['agents']} sub-agents" if first["agents"] else ""
    told = f"{sessions}, {first['requests']:,} requests{agents}, {first['prompt']:,} prompt tokens"
    yield Text(told)
    yield Text(f"model {first['model']} ({first['layers']})", "dim")
    if (n := first["scale"]) > 1:
        yield Text(f"scale {n}: {n} recorded tokens are simulated as 1 and counted as {n}", "dim")


def _table(totals: Sequence[Mapping[str, Any]]) -> WholeTable:
    table = WholeTable(padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column("rule set", no_wrap=True)
    for name in ("evaluated", "%", "kept", "restored", "loaded", "wrong", "MiB ckpt", "MiB pc"):
        table.add_column(name, justify="right")
    for one in totals:
        profile = one["profile"]
        if len(profile) > LONGEST:                           # the row must fit into 80 columns
            profile = profile.replace("@", "@\n")
        wrong = NOT_JUDGED if one["wrong"] is None else str(one["wrong"])
        table.add_row(
            Text(profile, "cyan"), short_number(one["evaluated"]), share_text(one["evaluated"], one["prompt"]),
            short_number(one["kept"]), short_number(one["restored"]), short_number(one["loaded"]),
            Text(wrong, "red" if one["wrong"] else ""), f"{one['peak_checkpoints']:,.0f}", f"{one['peak_cache']:,.0f}",
        )  # fmt: skip
    return table


def _bounds(totals: Sequence[Mapping[str, Any]]) -> Iterator[RenderableType]:
    """Yield the lower bounds of the requests, with unlimited memory and with nothing kept, then the causes of loss."""
    first = totals[0]
    least, nothing = short_number(first["least"]), short_number(first["prompt"])
    yield Text(f"at least {least} ({share_text(first['least'], first['prompt'])} %) under any rules; "
               f"{nothing} with nothing kept")  # fmt: skip
    for one in totals:
        if one["unlimited"] is not None:
            share = share_text(one["unlimited"], one["prompt"])
            yield Text(f"{one['profile']} with unlimited memory: {short_number(one['unlimited'])} ({share} %)")
    for one in totals:
        if one["lost"]:
            causes = ", ".join(f"{loss['event']} {short_number(loss['tokens'])}" for loss in one["lost"])
            yield Text(f"{one['profile']} re-evaluated: {causes}")


def _told(totals: Sequence[Mapping[str, Any]]) -> Iterator[RenderableType]:
    """Yield warnings: requests without an answer, predicted outcomes, scaled options."""
    for one in totals:
        for name, word in (("refused", "refused"), ("died", "after the server had died")):
            if one[name]:
                yield Text(f"{one['profile']}: {one[name]} of {one['requests']} requests {word}", "yellow")
        if unanswered := one["requests"] - one["answered"] - one["refused"] - one["died"]:
            yield Text(f"{one['profile']}: {unanswered} of {one['requests']} requests never answered", "yellow")
        if one.get("predicted"):
            told = f"{one['predicted']} of {one['wrong']} wrong answers {PREDICTED}"
            yield Text(f"{one['profile']}: {told}", "yellow")
        if one["scaled"]:
            pairs = ", ".join(f"{flag['flag']} {flag['real']}>{flag['scaled']}" for flag in one["scaled"])
            yield Text(f"{one['profile']} scaled: {pairs}", "dim")


def counted(n: int, what: str) -> str:
    """Return a number with its noun."""
    return f"{n:,} {what}{'s' * (n != 1)}"


def short_number(n: int) -> str:
    """Return a number of tokens, in thousands or millions if it is large."""
    return f"{n:,}" if n < 100_000 else f"{n / 1000:,.0f}k" if n < 10_000_000 else f"{n / 1_000_000:,.1f}M"


def share_text(n: int, whole: int) -> str:
    """Return a share in percent."""
    return f"{100 * n / whole:.1f}" if whole else "0.0"
