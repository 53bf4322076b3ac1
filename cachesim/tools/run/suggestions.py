"""Suggested next commands, printed in a line on stderr."""

from __future__ import annotations

from shlex import split
from typing import TYPE_CHECKING, Any, Mapping, Sequence

from cachesim.base.console import on_stderr
from cachesim.base.escaping import shell_command

if TYPE_CHECKING:
    from cachesim.scenarios.schema import Scenario
    from cachesim.tools.run.arguments import CaseOptions

Data = dict[str, Any]
Words = Sequence[str]
MOST = 200               # maximum characters of a suggested command


def say_next(commands: Sequence[Words], *, is_quiet: bool) -> None:
    """Print ``next:`` and the commands, quoted for a shell. ``is_quiet``: print nothing, as with --json or -q."""
    commands = [words for words in commands if sum(map(len, words)) <= MOST]
    if commands and not is_quiet:
        lines = "   or: ".join(shell_command(["cachesim", *words]) for words in commands)
        on_stderr(f"next: {lines}")


def unchanged(cases: Sequence[str], options: CaseOptions) -> Sequence[str]:
    """Return the scenario arguments as typed; an empty list if the options change their model or settings."""
    return [] if options.model or options.settings else cases


def after_run(runs: Sequence[tuple[Scenario, Data]], arguments: Sequence[str]) -> list[Words]:
    """Return the command ``why`` for the worst request. ``arguments``: scenario arguments as typed by the user."""
    found = _worst(runs)
    if found is None:
        return []
    scenario, data, number = found
    what, *rest = _case(scenario, data["profile"], arguments)
    return [["why", what, str(number), *rest]]


def after_why(scenarios: Mapping[str, Scenario], found: Sequence[Data], arguments: Sequence[str]) -> list[Words]:
    """Return the command ``diff`` with a rule set that reuses the re-evaluated tokens, else ``bisect``; and ``explain``
    for the rule that decided. ``scenarios``: by engine."""
    for data in found:
        scenario = scenarios[data["profile"].partition("@")[0]]
        ranges = [entry for entry in data["computed"] if entry["rule"]]
        if not ranges and not data["failure"]:
            continue
        what, *rest = _case(scenario, data["profile"], arguments)
        if data["failure"]:
            rule, better = data["failure"]["rule"], ""
        else:
            longest = max(ranges, key=lambda entry: entry["stop"] - entry["start"])
            rule, better = longest["rule"], _partner(scenario, data["profile"], longest["survives"])
        cures = (data["decided"] or {"cures": ()})["cures"]
        rule = next((one["rule"] for one in cures[:1] if one["rule"] != one["field"]), rule)
        compare = [["diff", what, *rest, "-p", better]] if better else _bisect(scenario, what, rest, arguments)
        return [*compare, *([["explain", rule]] if rule else [])]
    return []


def _bisect(scenario: Scenario, what: str, rest: Words, arguments: Sequence[str]) -> list[Words]:
    """Return the command ``bisect``, [] for an engine with a single rule set. A line belongs to the default engine
    unless a rule set names another one; a file names its engine."""
    from cachesim.engines.registry import DEFAULT, engine_named

    if len(engine_named(scenario.engine).profiles) < 2:
        return []
    names_engine = scenario.engine == DEFAULT.name or bool(scenario.file and arguments)
    return [["bisect", what, *(rest[2:] if names_engine else rest)]]


def _partner(scenario: Scenario, profile: str, survives: Sequence[str]) -> str:
    """Return the rule set to compare with: of those that reuse the tokens the next one of the main branch, else an
    older one, else a proposal for this rule set, else the last; "" without one."""
    from cachesim.engines.registry import engine_named

    engine = engine_named(scenario.engine)
    line = list(engine.line)
    at = line.index(profile) if profile in line else 0
    released = [name for name in [*line[at:], *reversed(line[:at])] if name in survives]
    own = [name for name in survives if engine.beside.get(name) == profile]
    return next(iter([*released, *own, *reversed(survives)]), "")


def after_diff(data: Data) -> list[Words]:
    """Return the command ``explain`` for the rules of the first decision that differs."""
    first = data["first"]
    rules = dict.fromkeys([first["a"]["rule"], first["b"]["rule"]]) if first else {}
    return [["explain", rule] for rule in rules]


def after_fuzz(data: Data) -> list[Words]:
    """Return the command ``why`` for the first failure, or ``shrink`` if it has not been shrunk."""
    failure = next((failure for failure in data["failures"] if "command" in failure), None)
    if failure is None:
        return []
    what, *rest = split(failure["command"])[2:]
    return [["shrink", what, *rest]] if not failure["shrunk"] else [["why", what, str(failure["step"]), *rest]]


def _worst(runs: Sequence[tuple[Scenario, Data]]) -> tuple[Scenario, Data, int] | None:
    """Return the first wrong answer that its file does not expect, else the first wrong answer, else the request with
    the most re-evaluated tokens; None if all is well."""
    for scenario, run in sorted(runs, key=lambda pair: pair[1]["as_expected"] is not False):
        if run["broken"]:
            return scenario, run, run["broken"][0]
    most, found = 0, None
    for scenario, run in runs:
        lost: dict[int, int] = {}
        for charge in run["lost"]:
            lost[charge["request"]] = lost.get(charge["request"], 0) + charge["tokens"]
        number = max(lost, key=lambda i: lost[i], default=None)
        if number is not None and lost[number] > most:
            most, found = lost[number], (scenario, run, number)
    return found


def _case(scenario: Scenario, profile: str, arguments: Sequence[str]) -> list[str]:
    """Return the arguments that name a scenario: the id or file as typed, else its line in notation with its options.
    ``arguments`` is empty if the model or the options differ from the file."""
    from cachesim.judging.reproduce_command import case_words

    line = case_words(scenario, profile)
    if scenario.file and arguments:
        return [scenario.id if scenario.id in arguments else scenario.file, *line[1:3]]
    return line
