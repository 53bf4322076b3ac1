"""What to type next: one line on stderr, which is no result."""

from __future__ import annotations

import shlex
from argparse import Namespace
from typing import TYPE_CHECKING, Any, Sequence

from cachesim.base.console import on_stderr

if TYPE_CHECKING:
    from cachesim.scenarios.schema import Scenario

Data = dict[str, Any]
Words = Sequence[str]
MOST = 200               # characters of a command that is worth a hint


def say_next(args: Namespace, commands: Sequence[Words]) -> None:
    """``next:`` and the commands, as they are typed; nothing with --json or -q, and nothing where there is none."""
    commands = [words for words in commands if sum(map(len, words)) <= MOST]
    if commands and not (args.json or getattr(args, "quiet", False)):
        lines = "   or: ".join(shlex.join(["cachesim", *words]) for words in commands)
        on_stderr(f"next: {lines}")


def typed(args: Namespace) -> list[str]:
    """What was typed for a case, if it is used as its file says."""
    return [] if args.model or args.settings else [args.case]


def after_run(runs: Sequence[tuple[Scenario, Data]], asked: Sequence[str]) -> list[Words]:
    """``why`` of the request that most deserves a look. ``asked`` is what the user typed for the scenarios."""
    found = _worst(runs)
    if found is None:
        return []
    scenario, data, number = found
    what, *rest = _case(scenario, data["profile"], asked)
    return [["why", what, str(number), *rest]]


def after_why(scenario: Scenario, found: Sequence[Data], asked: Sequence[str]) -> list[Words]:
    """The rule set under which lost tokens were reused, the version that changed it, the rule that decided."""
    for data in found:
        ranges = [one for one in data["computed"] if one["rule"]]
        if not ranges and not data["failure"]:
            continue
        what, *rest = _case(scenario, data["profile"], asked)
        if data["failure"]:
            rule, other = data["failure"]["rule"], ""
        else:
            most = max(ranges, key=lambda one: one["stop"] - one["start"])
            rule, other = most["rule"], next((name for name in reversed(most["survives"])), "")
        compare = ["diff", what, *rest, "-p", other] if other else ["bisect", what, *rest[2:]]
        return [compare, *([["explain", rule]] if rule else [])]
    return []


def after_diff(data: Data) -> list[Words]:
    """The rule whose decision differs first, under both."""
    first = data["first"]
    rules = dict.fromkeys([first["a"]["rule"], first["b"]["rule"]]) if first else {}
    return [["explain", rule] for rule in rules]


def after_fuzz(data: Data) -> list[Words]:
    """``why`` of the first failure, ``shrink`` where it is as long as it was drawn."""
    one = next((one for one in data["failures"] if "command" in one), None)
    if one is None:
        return []
    what, *rest = shlex.split(one["command"])[2:]
    return [["shrink", what, *rest]] if not one["shrunk"] else [["why", what, str(one["step"]), *rest]]


def _worst(runs: Sequence[tuple[Scenario, Data]]) -> tuple[Scenario, Data, int] | None:
    """The first wrong answer that no file expects, else the first wrong one, else the request with the most tokens that
    were evaluated again; None = there is none."""
    for scenario, run in sorted(runs, key=lambda one: one[1]["as_expected"] is not False):
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


def _case(scenario: Scenario, profile: str, asked: Sequence[str]) -> list[str]:
    """What names a case on a command line: the id or the file that was typed (``asked`` is empty where its model or its
    options are others than in the file), else its line and its server."""
    from cachesim.judging.reproduce_command import case_words

    line = case_words(scenario, profile)
    if scenario.file and asked:
        return [scenario.id if scenario.id in asked else scenario.file, *line[1:3]]
    return line
