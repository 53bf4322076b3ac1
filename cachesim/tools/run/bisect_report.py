"""Report of ``bisect``: changes in the outcome of each request from version to version, as data and as text."""

from __future__ import annotations

from typing import Any, Collection, Iterator, NamedTuple, Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from cachesim.base.errors import counted
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
from cachesim.scenarios.server_settings import assumed_sizes
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
    return flags_data(newest, scenario.server, assumed_sizes(scenario))


class NoticedChanges(NamedTuple):
    """What ``bisect`` found about a request: the last change between two builds that a user notices, and the proposals
    that change it. ``weight``: its place in the report, the heaviest first."""

    number: int
    turn: OutcomeChange | None
    proposed: Sequence[OutcomeChange]
    weight: tuple[bool, int]


def answers(courses: Sequence[RequestHistory], asked: Collection[str] = ()) -> list[NoticedChanges]:
    """Return the answers about the requests whose reuse or correctness changed, the most important first: first those
    whose correctness changed, then by the number of tokens. Of the proposals, those that are better than their base,
    and those of ``asked``."""
    found = []
    for number, course in enumerate(courses):
        turns = [turn for turn in course.turns if is_noticed(turn)]
        proposed = {_shown(turn): turn for turn in course.beside
                    if is_noticed(turn) and (turn.new in asked or _is_better(turn))}  # fmt: skip
        if turns or proposed:
            all_of_them = [*turns[-1:], *proposed.values()]
            found.append(NoticedChanges(number, turns[-1] if turns else None, list(proposed.values()),
                                        max(map(_weight, all_of_them))))  # fmt: skip
    return sorted(found, key=lambda answer: answer.weight, reverse=True)


def is_noticed(turn: OutcomeChange) -> bool:
    """True if both versions ran, and a user notices the change: reused tokens, correctness, or an error."""
    return turn.was is not None and turn.now is not None and turn.was[:3] != turn.now[:3]


def _is_better(turn: OutcomeChange) -> bool:
    """True if a noticed change repairs an answer, or reuses more tokens for a correct one."""
    assert turn.was is not None and turn.now is not None
    was_wrong = turn.was.equal_cold is not True
    return turn.now.equal_cold is True and (was_wrong or turn.now.cache_n > turn.was.cache_n)


def _shown(turn: OutcomeChange) -> tuple[object, ...]:
    """Return what the report shows of a proposal; proposals with equal values are shown once."""
    return (turn.now and turn.now[:3], tuple(tuple(cause.changes) for cause in turn.causes))


def _weight(turn: OutcomeChange) -> tuple[bool, int]:
    """Return how important a noticed change is."""
    assert turn.was is not None and turn.now is not None
    return (turn.was[1:3] != turn.now[1:3], abs(turn.now.cache_n - turn.was.cache_n))


def answer_report(
    scenario: Scenario, courses: Sequence[RequestHistory], asked: Collection[str] = ()
) -> RenderableType:
    """Return the answer first: the requests whose reuse or correctness changed, the most important first. The history
    of every request is in ``bisect_report``. ``asked``: proposals that the user named."""
    found = answers(courses, asked)
    lines: list[RenderableType] = [Text.assemble((scenario.id, "bold"), "  ", (scenario.model, "cyan"))]
    for answer in found:
        course = courses[answer.number]
        lines += [*_answer_lines(answer, scenario.steps[answer.number].prompt, course), *_unordered_lines(course)]
    apart = {number: parts for number, course in enumerate(courses) if (parts := _unordered_lines(course))}
    for number in sorted(set(apart) - {answer.number for answer in found}):
        head = f"request {number}  {scenario.steps[number].prompt}"
        lines += [Text(f"{head}: {_ordered_text(courses[number])}", "bold"), *apart[number]]
    told = {answer.number for answer in found} | set(apart)
    left = [number for number in range(len(courses)) if number not in told]
    if left:
        noun = f"request{'s' if len(left) > 1 else ''} {', '.join(map(str, left))}"
        first = _outcome_text(_newest(courses[left[0]])) if len(left) == 1 else "the same reuse and correctness"
        lines.append(Text(f"{noun}: {first} under every build that runs {'them' if len(left) > 1 else 'it'}"))
    more = sum(len(course.turns) + len(course.beside) for course in courses)
    more -= sum(1 + len(answer.proposed) if answer.turn else len(answer.proposed) for answer in found)
    if more:
        lines.append(Text(f"{counted(more, 'further change')} of what a client observes, and the history: -v", "dim"))
    return Group(*lines, *flags_line(_flags(scenario)))


def _answer_lines(answer: NoticedChanges, prompt: str, course: RequestHistory) -> Iterator[RenderableType]:
    """Yield the lines about a request."""
    head, turn = f"request {answer.number}  {prompt}: ", answer.turn
    if turn is None:
        yield Text(f"{head}{_ordered_text(course)}", "bold")
    else:
        yield Text(f"{head}{_outcome_text(turn.now)} {_since(turn.new)}", "bold")
        yield indented(f"before: {_outcome_text(turn.was)} at {turn.old}", "", 3)
        yield from (indented(f"by {_cause(cause, turn)}", "", 3) for cause in turn.causes)
    for one in answer.proposed:
        yield indented(f"proposed: {_outcome_text(one.now)} {_since(one.new)}", _colour(one.now), 3)
        yield from (indented(f"by {_cause(cause, one)}", "", 6) for cause in one.causes)


def _unordered(course: RequestHistory) -> list[str]:
    """Return the rule sets without a place in the order that ran a request."""
    engine = ENGINES.get(next(iter(course.outcomes)).partition("@")[0])
    return [name for name in without_place(engine) if name in course.outcomes] if engine else []


def _unordered_lines(course: RequestHistory) -> list[RenderableType]:
    """Return a line for each rule set without a place in the order whose outcome a user would notice beside that of the
    newest version in it; for all of them if no version has a place."""
    names = _unordered(course)
    newest = None if len(names) == len(course.outcomes) else _newest(course)
    outcomes = {name: course.outcomes[name] for name in names}
    return [indented(f"not ordered: {_outcome_text(outcome)} at {name}", "", 3) for name, outcome in outcomes.items()
            if newest is None or outcome is None or outcome[:3] != newest[:3]]  # fmt: skip


def _ordered_text(course: RequestHistory) -> str:
    """Return the outcome of a request without a noticed change under the versions in the order."""
    if len(_unordered(course)) == len(course.outcomes):
        return "no rule set has a place in the order"
    return f"{_outcome_text(_newest(course))} under every build that runs it"


def _newest(course: RequestHistory) -> RequestOutcome | None:
    """Return the outcome under the newest version in the order that ran the request."""
    turns = [turn for turn in course.turns if turn.now is not None]
    alone = _unordered(course)
    ordered = [outcome for name, outcome in course.outcomes.items() if name not in alone]
    return turns[-1].now if turns else next(iter(ordered), None)


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
    alone = _unordered(course)
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
    yield indented(f"{mark}{_outcome_text(turn.now)} {_since(turn.new)}", _colour(turn.now), 3)
    if turn.was != turn.now and mark:
        yield indented(f"({_outcome_text(turn.was)} at {turn.old})", "dim", 6)
    if (found := turn.differs) and found[0].observable not in SHOWN:
        yield indented(differing_text(found), "", 6)
    for cause in turn.causes:
        yield indented(f"by {_cause(cause, turn)}", "", 6)


def _colour(outcome: RequestOutcome | None) -> str:
    """Return the style of an outcome; None = not run."""
    return WORDS[word_of(None if outcome is None else outcome.equal_cold)].colour


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
