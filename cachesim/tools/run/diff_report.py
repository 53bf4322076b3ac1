"""Where do two profiles decide differently on one scenario, and what does that change?"""

from __future__ import annotations

from typing import Any, Iterator, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from cachesim.base.errors import counted
from cachesim.base.layout import Fitted, indented, lean_table, shortened
from cachesim.engines.registry import rules_of
from cachesim.engines.shared.rule_set import DESCRIPTION_FIELDS, LOG_FIELDS
from cachesim.events import Decided
from cachesim.judging.judged_run import Run
from cachesim.judging.reproduce_command import flags_line
from cachesim.judging.run_data import run_data
from cachesim.judging.verdict_text import sentence, style_of, verdict_line
from cachesim.tools.run.run_table import predicted_lines, short_verdict

Data = dict[str, Any]
SHOWN = 8                # rules that are listed


def diff_data(a: Run, b: Run) -> Data:
    """Both runs, the rules that differ, and the first decision whose answer is not the same. ``stored`` are the entries
    of the prompt cache at the end: lengths, and the request whose conversation each is (-1 = none of them)."""
    one, two = run_data(a), run_data(b)
    return {
        "scenario": a.scenario.id, "title": a.scenario.title, "a": one, "b": two, "first": _first(a, b),
        "rules": _rules(a.profile, b.profile), "stored": {"a": _stored(a), "b": _stored(b)},
    }  # fmt: skip


def _rules(a: str, b: str) -> Data:
    """Fields of the tables that differ, and how many there are."""
    mine, theirs = rules_of(a), rules_of(b)
    count = sum(name.partition(".")[0] not in DESCRIPTION_FIELDS | LOG_FIELDS for name in mine.fields())
    return {"count": count, "changes": [change._asdict() for change in mine.changes(theirs)]}


def _stored(run: Run) -> list[Data]:
    return [{"tokens": n, "request": request} for request, n in run.stored]


def _first(a: Run, b: Run) -> Data | None:
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


def diff_report(data: Data, verbose: int = 0) -> RenderableType:
    """The verdict under both, the rules that differ, the requests that differ (all of them with ``verbose``), totals,
    the first decision that differs, the prompt cache at the end."""
    title: list[RenderableType] = [] if data["scenario"] == "try" else [Text(data["title"])]
    title += _flags(data)
    parts = [*_verdicts(data), *_changes(data["rules"], verbose), *_requests(data, verbose), *_totals(data)]
    return Group(Text(data["scenario"], "bold"), *title, *parts, *_stores(data["stored"]), *_decision(data["first"]))


def _flags(data: Data) -> Iterator[RenderableType]:
    """The server's flags, once where both versions have the same."""
    one, two = data["a"]["flags"], data["b"]["flags"]
    if one == two:
        yield from flags_line(one)
        return
    for name, flags in (("A", one), ("B", two)):
        yield from (Text.assemble(f"{name} ", line) for line in flags_line(flags))


def _verdicts(data: Data) -> Iterator[RenderableType]:
    for name, run in (("A", data["a"]), ("B", data["b"])):
        yield Text.assemble(f"{name} ", (run["profile"], "cyan"), "  ", verdict_line(run))
        for one in run["requests"]:
            if one["verdict"] != "OK":
                yield indented(f"request {one['i']}: {one['fault']}", style_of(one["verdict"]))
                yield from (indented(f"request {one['i']} {read}", "", 4) for read in one["read_instead"][:1])
        yield from predicted_lines(run["predicted"])


def _changes(rules: Data, verbose: int) -> Iterator[RenderableType]:
    """The rules that differ."""
    found = rules["changes"]
    verb = "differs" if len(found) == 1 else "differ"
    yield Text(f"{len(found)} of {counted(rules['count'], 'rule')} {verb}", "bold")
    shown = found if verbose else found[:SHOWN]
    for one in shown:
        source = f" ({one['source']})" if one["source"] else ""
        yield indented(f"{one['field']}: {one['old']} -> {one['new']}{source}")
    if len(shown) < len(found):
        yield indented(f"and {len(found) - len(shown)} more (-v, or cachesim profiles diff)", "dim")


