"""Which command line shows a case with its changes?"""

from __future__ import annotations

from typing import Iterator, Sequence

from cachesim.base.errors import BadInput
from cachesim.engines.rule_files import typed
from cachesim.judging.try_command import case_words, try_words
from cachesim.scenarios.from_notation import from_line
from cachesim.scenarios.notation.spell import spell
from cachesim.scenarios.notation.words import normal
from cachesim.scenarios.option_checks import spoken
from cachesim.tools.advise.changes import Setup
from cachesim.tools.advise.outcome import Trial


def command_words(one: Trial, base: Setup, asked: Sequence[str] = ()) -> list[str]:
    """What is typed behind ``cachesim try`` to see this: the line that the client sends then, or the case as it was
    named. Raises BadInput where no line can say it."""
    if any(change.client for change in one.changes):
        return _line_words(one.case)
    words = list(asked) or case_words(base.scenario, base.profile)
    if "-p" in words:
        del words[(at := words.index("-p")) : at + 2]
    return [words[0], "-p", typed(one.case.profile), *words[1:], *_set(one)]


def _set(one: Trial) -> Iterator[str]:
    for change in one.changes:
        for name, value in change.options.items():
            yield from ("--set", f"{name}={str(value).lower() if isinstance(value, bool) else value}")


def _line_words(case: Setup) -> list[str]:
    scenario = case.scenario
    given = spoken(scenario.server, scenario.engine)
    line = spell(normal(scenario.line))
    from_line(line, model=scenario.model, profiles=(case.profile,), server=given)
    return try_words(line, case.profile, scenario.model, given)


def sayable(one: Trial) -> bool:
    """Can a command line say what the client sends then?"""
    try:
        return not any(change.client for change in one.changes) or bool(_line_words(one.case))
    except BadInput:
        return False
