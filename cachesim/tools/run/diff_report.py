"""Reports of ``diff``: differences between two profiles on a scenario, and totals over many scenarios."""

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
SHOWN = 8                # rules listed without -v


def diff_data(a: Run, b: Run) -> Data:
    """Return both runs, the rules that differ, and the first decision that differs. ``stored``: final prompt-cache
    entries, each with its length and the request whose conversation it holds (-1 = an older conversation)."""
    return {
        "scenario": a.scenario.id, "title": a.scenario.title, "a": run_data(a), "b": run_data(b), "first": _first(a, b),
        "rules": _rules(a.profile, b.profile), "stored": {"a": _stored(a), "b": _stored(b)},
    }  # fmt: skip


def _rules(a: str, b: str) -> Data:
    """Return the number of rule-set fields and the fields that differ."""
    rules_a, rules_b = rules_of(a), rules_of(b)
    count = sum(name.partition(".")[0] not in DESCRIPTION_FIELDS | LOG_FIELDS for name in rules_a.fields())
    return {"count": count, "changes": [change._asdict() for change in rules_a.changes(rules_b)]}


def _stored(run: Run) -> list[Data]:
    return [{"tokens": n, "request": request} for request, n in run.stored]


def _first(a: Run, b: Run) -> Data | None:
    for number in range(len(a.requests)):
        decisions_a = [e for e in a.events(number) if isinstance(e, Decided)]
        decisions_b = [e for e in b.events(number) if isinstance(e, Decided)]
        for x, y in zip(decisions_a, decisions_b, strict=False):
            if (_family(x) != _family(y) or repr(x.value) != repr(y.value)) and (_has_effect(x) or _has_effect(y)):
                return {"request": number, "a": _decision_data(x), "b": _decision_data(y)}
    return None


def _family(event: Decided) -> str:
    return event.rule.split(".")[0]


def _has_effect(event: Decided) -> bool:
    return bool(sentence(event.rule, event.value, event.because))


def _decision_data(event: Decided) -> dict[str, str]:
    return {"rule": event.rule, "says": sentence(event.rule, event.value, event.because, every=True)}


def diff_report(data: Data, verbose: int = 0) -> RenderableType:
    """Return the requests that differ (all with ``verbose``), the verdicts under both profiles, the totals, the final
    prompt caches, the rules that differ, and the first decision that differs."""
    title: list[RenderableType] = [] if data["scenario"] == "try" else [Text(data["title"])]
    title += _flags(data)
    pairs = list(zip(data["a"]["requests"], data["b"]["requests"], strict=True))
    parts = [differing_line(pairs), *_verdicts(data), *_requests(pairs, verbose), *_totals(data)]
    rest = [*_stores(data["stored"]), *_changes(data["rules"], verbose), *_decision(data["first"])]
    return Group(Text(data["scenario"], "bold"), *title, *parts, *rest)


def _flags(data: Data) -> Iterator[RenderableType]:
    """Yield the server flags, only once if they are equal under both profiles."""
    flags_a, flags_b = data["a"]["flags"], data["b"]["flags"]
    if flags_a == flags_b:
        yield from flags_line(flags_a)
        return
    for name, flags in (("A", flags_a), ("B", flags_b)):
        yield from (Text.assemble(f"{name} ", line) for line in flags_line(flags))


def _verdicts(data: Data) -> Iterator[RenderableType]:
    for name, run in (("A", data["a"]), ("B", data["b"])):
        yield Text.assemble(f"{name} ", (run["profile"], "cyan"), "  ", verdict_line(run))
        for request in run["requests"]:
            if request["verdict"] != "OK":
                yield indented(f"request {request['i']}: {request['fault']}", style_of(request["verdict"]))
                yield from (indented(f"request {request['i']} {read}", "", 4) for read in request["read_instead"][:1])
        yield from predicted_lines(run["predicted"])