def _requests(data: Data, verbose: int) -> list[RenderableType]:
    pairs = list(zip(data["a"]["requests"], data["b"]["requests"], strict=True))
    shown = [pair for pair in pairs if verbose or differ(*pair)]
    if not shown:
        return [Text(f"no request differs, of {len(pairs)}", "green")]
    found = sum(differ(*pair) for pair in pairs)
    head = Text(f"{found} of {counted(len(pairs), 'request')} {'differs' if found == 1 else 'differ'}", "bold")
    return [head, Fitted(lambda width: _table(shown, width))]


def differ(x: Data, y: Data) -> bool:
    """Does a request come out differently: reused or evaluated tokens, status, verdict?"""
    told = ("cache_n", "kept", "restored", "loaded", "prompt_n", "status", "died", "equal_cold", "verdict")
    return any(x[name] != y[name] for name in told)


def _table(pairs: list[tuple[Data, Data]], width: int) -> Table:
    table = lean_table(width)
    table.add_column("#", justify="right")
    table.add_column("request", overflow="fold", min_width=7)
    for name in ("prompt", "reused", "evaluated"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("answer")
    table.add_column("reason")
    for x, y in pairs:
        answers = [Text(short_verdict(one["verdict"]), style_of(one["verdict"])) for one in (x, y)]
        both = x["verdict"] == y["verdict"]
        table.add_row(
            str(x["i"]), Text(shortened(x["text"], 40)), str(x["prompt"]), _two(x["cache_n"], y["cache_n"]),
            _two(x["prompt_n"], y["prompt_n"]), answers[0] if both else Text.assemble(answers[0], " -> ", answers[1]),
            _two(x["reason"], y["reason"]),
        )  # fmt: skip
    return table


def _two(a: object, b: object) -> str:
    """Under A, and under B where that is something else."""
    return f"{a}" if a == b else f"{a} -> {b}"


def percent(a: int, b: int, digits: int = 1) -> str:
    """How much more b is, in brackets."""
    return f" ({100 * (b - a) / a:+.{digits}f} %)" if a else ""


def _totals(data: Data) -> list[RenderableType]:
    a, b = (sum(one["prompt_n"] for one in data[name]["requests"]) for name in ("a", "b"))
    again = (sum(charge["tokens"] for charge in data[name]["lost"]) for name in ("a", "b"))
    return [Text(f"evaluated in all: {a} -> {b} tokens{percent(a, b)}; "
                 f"of them evaluated before: {' -> '.join(map(str, again))}")]  # fmt: skip


def _stores(stored: Data) -> Iterator[RenderableType]:
    """The prompt cache at the end, where it is not the same."""
    if stored["a"] != stored["b"]:
        yield Text("prompt cache at the end")
        for name in ("a", "b"):
            entries = ", ".join(f"{one['tokens']} tokens of {_whose(one)}" for one in stored[name]) or "empty"
            yield indented(f"{name.upper()} {entries}")


def _whose(one: Data) -> str:
    return "an older conversation" if one["request"] < 0 else f"request {one['request']}"


def _decision(first: Data | None) -> Iterator[RenderableType]:
    if first is None:
        yield Text("every decision is the same", "green")
        return
    yield Text(f"first difference at request {first['request']}", "yellow")
    for name in ("a", "b"):
        yield indented(f"{name.upper()} {first[name]['rule']}: {first[name]['says']}", "yellow")


# Where do two profiles decide differently on many scenarios, and what does that change in all? Totals, and the files
# that changed, worst first.

COUNTS = ("requests", "changed", "broken", "mended", "evaluated_a", "evaluated_b", "wrong_a", "wrong_b")


def file_data(file: str, a: Data, b: Data) -> Data:
    """One scenario judged under both profiles (``run_data``). ``evaluated_a`` and ``_b`` are tokens of prompts;
    ``changed`` requests kept another number of tokens, had another status or another verdict; ``broken`` answers are a
    cold run's under A and are not under B, ``mended`` the other way round; ``wrong_a`` and ``_b`` are not a cold run's
    there. ``answers`` are those of both: equal to a cold run (None = undecided), and does the file expect a refusal?"""
    pairs = list(zip(a["requests"], b["requests"], strict=True))
    return {
        "file": file, "scenario": a["scenario"], "requests": len(pairs),
        "changed": sum(_told(x) != _told(y) for x, y in pairs),
        "broken": sum(x["equal_cold"] is True and y["equal_cold"] is False for x, y in pairs),
        "mended": sum(x["equal_cold"] is False and y["equal_cold"] is True for x, y in pairs),
        "evaluated_a": sum(x["prompt_n"] for x, _ in pairs), "evaluated_b": sum(y["prompt_n"] for _, y in pairs),
        "wrong_a": sum(x["equal_cold"] is False for x, _ in pairs),
        "wrong_b": sum(y["equal_cold"] is False for _, y in pairs),
        "answers": [
            {"equal": one["equal_cold"], "told": one["i"] in run["told"]} for run in (a, b) for one in run["requests"]
        ],
    }  # fmt: skip


def _told(one: Data) -> tuple[Any, ...]:
    return one["cache_n"], one["prompt_n"], one["status"], one["died"], one["equal_cold"]


def totals(files: Sequence[Data]) -> dict[str, int]:
    """Sums over all files; ``files_changed`` are those in which any request changed."""
    sums = {name: sum(one[name] for one in files) for name in COUNTS}
    return {"files": len(files), "files_changed": sum(one["changed"] > 0 for one in files), **sums}


def worst_first(files: Sequence[Data]) -> list[Data]:
    """The files that changed: those with answers that broke first, then by what they evaluate more; those that were
    mended, or evaluate less, last."""
    changed = [one for one in files if one["changed"]]
    return sorted(changed, key=lambda one: (-one["broken"], one["mended"], -_more(one), one["file"]))


def _more(one: Data) -> int:
    return int(one["evaluated_b"]) - int(one["evaluated_a"])


def diff_table(data: Data) -> RenderableType:
    """Everything within 80 columns."""
    sums = data["totals"]
    head = Text.assemble((data["folder"], "bold"), "\n  A ", (data["a"], "cyan"), "  B ", (data["b"], "cyan"))
    files = worst_first(data["files"])
    table = Fitted(lambda width: _table_diff_table(files, width))
    parts: list[RenderableType] = [table] if files else [Text("  no request differs", "green")]
    if data["other_engines"]:
        parts.append(Text(f"  {counted(data['other_engines'], 'scenario')} of other engines left out", "dim"))
    if data["failed"]:
        parts.append(Text(f"  {counted(data['failed'], 'scenario')} not compared", "yellow"))
    return Group(head, *parts, _sums(sums))


def _table_diff_table(files: Sequence[Data], width: int) -> Table:
    table = lean_table(width)
    table.add_column("scenario", overflow="fold")
    for name in ("requests", "newly wrong", "fixed", "evaluated"):
        table.add_column(name, justify="right")
    for one in files:
        counts = (str(one[name]) if one[name] else "·" for name in ("broken", "mended"))
        evaluated = f"{one['evaluated_a']} -> {one['evaluated_b']}"
        what = f"{one['changed']} of {one['requests']}"
        table.add_row(Text(one["scenario"]), what, *counts, evaluated, style=_style(one))
    return table


def _style(one: Data) -> str:
    return "bold red" if one["broken"] else "green" if one["mended"] else ""


def _sums(sums: dict[str, int]) -> Text:
    a, b = sums["evaluated_a"], sums["evaluated_b"]
    wrong = "WRONG OUTPUT" if sums["wrong_a"] or sums["wrong_b"] else "OK"
    lines = [
        f"  {sums['files_changed']} of {counted(sums['files'], 'scenario')} differ,"
        f" {sums['changed']} of {counted(sums['requests'], 'request')}",
        f"  evaluated in all: {a} -> {b} tokens{percent(a, b, 2)}",
        f"  {wrong}: {counted(sums['wrong_a'], 'wrong answer')} under A, {sums['wrong_b']} under B;"
        f" {sums['broken']} newly wrong, {sums['mended']} fixed",
    ]
    return Text("\n".join(lines), "bold red" if sums["broken"] else "bold")
