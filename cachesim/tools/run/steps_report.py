"""Report of ``run --steps``: what each request waited for, and the steps of the scheduler."""

from __future__ import annotations

from typing import Any, Iterator, Mapping, Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from cachesim.base.errors import counted
from cachesim.base.layout import FittedRenderable, WholeTable, lean_table
from cachesim.judging.equal_outcomes import short_names
from cachesim.judging.schedule_text import EqualSteps, equal_steps, limits_text, runs_text, summary, wait_text

Data = Mapping[str, Any]
ROWS = 40               # rows of a table without -v


def steps_report(runs: Sequence[Data], verbose: int = 0) -> RenderableType:
    """Return the steps of runs of a scenario, once for rule sets with equal steps."""
    groups: list[list[Data]] = []
    for run in runs:
        same = next((group for group in groups if group[0]["steps"] == run["steps"]), None)
        if same is None:
            groups.append([run])
        else:
            same.append(run)
    return Group(*(_schedule(group, verbose) for group in groups))


def _schedule(group: Sequence[Data], verbose: int) -> RenderableType:
    names, _, others = short_names([run["profile"] for run in group]).partition(", ")
    name = f"{names} (same under {others})" if others else names
    schedule = group[0]["steps"]
    if schedule is None:
        return Group(Text(f"{name}: its server does not schedule steps"), "")
    return Group(Text(f"{name}: {summary(schedule)}", "bold"), *_tables(schedule, verbose), "")


def _tables(schedule: Data, verbose: int) -> Iterator[RenderableType]:
    rows = equal_steps(schedule["scheduled"])
    shown = rows if verbose else rows[:ROWS]
    yield FittedRenderable(lambda width: _request_table(schedule, width))
    yield Text("")
    yield FittedRenderable(lambda width: _step_table(shown, schedule["preemption_word"], width))
    if len(rows) > len(shown):
        yield Text(f"and {counted(len(rows) - len(shown), 'more row')} (-v)", "dim")


def _request_table(schedule: Data, width: int) -> WholeTable:
    requests = schedule["by_request"]
    has_drafts = any(one["draft_tokens"] for one in requests)
    has_preemptions = any(one["preemptions"] for one in requests)
    table = lean_table(width)
    table.add_column("request", justify="right")
    table.add_column("steps", no_wrap=True)
    names = ["prompt", "answer"]
    if has_drafts:
        names.append("draft")
    names.append("waited")
    if has_preemptions:
        names.append(schedule["preemption_word"])
    for name in names:
        table.add_column(name, justify="right")
    table.add_column("waited for", overflow="fold")
    for one in requests:
        steps = "" if one["first_step"] is None else f"{one['first_step']}-{one['last_step']}"
        numbers = [one["prompt_tokens"], one["answer_tokens"]]
        if has_drafts:
            numbers.append(one["draft_tokens"])
        numbers.append(one["waited"])
        if has_preemptions:
            numbers.append(one["preemptions"])
        waits = "; ".join(map(wait_text, one["waited_for"]))
        table.add_row(str(one["request"]), steps, *(str(number or "·") for number in numbers), waits)
    return table


def _step_table(rows: Sequence[EqualSteps], preemption: str, width: int) -> WholeTable:
    has_kinds = any(same.steps[0]["step_kind"] for same in rows)
    table = lean_table(width)
    table.add_column("step", no_wrap=True)
    if has_kinds:
        table.add_column("kind", no_wrap=True)
    table.add_column("tokens", justify="right")
    table.add_column("evaluates", overflow="fold")
    table.add_column("limits", overflow="fold")
    for same in rows:
        step = same.steps[0]
        kind = [step["step_kind"]] if has_kinds else []
        table.add_row(same.name, *kind, str(step["step_tokens"] or "·"), runs_text(step), limits_text(same, preemption))
    return table
