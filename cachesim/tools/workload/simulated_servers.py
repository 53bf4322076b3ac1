"""Which server plays a workload? A rule set, a model with the sizes of a real one, and options; all that counts tokens
is scaled as the workload is.

What counts tokens is the engine's to say: options (``Flag.tokens``), numbers of a rule set (``Manual.token_numbers``),
the width of a window. An option that is set, or that has a default above 0, is divided; nothing becomes 0 by that. A
token of the scaled model weighs as much as ``scale`` of the real one, so that limits in bytes stay as they are.
"""

from __future__ import annotations

import re
from typing import Mapping, NamedTuple

from cachesim.base.errors import BadInput
from cachesim.engines.capabilities import Flag, Option
from cachesim.engines.contract import Engine
from cachesim.engines.registry import engine_of, rules_of
from cachesim.engines.shared.model_sizes import ModelSizes
from cachesim.engines.shared.rule_set import RuleSet
from cachesim.scenarios.option_checks import in_force, model_named

LEAST_CONTEXT = 262_144       # tokens that the models of agents take without being stretched
_WINDOW = re.compile(r"W(\d+)")


class Scaled(NamedTuple):
    """An option that counts tokens: what it is on the real server, and in the scaled one."""

    real: int
    scaled: int


class Served(NamedTuple):
    """A server for one workload. ``model`` is the name that the engine takes, its declared sizes with it; ``flags`` its
    options, ``shown`` those and the numbers of its rules that count tokens."""

    engine: Engine
    profile: str
    rules: RuleSet
    model: str
    flags: Mapping[str, Option]
    shown: Mapping[str, Scaled]


def scaled(n: int, scale: int) -> int:
    """So many tokens in scaled ones, rounded, at least 1; 0 and numbers that leave something open stay."""
    return n if n <= 0 or scale == 1 else max(1, (n + scale // 2) // scale)


def served(profile: str, model: ModelSizes | str, given: Mapping[str, Option], room: int, scale: int = 1) -> Served:
    """A server of this rule set. ``model``: a real one, or layers with the sizes of the recorded tiny models;
    ``room``: tokens that the longest request needs, for a context that is not given. Raises BadInput."""
    engine, rules = engine_of(profile), rules_of(profile)
    options = {**context_for(engine, given, room), **given}
    layers = model if isinstance(model, str) else model.layers
    name = scaled_windows(model_named(layers, engine.name).model, scale)
    if not isinstance(model, str):
        name = model.declared(name, scale)
    if scale == 1:
        return Served(engine, profile, rules, name, options, {})
    known = in_force(options, profile)
    of_flags = {flag.name: int(known[flag.name]) for flag in engine.manual.flags if counts_tokens(flag, known)}
    shown = {one: Scaled(n, scaled(n, scale)) for one, n in of_flags.items()}
    flags = {**options, **{one: pair.scaled for one, pair in shown.items()}}
    of_rules = {one: int(getattr(rules, one)) for one in engine.manual.token_numbers}
    numbers = {one: Scaled(n, scaled(n, scale)) for one, n in of_rules.items()}
    fewer = rules.changed({one: pair.scaled for one, pair in numbers.items()}) if numbers else rules
    return Served(engine, profile, fewer, name, flags, shown | numbers)


def counts_tokens(flag: Flag, known: Mapping[str, Option]) -> bool:
    """Does the option count tokens, and has it a number?"""
    value = known[flag.name]
    return flag.tokens and isinstance(value, int) and value > 0


def context_for(engine: Engine, given: Mapping[str, Option], room: int) -> dict[str, Option]:
    """The option for a context in which every slot has room for so many tokens: a power of two, at least
    ``LEAST_CONTEXT``; nothing where it is given, or where the engine has none."""
    context = engine.manual.context
    if context is None or context.name in given:
        return {}
    each = LEAST_CONTEXT
    while each < room:
        each *= 2
    return {context.name: each * context.parts({**engine.manual.defaults, **given})}


def scaled_windows(layers: str, scale: int) -> str:
    """The layers with windows that are so many times as narrow. Raises BadInput where a width is no multiple."""
    def narrow(found: re.Match[str]) -> str:
        if int(found[1]) % scale:
            raise BadInput(f"a window of {found[1]} tokens is no multiple of the scale {scale}")
        return f"W{int(found[1]) // scale}"

    return layers if scale == 1 else _WINDOW.sub(narrow, layers)


def unlimited(engine: Engine, given: Mapping[str, Option], tokens: int) -> dict[str, Option]:
    """These options with the limits off what is kept; ``tokens``: all that the workload has."""
    manual = engine.manual
    room: dict[str, Option] = {}
    if manual.context is not None:
        room[manual.context.name] = 2 * tokens * manual.context.parts({**manual.defaults, **given})
    return {**given, **manual.unlimited, **room}