def _changes(rules: Data, verbose: int) -> Iterator[RenderableType]:
    """Yield the number of rules that differ and a line for each of them."""
    found = rules["changes"]
    verb = "differs" if len(found) == 1 else "differ"
    yield Text(f"{len(found)} of {counted(rules['count'], 'rule')} {verb}", "bold")
    shown = found if verbose else found[:SHOWN]
    for change in shown:
        source = f" ({change['source']})" if change["source"] else ""
        yield indented(f"{change['field']}: {change['old']} -> {change['new']}{source}")
    if len(shown) < len(found):
        yield indented(f"and {len(found) - len(shown)} more (-v, or cachesim profiles diff)", "dim")


def differing_line(pairs: Sequence[tuple[Data, Data]]) -> Text:
    """Return how many requests differ, and which."""
    found = [str(x["i"]) for x, y in pairs if differ(x, y)]
    if not found:
        return Text(f"no request differs (of {len(pairs)})", "green")
    return Text(f"{len(found)} of {counted(len(pairs), 'request')} {'differs' if len(found) == 1 else 'differ'}: "
                f"{', '.join(found)}", "bold")  # fmt: skip


def _requests(pairs: Sequence[tuple[Data, Data]], verbose: int) -> list[RenderableType]:
    shown = [pair for pair in pairs if verbose or differ(*pair)]
    return [Fitted(lambda width: _table(shown, width))] if shown else []


def differ(x: Data, y: Data) -> bool:
    """True if the reused or evaluated tokens, the status or the verdict of a request differ."""
    names = ("cache_n", "kept", "restored", "loaded", "prompt_n", "status", "died", "equal_cold", "verdict")
    return any(x[name] != y[name] for name in names)


