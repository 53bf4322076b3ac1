"""What does a recorded workload cost? Sums over its sessions, as data and as tables."""

from __future__ import annotations

from typing import Any, Iterator, Mapping, Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from cachesim.judging.evidence import PREDICTED
from cachesim.judging.reproduce_command import settings

Data = dict[str, Any]
NOT_JUDGED = "-"
LONGEST = 20            # letters of a name that stands in one line


def workload_data(lines: Sequence[Mapping[str, Any]], totals: Sequence[Mapping[str, Any]]) -> Data:
    """``lines``: one for each server and rule set; ``totals``: one for each rule set, in tokens of the recording."""
    return {"lines": [_plain(one) for one in lines], "totals": [_plain(one) for one in totals]}


def _plain(one: Mapping[str, Any]) -> Data:
    """A line with lists in place of tables whose keys are no words of ours."""
    lost = None if one["lost"] is None else [{"event": event, "tokens": n} for event, n in one["lost"].items()]
    scaled = [{"flag": flag, "real": real, "scaled": to} for flag, (real, to) in one["scaled"].items()]
    rest = {name: value for name, value in one.items() if name not in ("given", "flags", "how")}
    return {"servers": 1, **rest, "lost": lost, "scaled": scaled, "set": settings(one["given"])}


def workload_report(data: Data) -> list[RenderableType]:
    """A header, a row for each rule set, the bounds, and what was lost."""
    totals = data["totals"]
    return [*_header(totals[0]), _table(totals), *_bounds(totals), *_told(totals)]


def merged_report(data: Data) -> list[RenderableType]:
    """A workload that was put together: from how many files, what is not played, and its report."""
    n, files, done = data["jobs"], len(data["files"]), len(data["lines"])
    head = Text(f"{_counted(files, 'file')}, {done:,} of {_counted(n, 'job')}", "bold")
    if done < n:
        head.append(f"; not played: {n - done:,}", "yellow")
    return [head, *(workload_report(data) if data["totals"] else [])]


def _header(first: Mapping[str, Any]) -> Iterator[RenderableType]:
    sessions = _counted(first["sessions"], "session")
    if first["sessions"] != first["servers"]:
        sessions += f" on {_counted(first['servers'], 'server')}"
    agents = f", {first['agents']} sub-agents" if first["agents"] else ""
    told = f"{sessions}, {first['requests']:,} requests{agents}, {first['prompt']:,} prompt tokens"
    yield Text(told)
    yield Text(f"model {first['model']} ({first['layers']})", "dim")
    if (n := first["scale"]) > 1:
        yield Text(f"scale {n}: {n} tokens are played as one, and counted as {n}", "dim")


def _table(totals: Sequence[Mapping[str, Any]]) -> Table:
    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style="dim")
    table.add_column("rule set", no_wrap=True)
    for name in ("evaluated", "%", "kept", "restored", "loaded", "wrong", "MiB ckpt", "MiB pc"):
        table.add_column(name, justify="right", no_wrap=True)
    for one in totals:
        profile = one["profile"]
        if len(profile) > LONGEST:                           # the numbers would not fit beside it in 80 columns
            profile = profile.replace("@", "@\n")
        wrong = NOT_JUDGED if one["wrong"] is None else str(one["wrong"])
        table.add_row(
            Text(profile, "cyan"), _short(one["evaluated"]), _share(one["evaluated"], one["prompt"]),
            _short(one["kept"]), _short(one["restored"]), _short(one["loaded"]),
            Text(wrong, "red" if one["wrong"] else ""), f"{one['peak_checkpoints']:,.0f}", f"{one['peak_cache']:,.0f}",
        )  # fmt: skip
    return table


def _bounds(totals: Sequence[Mapping[str, Any]]) -> Iterator[RenderableType]:
    """What the same requests cost at the least, with unlimited memory, and with nothing kept; then what was lost."""
    first = totals[0]
    least, nothing = _short(first["least"]), _short(first["prompt"])
    yield Text(f"at least {least} ({_share(first['least'], first['prompt'])} %) under any rules; "
               f"{nothing} with nothing kept")  # fmt: skip
    for one in totals:
        if one["unlimited"] is not None:
            share = _share(one["unlimited"], one["prompt"])
            yield Text(f"{one['profile']} with unlimited memory: {_short(one['unlimited'])} ({share} %)")
    for one in totals:
        if one["lost"]:
            causes = ", ".join(f"{loss['event']} {_short(loss['tokens'])}" for loss in one["lost"])
            yield Text(f"{one['profile']} evaluated again: {causes}")


def _told(totals: Sequence[Mapping[str, Any]]) -> Iterator[RenderableType]:
    """What a reader must know of the numbers: requests without an answer, options that were scaled."""
    for one in totals:
        for name, word in (("refused", "refused"), ("died", "after the server had died")):
            if one[name]:
                yield Text(f"{one['profile']}: {one[name]} of {one['requests']} requests {word}", "yellow")
        if one.get("predicted"):
            told = f"{one['predicted']} of {one['wrong']} wrong answers {PREDICTED}"
            yield Text(f"{one['profile']}: {told}", "yellow")
        if one["scaled"]:
            pairs = ", ".join(f"{flag['flag']} {flag['real']}>{flag['scaled']}" for flag in one["scaled"])
            yield Text(f"{one['profile']} scaled: {pairs}", "dim")


def _counted(n: int, what: str) -> str:
    return f"{n:,} {what}{'s' * (n != 1)}"


def _short(n: int) -> str:
    """Tokens in thousands where they are many."""
    return f"{n:,}" if n < 100_000 else f"{n / 1000:,.0f}k" if n < 10_000_000 else f"{n / 1_000_000:,.1f}M"


def _share(n: int, whole: int) -> str:
    return f"{100 * n / whole:.1f}" if whole else "0.0"
