"""One conversation under rule sets of several engines: a case for each engine, with the options that it has."""

from __future__ import annotations

from dataclasses import replace
from typing import AbstractSet, Iterable, Sequence

from cachesim.base.console import note
from cachesim.base.errors import BadInput
from cachesim.engines.registry import engine_named
from cachesim.scenarios.option_checks import check_profile, model_named
from cachesim.scenarios.request_spec import make_steps
from cachesim.scenarios.schema import Scenario


def profiles_by_engine(profiles: Iterable[str]) -> dict[str, list[str]]:
    """Return the rule sets of each engine, in the order of their first mention."""
    found: dict[str, list[str]] = {}
    for name in profiles:
        named = found.setdefault(name.partition("@")[0], [])
        if name not in named:
            named.append(name)
    return found


def settings_of(engine: str, settings: Sequence[str], engines: Sequence[str]) -> list[str]:
    """Return the ``key=value`` options that an engine has, and those that none of the ``engines`` has: reading these
    raises the error."""
    def has(name: str, setting: str) -> bool:
        return engine_named(name).manual.named(setting.partition("=")[0]) is not None

    return [setting for setting in settings
            if has(engine, setting) or not any(has(name, setting) for name in engines)]  # fmt: skip


def under_engines(scenario: Scenario, profiles: Sequence[str], known: AbstractSet[str]) -> list[Scenario]:
    """Return a scenario of a file once for each engine of ``profiles``; itself for its own engine, and without
    ``profiles``. Another engine gets the same requests with its own default options. Raise BadInput for a request that
    the notation cannot write, and for an unknown rule set."""
    found: list[Scenario] = []
    for engine, names in profiles_by_engine(profiles).items():
        for name in names:
            check_profile(name, engine, known)
        found.append(scenario if engine == scenario.engine else _translated(scenario, engine, names))
    return found or [scenario]


def _translated(scenario: Scenario, engine: str, profiles: Sequence[str]) -> Scenario:
    """Return the requests of a scenario as one of another engine, without the expectations and options of its own."""
    sent = [step.asked for step in scenario.steps]
    try:
        model = model_named(scenario.model, engine).model
        steps = make_steps(sent, scenario.words, scenario.server)
    except BadInput as bad:
        raise BadInput(f"{engine} cannot run it: {bad.cause}", file=scenario.file, hint=bad.hint) from None
    if scenario.server:
        note(f"{scenario.id}: its options are those of {scenario.engine}; {engine} runs with its own defaults")
    return replace(scenario, engine=engine, model=model, profiles=tuple(profiles), server={}, steps=steps, rules=(),
                   expect={}, lives=(), reports=())  # fmt: skip