def _table(pairs: Sequence[tuple[Data, Data]], width: int) -> Table:
    table = lean_table(width)
    table.add_column("#", justify="right")
    table.add_column("request", overflow="fold", min_width=7)
    for name in ("prompt", "reused", "evaluated"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("answer")
    table.add_column("reason")
    for x, y in pairs:
        answers = [Text(short_verdict(request["verdict"]), style_of(request["verdict"])) for request in (x, y)]
        both = x["verdict"] == y["verdict"]
        table.add_row(
            str(x["i"]), Text(shortened(x["text"], 40)), str(x["prompt"]), _two(x["cache_n"], y["cache_n"]),
            _two(x["prompt_n"], y["prompt_n"]), answers[0] if both else Text.assemble(answers[0], " -> ", answers[1]),
            _two(x["reason"], y["reason"]),
        )  # fmt: skip
    return table


def _two(a: object, b: object) -> str:
    """Return a value that is equal under both profiles, or "a -> b"."""
    return f"{a}" if a == b else f"{a} -> {b}"


def percent(a: int, b: int, digits: int = 1) -> str:
    """Return the change from a to b in percent, in brackets; "" if a is 0."""
    return f" ({100 * (b - a) / a:+.{digits}f} %)" if a else ""


def _totals(data: Data) -> list[RenderableType]:
    a, b = (sum(request["prompt_n"] for request in data[name]["requests"]) for name in ("a", "b"))
    again = (sum(charge["tokens"] for charge in data[name]["lost"]) for name in ("a", "b"))
    return [Text(f"evaluated in all: {a} -> {b} tokens{percent(a, b)}; "
                 f"re-evaluated: {' -> '.join(map(str, again))}")]  # fmt: skip


def _stores(stored: Data) -> Iterator[RenderableType]:
    """Yield the final prompt caches if they differ."""
    if stored["a"] != stored["b"]:
        yield Text("prompt cache at the end")
        for name in ("a", "b"):
            entries = ", ".join(f"{entry['tokens']} tokens of {_owner(entry)}" for entry in stored[name]) or "empty"
            yield indented(f"{name.upper()} {entries}")


def _owner(entry: Data) -> str:
    return "an older conversation" if entry["request"] < 0 else f"request {entry['request']}"


def _decision(first: Data | None) -> Iterator[RenderableType]:
    if first is None:
        yield Text("all decisions with an effect are equal", "green")
        return
    yield Text(f"first difference at request {first['request']}", "yellow")
    for name in ("a", "b"):
        yield indented(f"{name.upper()} {first[name]['rule']}: {first[name]['says']}", "yellow")


# --- Totals over the scenarios of a folder -------------------------------------------------------------------

COUNTS = ("requests", "changed", "broken", "mended", "evaluated_a", "evaluated_b", "wrong_a", "wrong_b")


def file_data(file: str, a: Data, b: Data) -> Data:
    """Return the differences of a scenario between two profiles. ``a``, ``b``: data of ``run_data``.

    ``evaluated_a``, ``evaluated_b``: evaluated prompt tokens. ``changed``: requests with another number of reused
    tokens, another status or another verdict. ``broken``: answers correct under A and wrong under B; ``mended``: the
    reverse. ``wrong_a``, ``wrong_b``: wrong answers. ``answers``: all answers under both profiles, with ``equal`` to a
    cold run (None = undecided) and ``told`` if the file expects a refusal.
    """
    pairs = list(zip(a["requests"], b["requests"], strict=True))
    return {
        "file": file, "scenario": a["scenario"], "requests": len(pairs),
        "changed": sum(_outcome(x) != _outcome(y) for x, y in pairs),
        "broken": sum(x["equal_cold"] is True and y["equal_cold"] is False for x, y in pairs),
        "mended": sum(x["equal_cold"] is False and y["equal_cold"] is True for x, y in pairs),
        "evaluated_a": sum(x["prompt_n"] for x, _ in pairs), "evaluated_b": sum(y["prompt_n"] for _, y in pairs),
        "wrong_a": sum(x["equal_cold"] is False for x, _ in pairs),
        "wrong_b": sum(y["equal_cold"] is False for _, y in pairs),
        "answers": [
            {"equal": request["equal_cold"], "told": request["i"] in run["told"]}
            for run in (a, b) for request in run["requests"]
        ],
    }  # fmt: skip


def _outcome(request: Data) -> tuple[Any, ...]:
    return request["cache_n"], request["prompt_n"], request["status"], request["died"], request["equal_cold"]


def totals(files: Sequence[Data]) -> dict[str, int]:
    """Return the sums over all files. ``files_changed``: number of files with a changed request."""
    sums = {name: sum(file[name] for file in files) for name in COUNTS}
    return {"files": len(files), "files_changed": sum(file["changed"] > 0 for file in files), **sums}


def worst_first(files: Sequence[Data]) -> list[Data]:
    """Return the changed files, sorted by newly wrong answers (descending), fixed answers (ascending) and additional
    evaluated tokens (descending)."""
    changed = [file for file in files if file["changed"]]
    return sorted(changed, key=lambda file: (-file["broken"], file["mended"], -_more(file), file["file"]))


def _more(file: Data) -> int:
    return int(file["evaluated_b"]) - int(file["evaluated_a"])


def diff_table(data: Data) -> RenderableType:
    """Return the report of a folder: changed scenarios, worst first, and totals. Fits 80 columns."""
    sums = data["totals"]
    head = Text.assemble((data["folder"], "bold"), "\n  A ", (data["a"], "cyan"), "  B ", (data["b"], "cyan"))
    files = worst_first(data["files"])
    table = Fitted(lambda width: _table_diff_table(files, width))
    parts: list[RenderableType] = [table] if files else [Text("  all requests are equal", "green")]
    if data["other_engines"]:
        parts.append(Text(f"  {counted(data['other_engines'], 'scenario')} of other engines skipped", "dim"))
    if data["failed"]:
        parts.append(Text(f"  {counted(data['failed'], 'scenario')} not compared", "yellow"))
    return Group(head, *parts, _sums(sums))


def _table_diff_table(files: Sequence[Data], width: int) -> Table:
    table = lean_table(width)
    table.add_column("scenario", overflow="fold")
    for name in ("requests", "newly wrong", "fixed", "evaluated"):
        table.add_column(name, justify="right")
    for file in files:
        counts = (str(file[name]) if file[name] else "·" for name in ("broken", "mended"))
        evaluated = f"{file['evaluated_a']} -> {file['evaluated_b']}"
        changed = f"{file['changed']} of {file['requests']}"
        table.add_row(Text(file["scenario"]), changed, *counts, evaluated, style=_style(file))
    return table


def _style(file: Data) -> str:
    return "bold red" if file["broken"] else "green" if file["mended"] else ""


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
