"""Table of one conversation under several engines: the reused prompt tokens of each request."""

from __future__ import annotations

from typing import Any, Mapping, Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from cachesim.base.errors import counted
from cachesim.base.layout import WholeTable, lean_table, shortened
from cachesim.judging.verdict_text import style_of
from cachesim.judging.verdict_words import OK
from cachesim.tools.run.run_table import short_verdict

Data = Mapping[str, Any]


def engines_report(runs: Sequence[Data]) -> RenderableType | None:
    """Return a table for each conversation that ran under several engines, None without one."""
    cases: dict[str, list[Data]] = {}
    for run in runs:
        cases.setdefault(run["scenario"], []).append(run)
    tables = [_report(case) for case in cases.values() if len({_engine(run) for run in case}) > 1]
    return Group(*tables) if tables else None


def _report(runs: Sequence[Data]) -> RenderableType:
    """Return the table of a conversation: first the rule set that reuses most tokens, without a wrong answer."""
    best = sorted(runs, key=lambda run: (bool(run["broken"]), -_reused_tokens(run), run["profile"]))
    total = sum(request["prompt"] for request in best[0]["requests"])
    return Group(Text(f"reused of {counted(total, 'prompt token')}, by request"), _table(best), Text(""))


def _table(runs: Sequence[Data]) -> WholeTable:
    """Return the table: a row per request, a column per rule set, the sums last."""
    table = lean_table()
    table.add_column("#", justify="right")
    table.add_column("request", overflow="fold", min_width=7)
    table.add_column("prompt", justify="right", no_wrap=True)
    engines = [_engine(run) for run in runs]
    for run, engine in zip(runs, engines, strict=True):
        table.add_column(engine if engines.count(engine) == 1 else run["profile"], justify="right", no_wrap=True)
    for row in zip(*(run["requests"] for run in runs), strict=True):
        first = row[0]
        table.add_row(str(first["i"]), Text(shortened(first["text"], 24)), str(first["prompt"]), *map(_cell, row))
    sums = [Text(str(_reused_tokens(run)), "bold") for run in runs]
    table.add_row("", "all", str(sum(request["prompt"] for request in runs[0]["requests"])), *sums)
    return table


def _cell(request: Data) -> Text:
    """Return the reused tokens of a request, with its verdict if it is not correct."""
    reused = str(request["prompt"] - request["computed"])
    if request["verdict"] == OK.name:
        return Text(reused)
    return Text(f"{reused} {short_verdict(request['verdict'])}", style_of(request["verdict"]))


def _reused_tokens(run: Data) -> int:
    """Return the prompt tokens that a run reused in its requests."""
    return sum(request["prompt"] - request["computed"] for request in run["requests"])


def _engine(run: Data) -> str:
    return str(run["profile"]).partition("@")[0]
