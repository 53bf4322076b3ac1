"""Which decisions made one request keep what it kept? In the order in which they were taken, with their numbers."""

from __future__ import annotations

from typing import Any, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from cachesim.engines.rule import Role, role_of
from cachesim.events import Aborted, Decided
from cachesim.reports.sentences import sentence
from cachesim.verdicts.judged_run import Run
from cachesim.verdicts.recompute_reasons import reasons

QUIET = (Role.ENABLE, Role.END)


def why_data(run: Run, number: int, others: Sequence[tuple[str, int]] = ()) -> dict[str, Any]:
    """The verdict about one request, its decisions, and why each token was computed, as data. ``others`` are (profile,
    cache_n) of the same request under all rule sets whose answer was right; ``output_wrong``: it is the answer that is
    wrong, not only what it left behind."""
    one = run.requests[number]
    steps = [step for event in run.events(number) if (step := _step(event)) is not None]
    account = one.account
    return {
        "scenario": run.scenario.id,
        "profile": run.profile,
        "request": number,
        "text": run.scenario.steps[number].text,
        "prompt": len(one.request.prompt),
        "cache_n": one.answer.cache_n,
        "best": account.best,
        "held": account.held,
        "lost": [charge._asdict() for charge in account.charges],
        "computed": [reason._asdict() for reason in reasons(one, others)],
        "equal_cold": one.judged.equal_cold,
        "refused": one.judged.refused,
        "told": number in run.told,
        "rung": one.judged.wrong.rung if one.judged.wrong else "",
        "fault": one.judged.fault,
        "kind": one.judged.doubt.kind,
        "numbers": dict(one.judged.doubt.numbers),
        "output_wrong": one.judged.answer.holds is False,
        "doubt": one.judged.answer.why if number in run.unsettled else "",
        "decisions": steps,
    }


def _step(event: Any) -> dict[str, Any] | None:
    if isinstance(event, Decided):
        text = sentence(event.rule, event.value, event.because)
        because = {k: _plain(v) for k, v in event.because.items()}
        return {"rule": event.rule, "role": role_of(event.rule), "says": text, "value": _plain(event.value),
                "because": because}
    if isinstance(event, Aborted):
        return {"rule": "", "role": None, "says": f"the process ends: {event.text}", "value": None, "because": {}}
    return None


def _plain(value: Any) -> Any:
    """A number, text or list that JSON can hold."""
    if isinstance(value, tuple | list):
        return [_plain(v) for v in value]
    return value if isinstance(value, bool | int | float | str) or value is None else str(value)


def why_report(data: dict[str, Any]) -> RenderableType:
    """The verdict, the decisions as a table, and the bill below it."""
    what = f" request {data['request']} "
    head = Text.assemble((data["scenario"], "bold"), what, (data["text"], "bold"), "  ", (data["profile"], "cyan"))
    table = Table(box=None, padding=(0, 1), header_style="dim")
    table.add_column("rule", no_wrap=True)
    table.add_column("says")
    made = True                       # are checkpoints made at all? Where they are not, nothing is said of each
    for step in (one for one in data["decisions"] if one["says"]):
        if step["role"] == Role.ENABLE:
            made = bool(step["value"])
        if step["role"] not in QUIET and (made or step["role"] != Role.CREATE):
            table.add_row(step["rule"], Text(step["says"]))
    limits = f"{data['held']} could have been, {data['best']} were ever evaluated"
    bill = Text(f"  {data['cache_n']} of {data['prompt']} tokens kept; {limits}")
    doubt = [Text("  this is one case of several", "yellow")] if data["doubt"] else []
    return Group(head, _verdict(data), table, bill, *doubt, *(_reason(reason) for reason in data["computed"]))


def _verdict(data: dict[str, Any]) -> Text:
    """Was the answer right? Said first."""
    if data["equal_cold"]:
        return Text("  right: equal to a cold run", "green")
    if data["equal_cold"] is None:
        return Text(f"  {'' if data['refused'] else 'undecided: '}{data['fault']}", "yellow")
    if data["rung"] in ("error", "aborted"):
        return Text(f"  WRONG: {data['fault']}", "bold red")
    what = "WRONG OUTPUT" if data["output_wrong"] else "WRONG STATE left behind"
    return Text(f"  {what}: {data['fault']} [{data['rung']}]", "bold red")


def _reason(reason: dict[str, Any]) -> Text:
    """One range of computed tokens."""
    text = f"  {reason['start']:>5} .. {reason['stop'] - 1:<5} {reason['why']}"
    text += f", at request {reason['at']}" if reason["at"] >= 0 else ""
    text += f", by {reason['rule']}" if reason["rule"] else ""
    if reason["survives"]:
        text += f"\n{'':17}kept under {', '.join(reason['survives'])}"
    return Text(text, "yellow" if reason["rule"] else "dim")
