"""The command that runs a case, as it is typed into a POSIX shell."""

from __future__ import annotations

import shlex
from contextlib import suppress
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
    return [line, "-p", typed(profile), "--model", model, *set_words(given)]


def set_words(given: Mapping[str, Option]) -> list[str]:
    """The options of a server as ``--set`` takes them."""
    return [word for setting in settings(given) for word in ("--set", setting)]


def settings(given: Mapping[str, Option]) -> list[str]:
    """``name=value`` of each option, as it is typed."""
    return [f"{name}={str(value).lower() if isinstance(value, bool) else value}" for name, value in given.items()]


def try_command(line: str, profile: str, model: str, given: Mapping[str, Option]) -> str:
    """``cachesim try`` of a line. ``given`` are the options that are not the defaults."""
    return shlex.join(["cachesim", "try", *try_words(line, profile, model, given)])


def line_words(scenario: Scenario, profile: str) -> list[str]:
    """``try_words`` of what a scenario asks. Raises BadInput where no line can say it."""
    given, line = spoken(scenario.server, scenario.engine), spell(normal(scenario.line))
    from_line(line, model=scenario.model, profiles=(profile,), server=given)
    return try_words(line, profile, scenario.model, given)


def case_words(scenario: Scenario, profile: str) -> list[str]:
    """``line_words`` of a scenario; its file (or id) where no line can say what it asks."""
    with suppress(BadInput):
        if not getattr(scenario.words, "spelled", None):
            return line_words(scenario, profile)
    return [scenario.file or scenario.id, "-p", typed(profile)]


def case_command(scenario: Scenario, profile: str) -> str:
    """The command that runs a scenario under a profile: one line of ``try`` where that can say it, else ``run``."""
    words = case_words(scenario, profile)
    return shlex.join(["cachesim", "run" if len(words) == 3 else "try", *words])
