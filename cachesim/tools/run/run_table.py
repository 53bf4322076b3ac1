"""How does a run look? The verdict, what was read instead, a table of where the tokens of each prompt are from, what
was evaluated again and why; from the data of ``run_data``."""

from __future__ import annotations

from typing import Any, Iterable, Iterator, Mapping, Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from cachesim.base.errors import counted
from cachesim.base.layout import ROOMY, Fitted, indented, lean_table, shortened
from cachesim.engines.registry import engine_named
from cachesim.judging.evidence import PREDICTED
from cachesim.judging.recompute_reasons import what_happened
from cachesim.judging.reproduce_command import flags_line
from cachesim.judging.verdict_text import style_of, verdict_line

# Lines about verdicts and charges that depend on an outcome which no real server was seen to have.

Data = Mapping[str, Any]
WHAT = {"verdict": "the wrong answer", "charge": "the re-evaluated tokens"}


def predicted_lines(found: Sequence[Data]) -> Iterator[RenderableType]:
    """One line for each outcome. ``found``: the dependences of ``run_data``."""
    groups: dict[tuple[str, str, str], list[int]] = {}
    for one in found:
        groups.setdefault((one["what"], one["rule"], one["case"]), []).append(one["request"])
    for (what, rule, case), numbers in groups.items():
        requests = counted(len(numbers), "request").partition(" ")[2]
        where = ", ".join(map(str, numbers))
        yield indented(f"{requests} {where}, {WHAT[what]}: {PREDICTED} ({rule}, case {case!r})", "yellow")


# What did a request leave behind? Its slot, checkpoints, prompt cache, context shifts and drafts, for ``-v``.

MOST = 12              # checkpoints that are listed one by one


def state_lines(requests: Iterable[Mapping[str, Any]]) -> Iterator[Padding]:
    """A line for each request that was answered."""
    for one in requests:
        said = "; ".join(_parts(one))
        if said:
            yield indented(f"after request {one['i']}: {said}", "dim")


def _parts(one: Mapping[str, Any]) -> Iterator[str]:
    if one["died"]:
        return
    if one["slot_held"] is not None:
        yield f"slot {one['id_slot']} holds {counted(one['tokens_cached'], 'token')}"
    if one["checkpoints"]:
        shown = ", ".join(map(str, one["checkpoints"][:MOST])) + ", .." * (len(one["checkpoints"]) > MOST)
        yield f"{counted(len(one['checkpoints']), 'checkpoint')} at {shown}"
    if one["entries"]:
        size = "" if one["stored_mib"] is None else f" of {one['stored_mib']} MiB"
        yield f"prompt cache: {counted(one['entries'], 'entry', 'entries')}{size}"
    for held, keep, discard in one["shifts"]:
        yield f"context shift at {held}: kept {keep}, dropped {discard}"
    if one["draft_n"]:
        yield f"drafts: {one['draft_n_accepted']} of {counted(one['draft_n'], 'token')} accepted"
    if one["completions"] > 1:
        yield f"{one['completions']} completions"


# A failure as it is told everywhere: Let, Then, Hence, the source of the decisive rule, and the line that shows it.

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


COUNTS = ("kept", "restored", "loaded", "evaluated")
SHOWN = 3                # corrupt objects of a run


def run_report(data: Data, verbose: int = 0) -> RenderableType:
    """Everything about one run: title, verdict, what was read instead, requests, lost tokens, corrupt objects.
    ``verbose``: why the scenario is there, too, what every request left behind, and every
    object."""
    title = [] if data["scenario"] == "try" else [Text(data["title"])]
    why = [indented(" ".join(data["why"].split()), "dim")] if verbose and data["why"] else []
    top = Text.assemble((data["scenario"], "bold"), f"  {data['model']}  ", (data["profile"], "cyan"))
    first = [*_wrong(data), *predicted_lines(data["predicted"]), *map(_mismatch, data["mismatches"])]
    table = Fitted(lambda width: _table(data["requests"], width))
    left = state_lines(data["requests"]) if verbose else ()
    kept = engine_named(data["profile"].partition("@")[0]).keeps
    lost = [_lost(charge, kept) for charge in data["lost"]]
    rest = [*left, *lost, *_corrupt(data, verbose), *map(_lives, data["lives"])]
    failure = [failure_block(data["failure"])] if data["failure"] else []
    head = Group(top, *flags_line(data["flags"]))
    return Group(head, *title, *why, verdict_line(data), *first, table, *rest, *failure, Text(""))


