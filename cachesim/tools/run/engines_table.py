"""Table of one conversation under several engines: the reused prompt tokens of each request."""

from __future__ import annotations

from itertools import zip_longest
from typing import Any, Mapping, Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from cachesim.base.errors import counted
from cachesim.base.layout import WholeTable, lean_table, shortened
from cachesim.judging.verdict_text import style_of
from cachesim.judging.verdict_words import OK
from cachesim.tools.run.run_table import origins, short_verdict

Data = Mapping[str, Any]
NOT_RUN = "not run"


def engines_report(cases: Sequence[Sequence[Data]]) -> RenderableType | None:
    """Return a table for each conversation that ran under several engines, None without one. ``cases``: the runs of
    each conversation."""
    tables = [reuse_table(runs) for runs in cases if len({_engine(run) for run in runs}) > 1]
    return Group(*tables) if tables else None


def reuse_table(runs: Sequence[Data], is_estimated: bool = False) -> RenderableType:
    """Return the table of a conversation under several rule sets. The rule set that reuses most tokens without a wrong
    answer comes first, a run that was cut off last. ``is_estimated``: the lengths of the prompts are estimates."""
    longest = max(runs, key=lambda run: len(run["requests"]))["requests"]
    best = sorted(runs, key=lambda run: (
        len(run["requests"]) < len(longest), bool(run["broken"]), -_reused_by(run), run["profile"]))  # fmt: skip
    total = sum(request["prompt"] for request in longest)
    heading = f"reused of {counted(total, 'prompt token')}, by request"
    if is_estimated:
        heading += " (tokens are estimated)"
    return Group(Text(heading), _table(best, longest), Text(""))


def _table(runs: Sequence[Data], longest: Sequence[Data]) -> WholeTable:
    """Return the table: a row per request, a column per rule set, the sums last. ``longest``: the requests of a run
    that has all of them."""
    table = lean_table()
    table.add_column("#", justify="right")
    table.add_column("request", overflow="fold", min_width=7)
    table.add_column("prompt", justify="right")
    engines = [_engine(run) for run in runs]
    for run, engine in zip(runs, engines, strict=True):
        table.add_column(engine if engines.count(engine) == 1 else run["profile"], justify="right")
    for first, *row in zip_longest(longest, *(run["requests"] for run in runs)):
        table.add_row(str(first["i"]), Text(shortened(first["text"], 24)), str(first["prompt"]), *map(_cell, row))
    sums = [Text(str(_reused_by(run)), "bold") for run in runs]
    table.add_row("", "all", str(sum(request["prompt"] for request in longest)), *sums)
    return table


def _cell(request: Data | None) -> Text:
    """Return the reused tokens of a request, with its verdict if it is not correct; None = it was not run."""
    if request is None:
        return Text(NOT_RUN, "yellow")
    if request["verdict"] == OK.name:
        return Text(str(reused_tokens(request)))
    return Text(f"{reused_tokens(request)} {short_verdict(request['verdict'])}", style_of(request["verdict"]))


def _reused_by(run: Data) -> int:
    """Return the prompt tokens that a run reused in all of its requests."""
    return sum(map(reused_tokens, run["requests"]))


def reused_tokens(request: Data) -> int:
    """Return the prompt tokens that a request reused; a refused request reused none."""
    kept, restored, loaded, _ = origins(request)
    return kept + restored + loaded


def _engine(run: Data) -> str:
    return str(run["profile"]).partition("@")[0]
