"""The command that runs a case, as it is typed into a POSIX shell."""

from __future__ import annotations

import shlex
from typing import Mapping

from cachesim.base.errors import BadInput
from cachesim.engines.manual import Option
from cachesim.engines.rule_files import typed
from cachesim.scenarios.from_notation import from_line
from cachesim.scenarios.notation.spell import spell
from cachesim.scenarios.notation.words import normal
from cachesim.scenarios.option_checks import spoken
from cachesim.scenarios.schema import Scenario


def try_words(line: str, profile: str, model: str, given: Mapping[str, Option]) -> list[str]:
    """The words behind ``cachesim try`` or ``why``: a line, and what its server is."""
    words = [line, "-p", typed(profile), "--model", model]
    for name, value in given.items():
        words += ["--set", f"{name}={str(value).lower() if isinstance(value, bool) else value}"]
    return words


def try_command(line: str, profile: str, model: str, given: Mapping[str, Option]) -> str:
    """``cachesim try`` of a line. ``given`` are the options that are not the defaults."""
    return shlex.join(["cachesim", "try", *try_words(line, profile, model, given)])


def case_words(scenario: Scenario, profile: str) -> list[str]:
    """The same for a scenario; its file (or id) where no line can say what it asks."""
    given = spoken(scenario.server, scenario.engine)
    try:
        line = spell(normal(scenario.line))
        if not getattr(scenario.words, "spelled", None):
            from_line(line, model=scenario.model, profiles=(profile,), server=given)
            return try_words(line, profile, scenario.model, given)
    except BadInput:
        pass
    return [scenario.file or scenario.id, "-p", typed(profile)]


def case_command(scenario: Scenario, profile: str) -> str:
    """The command that runs a scenario under a profile: one line of ``try`` where that can say it, else ``run``."""
    words = case_words(scenario, profile)
    return shlex.join(["cachesim", "run" if len(words) == 3 else "try", *words])
