"""Report of ``bisect``: changes in the outcome of each request from version to version, as data and as text."""

from __future__ import annotations

from typing import Any, Iterator, Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from cachesim.base.layout import indented
from cachesim.engines.build_names import build_of, build_with, without_place
from cachesim.engines.registry import ENGINES, engine_named
from cachesim.engines.shared.rule_set import Change
from cachesim.judging.find_change import NO_ANSWER, ChangedFields, OutcomeChange, RequestHistory, RequestOutcome
from cachesim.judging.reproduce_command import flags_data, flags_line
from cachesim.judging.verdict_words import (
    NEVER_ANSWERED,
    SERVER_DIED,
    UNDECIDED,
    WORDS,
    WRONG_OUTPUT,
    VerdictWord,
    error_name,
    word_of,
)
from cachesim.scenarios.schema import Scenario
from cachesim.tools.run.observed_differences import differing_data, differing_text

SHOWN = frozenset({"cache_n", "equal_cold", "status", "died"})
"""Observables that the text of an outcome contains."""


def bisect_data(scenario: Scenario, courses: Sequence[RequestHistory]) -> dict[str, Any]:
    """Return for each request its outcome under every version, its changes between versions (``turns``), and the
    changes by proposed rule sets (``beside``). ``unordered``: rule sets that have an outcome, but no place in the
    order."""
    return {
        "scenario": scenario.id,
        "model": scenario.model,
        "flags": _flags(scenario),
        "unordered": without_place(engine_named(scenario.engine)),
        "requests": [
            {
                "i": i,
                "text": step.prompt,
                "outcomes": [{"profile": name, **_outcome(outcome)} for name, outcome in course.outcomes.items()],
                "turns": [_turn(turn) for turn in course.turns],
                "beside": [_turn(turn) for turn in course.beside],
            }
            for i, (step, course) in enumerate(zip(scenario.steps, courses, strict=True))
        ],
    }


def _turn(turn: OutcomeChange) -> dict[str, Any]:
    causes = [
        {"alone": cause.is_alone,
         "changes": [{**change._asdict(), "build": build_with(turn.new, change)} for change in cause.changes]}
        for cause in turn.causes
    ]  # fmt: skip
    return {"old": turn.old, "new": turn.new, "build": build_of(turn.new), "was": _outcome(turn.was),
            "now": _outcome(turn.now), "differs": differing_data(turn.differs), "causes": causes}  # fmt: skip


def _outcome(outcome: RequestOutcome | None) -> dict[str, Any]:
    """Return an outcome as data. All fields are None if the version was not run with the options of the scenario."""
    names = [name for name in RequestOutcome._fields if name != "seen"]
    return dict.fromkeys(names) if outcome is None else {name: getattr(outcome, name) for name in names}


def _flags(scenario: Scenario) -> dict[str, Any]:
    """Return the server flags under the newest version."""
    engine = engine_named(scenario.engine)
    newest = engine.newest or next(reversed([*engine.profiles, *engine.line]))
    return flags_data(newest, scenario.server)


def bisect_report(scenario: Scenario, courses: Sequence[RequestHistory]) -> RenderableType:
    """Return a paragraph per request; a single line for a request with the same outcome under every version."""
    head = Text.assemble((scenario.id, "bold"), "  ", (scenario.model, "cyan"))
    parts = [_paragraph(i, step.prompt, course)
             for i, (step, course) in enumerate(zip(scenario.steps, courses, strict=True))]  # fmt: skip
    return Group(head, *flags_line(_flags(scenario)), *parts)


def _paragraph(number: int, prompt: str, course: RequestHistory) -> RenderableType:
    first, oldest = next(iter(course.outcomes.items()))
    head = Text(f"{number}  {prompt}", "bold")
    equal = all(outcome == oldest for outcome in course.outcomes.values())
    if equal and not (course.turns or course.beside):
        return Group(head, indented(f"{_outcome_text(oldest)} under every rule set", "dim", 3), Text(""))
    engine = ENGINES.get(first.partition("@")[0])
    alone = [name for name in without_place(engine) if name in course.outcomes] if engine else []
    lines = [] if first in alone else [indented(f"{_outcome_text(oldest)} {_since(first)}", "", 3)]
    for turn in course.turns:
        lines += _lines("", turn)
    for turn in course.beside:
        lines += _lines("proposed: ", turn)
    lines += [indented(f"not ordered: {_outcome_text(course.outcomes[name])} at {name}", "", 3) for name in alone]
    return Group(head, *lines, Text(""))


def without_order(names: Sequence[str], compared: bool) -> list[str]:
    """Return a line that names the rule sets without a place in the history, or, if no rule sets were ``compared``, a
    line with the reason; [] without either."""
    if names:
        return [f"not ordered (without a date and a base): {', '.join(names)}\n"]
    return [] if compared else ["not compared: the engine has a single rule set\n"]


def _lines(mark: str, turn: OutcomeChange) -> Iterator[Padding]:
    colour = WORDS[word_of(turn.now.equal_cold if turn.now else None)].colour
    yield indented(f"{mark}{_outcome_text(turn.now)} {_since(turn.new)}", colour, 3)
    if turn.was != turn.now and mark:
        yield indented(f"({_outcome_text(turn.was)} at {turn.old})", "dim", 6)
    if (found := turn.differs) and found[0].observable not in SHOWN:
        yield indented(differing_text(found), "", 6)
    for cause in turn.causes:
        yield indented(f"by {_cause(cause, turn)}", "", 6)


def _since(profile: str) -> str:
    """Return a rule set with its build and date: ``by b8271 (2026-03-10), llama_cpp@b8271``."""
    build = build_of(profile)
    return f"by {build}, {profile}" if build else f"at {profile}"


def _cause(cause: ChangedFields, turn: OutcomeChange) -> str:
    return " together with ".join(
        f"{change.field} {change.old} -> {change.new}{_source(turn.new, change)}" for change in cause.changes
    )


def _source(profile: str, change: Change) -> str:
    """Return the pull request and the first build that contains it, in brackets."""
    parts = (change.source, build_with(profile, change).replace("(", "of ").replace(")", ""))
    text = ", ".join(filter(None, parts))
    return f" ({text})" if text else ""


def _outcome_text(outcome: RequestOutcome | None) -> str:
    if outcome is None:
        return "not run"
    if outcome.status == 0:
        return SERVER_DIED.name
    if outcome.status == NO_ANSWER:
        return NEVER_ANSWERED.name
    if outcome.status != 200:
        return error_name(outcome.equal_cold is None, outcome.status)
    if outcome.equal_cold is None:
        return UNDECIDED.name
    return f"reuses {outcome.cache_n}, {f'output {VerdictWord.CORRECT}' if outcome.equal_cold else WRONG_OUTPUT.name}"