def _table(requests: Sequence[Data], width: int) -> Table:
    plain = all(one["verdict"] == "OK" for one in requests)
    table = lean_table(width)
    table.add_column("#", justify="right")
    table.add_column("request", overflow="fold", min_width=7)
    for name in ("prompt", *COUNTS):
        table.add_column(name, justify="right", no_wrap=True)
    for name in (*(() if plain else ("answer",)), "reason", *(("decided by",) if width >= ROOMY else ())):
        table.add_column(name, no_wrap=name == "decided by")
    for one in requests:
        text = f"+ {one['text']}" if one["how"] == "together" else one["text"]
        answer = () if plain else (Text(short_verdict(one["verdict"]), style_of(one["verdict"])),)
        rule = (Text(one["rule"], "dim"),) if width >= ROOMY else ()
        table.add_row(str(one["i"]), Text(shortened(text, 60)), _number(one["prompt"]),
                      *map(_number, origins(one)), *answer, _reason(one), *rule)  # fmt: skip
    return table


def _reason(one: Data) -> str:
    """How it came to its reused tokens, where it was answered at all."""
    return str(one["reason"]) if one["status"] == 200 and not one["died"] else ""


def short_verdict(verdict: str) -> str:
    """The verdict of a request, for the cell of a table."""
    return {"WRONG OUTPUT": "WRONG", "CORRUPT STATE": "CORRUPT", "SERVER DIED": "DIED"}.get(
        verdict, verdict.partition(" (")[0])


def origins(one: Data) -> tuple[int, int, int, int]:
    """Tokens of a prompt that were kept, restored from a checkpoint, loaded from the prompt cache, evaluated."""
    return one["kept"], one["restored"] - one["loaded"], one["loaded"], one["computed"]


def _number(n: int) -> str:
    return str(n) if n else "·"


def _wrong(data: Data) -> Iterator[RenderableType]:
    """What is wrong with the answers, requests with the same fault in one line, and what they read in place of their
    own memory."""
    groups: dict[tuple[str, str], list[Data]] = {}
    for one in data["requests"]:
        if one["verdict"] != "OK":
            groups.setdefault((one["fault"], one["rung"]), []).append(one)
    for (fault, rung), same in groups.items():
        numbers = ", ".join(str(one["i"]) for one in same)
        end = f" [{rung}]" if rung in ("bits", "argmax") else ""
        yield indented(f"request {numbers}: {fault}{end}", style_of(same[0]["verdict"]))
        yield from (indented(f"request {one['i']} {read}", "", 4) for one in same for read in one["read_instead"])


def _lives(one: Data) -> RenderableType:
    since = f"from {one['first']} " if one["first"] else ""
    return indented(f"the bug at request {one['request']} exists {since}up to {one['last']}", "dim")


def _lost(charge: Data, kept: str) -> RenderableType:
    when = f" at request {charge['at']}" if charge["at"] >= 0 else ""
    what = what_happened(charge["event"], charge["kind"], kept)
    rule = f" ({charge['rule']})" if charge["rule"] else ""
    tokens = counted(charge["tokens"], "token")
    return indented(f"request {charge['request']}: {tokens} re-evaluated: {what}{when}{rule}")


def _once(armed: Sequence[Data]) -> list[Data]:
    """Each corrupt object at the request where it first shows."""
    seen: set[tuple[Any, ...]] = set()
    out = []
    for one in armed:
        key = (one["kind"], one["owner"], one["tokens"], one["fault"])
        if key not in seen:
            seen.add(key)
            out.append(one)
    return out


def _corrupt(data: Data, verbose: int) -> Iterator[RenderableType]:
    """Stored objects that are not what the server takes them for. Where a failure is told, its causes name those that
    matter; else the first ones are shown, and all if more is wanted."""
    if data["failure"] and not verbose:
        return
    every = _once(data["armed"])
    shown = every if verbose else every[:SHOWN]
    for one in shown:
        what = f"{one['kind']} of {counted(one['tokens'], 'token')} (of {one['owner']})"
        instead = f"it has {one['holds'][0]}" if one["holds"] else one["fault"]
        yield indented(f"after request {one['request']}: {what} is corrupt, not used yet: {instead}", "yellow")
    if len(every) > len(shown):
        yield indented(f"and {counted(len(every) - len(shown), 'more corrupt object')} (-v)", "yellow")


def _mismatch(one: Data) -> RenderableType:
    where = f"request {one['request']}: " if one["request"] >= 0 else ""
    return indented(f"{where}{one['what']} is {one['got']}, the file expects {one['expected']}", "red")


def closing_line(runs: Sequence[Data], failed: int = 0) -> Text:
    """One line about all runs, and about what could not be run."""
    hold, broken = (sum(run["holds"] is value for run in runs) for value in (True, False))
    undecided = len(runs) - hold - broken
    off = sum(run["as_expected"] is False for run in runs)
    known = sum(run["as_expected"] is True for run in runs)
    text = f"{counted(len(runs), 'run')}: {hold} OK, {broken} wrong, {undecided} undecided"
    if known or off:
        text += f"; {counted(known, 'matches', 'match')} expectations, {counted(off, 'differs', 'differ')}"
    if failed:
        text += f"; {failed} not run"
    return Text(text, "bold red" if off or failed else "bold yellow" if broken or undecided else "bold green")
