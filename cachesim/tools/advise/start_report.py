"""Data and report of the check of a configuration before the server starts."""

from __future__ import annotations

from typing import Any, Iterator

from rich.console import Group, RenderableType
from rich.text import Text

from cachesim.base.errors import counted
from cachesim.base.escaping import shell_command
from cachesim.base.layout import as_typed, indented
from cachesim.engines.registry import engine_of, rules_of
from cachesim.judging.reproduce_command import flags_data, flags_line, line_arguments
from cachesim.judging.setting_text import options_text, settings_data
from cachesim.scenarios.option_checks import spoken
from cachesim.scenarios.server_settings import assumed_options
from cachesim.tools.advise.start_check import CONTEXT, GENERATED, FindingKind, StartCheck, StartFinding, TriedLength
from cachesim.tools.advise.start_examples import LENGTHS

Data = dict[str, Any]


def start_data(check: StartCheck) -> Data:
    """Return a check as data."""
    scenario = check.scenario
    assumed = assumed_options(scenario)
    return {
        "profile": check.profile,
        "model": scenario.model,
        "flags": flags_data(check.profile, scenario.server),
        "assumed": sorted(assumed),
        "cautions": [*engine_of(check.profile).cautions(rules_of(check.profile), scenario.model, scenario.server)],
        "lengths": list(LENGTHS),
        "findings": [_finding_data(one, check) for one in check.findings],
        "fine": list(check.fine),
    }


def _finding_data(finding: StartFinding, check: StartCheck) -> Data:
    scenario = check.scenario
    given = spoken(finding.server or scenario.server, scenario.engine)
    words = line_arguments(finding.example, check.profile, scenario.model, given)
    setting = None if finding.run is None else settings_data(finding.setting, finding.run, None)
    return {
        "kind": finding.kind,
        "habit": finding.habit,
        "also": list(finding.also),
        "tried": [_length_data(one) for one in finding.tried],
        "shown": _length_data(finding.shown),
        "example": finding.example,
        "shortest": _length_data(finding.shortest),
        "reason": finding.reason,
        "settings": setting,
        "is_tried": finding.is_tried,
        "cure": options_text(finding.cure, engine_of(check.profile).manual),
        "command": shell_command(["cachesim", "run", *words]),
    }


def _length_data(outcome: TriedLength | None) -> Data | None:
    return None if outcome is None else outcome._asdict()


def start_report(data: Data) -> RenderableType:
    """Return the report of a check."""
    return Group(*_lines(data))


def _lines(data: Data) -> Iterator[RenderableType]:
    yield Text.assemble(("before the start", "bold"), "  ", (data["profile"], "cyan"), "  ", data["model"])
    yield from (indented(line) for line in flags_line(data["flags"]))
    yield from (indented(f"note: {text}", "yellow") for text in data["cautions"])
    if data["assumed"]:
        yield indented("the size of the pool is not known: what it evicts or refuses is not checked "
                       f"(--set {data['assumed'][0]}=N, or the real server's log)", "dim")  # fmt: skip
    for number, finding in enumerate(data["findings"], 1):
        yield from _finding(number, finding)
    if data["fine"]:
        lengths = f"{data['lengths'][0]:,} to {data['lengths'][-1]:,} tokens"
        yield Text(f"Nothing is evaluated twice (prompts of {lengths}): {'; '.join(data['fine'])}.")


def _finding(number: int, finding: Data) -> Iterator[RenderableType]:
    yield Text.assemble((f"{number}  ", "dim"), (_title(finding), "bold"))
    if finding["also"]:
        yield indented(f"also: {'; '.join(finding['also'])}", "", 3)
    yield from (indented(text, "", 3) for text in _causes(finding))
    yield as_typed(finding["command"], "cyan", "   ")


def _title(finding: Data) -> str:
    kind, habit, shown, shortest = (finding[name] for name in ("kind", "habit", "shown", "shortest"))
    if kind == FindingKind.ENDLESS:
        return f"{_capital(habit)} does not end when its context is full"
    if kind == FindingKind.UNANSWERED:
        what = f"refused ({shortest['status']})" if shortest["status"] not in (0, 200) else "never answered"
        return f"{_capital(habit)} is {what}: the shortest found has {counted(shortest['length'], 'token')}"
    if kind == FindingKind.NEVER:
        return f"{_capital(habit)} never reuses anything"
    prompts = f"prompts of {shown['length']:,} tokens"
    if kind == FindingKind.LONG:
        return f"{_capital(habit)} reuses nothing ({prompts})"
    if kind == FindingKind.SHORT:
        return f"{_capital(habit)} reuses nothing ({prompts}, and shorter ones)"
    lost = shown["reusable"] - shown["reused"]
    return f"{_capital(habit)} evaluates {lost:,} of {shown['reusable']:,} tokens again ({prompts})"


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]


def _causes(finding: Data) -> Iterator[str]:
    """Yield the shortest example and the setting that changes it."""
    shortest = finding["shortest"]
    if finding["kind"] == FindingKind.ENDLESS:
        yield f"the simulation was stopped after {GENERATED:,} tokens in a context of {CONTEXT}"
        if finding["cure"]:
            yield f"it ends with {finding['cure']}"
        return
    if finding["kind"] != FindingKind.UNANSWERED:
        why = f" ({finding['reason']})" if finding["reason"] else ""
        yield f"shortest example: {shortest['reused']:,} of {shortest['reusable']:,} tokens are reused{why}"
    if not finding["is_tried"]:
        yield "other values of settings were not tried: the example is too long"
        return
    if finding["settings"] is None:
        yield "no other value of a setting that was tried changes it"
        return
    yield from finding["settings"]["says"][:2]
