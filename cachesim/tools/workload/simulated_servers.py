"""Servers for workloads: a rule set, a model with the sizes of a real model, and options. All numbers that count tokens
are scaled like the workload.

The engine declares which numbers count tokens: options (``Flag.tokens``), numbers of a rule set
(``Manual.token_numbers``), the width of a window. Options that are set or have a default above 0 are divided; the
result is at least 1. A token of the scaled model has the size of ``scale`` tokens of the real model, so that limits in
bytes stay unchanged.
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

LEAST_CONTEXT = 262_144       # tokens: native context length of typical agent models
_WINDOW = re.compile(r"W(\d+)")


class ScaledOption(NamedTuple):
    """An option that counts tokens: its value on the real server and on the scaled server."""

    real: int
    scaled: int


class SimulatedServer(NamedTuple):
    """A server for a workload. ``model``: name for the engine, with its declared sizes. ``flags``: its options.
    ``shown``: options and numbers of its rules that count tokens."""

    engine: Engine
    profile: str
    rules: RuleSet
    model: str
    flags: Mapping[str, Option]
    shown: Mapping[str, ScaledOption]


def scaled(n: int, scale: int) -> int:
    """Scale a number of tokens, rounded, at least 1. Return 0 and negative numbers (special values) unchanged."""
    return n if n <= 0 or scale == 1 else max(1, (n + scale // 2) // scale)


def served(
    profile: str, model: ModelSizes | str, given: Mapping[str, Option], room: int, scale: int = 1
) -> SimulatedServer:
    """Return a server with this rule set. ``model``: a real model, or layers with the sizes of the tiny models.
    ``room``: tokens of the longest request, for a context that was not given. Raise BadInput for invalid options."""
    engine, rules = engine_of(profile), rules_of(profile)
    options = {**context_for(engine, given, room), **given}
    layers = model if isinstance(model, str) else model.layers
    name = scaled_windows(model_named(layers, engine.name).model, scale)
    if not isinstance(model, str):
        name = model.declared(name, scale)
    if scale == 1:
        return SimulatedServer(engine, profile, rules, name, options, {})
    known = in_force(options, profile)
    unset = filled_options(engine) - options.keys()
    of_flags = {flag.name: int(known[flag.name]) for flag in engine.manual.flags
                if counts_tokens(flag, known) and flag.name not in unset}  # fmt: skip
    shown = {one: ScaledOption(n, scaled(n, scale)) for one, n in of_flags.items()}
    flags = {**options, **{one: pair.scaled for one, pair in shown.items()}}
    of_rules = {one: int(getattr(rules, one)) for one in engine.manual.token_numbers}
    numbers = {one: ScaledOption(n, scaled(n, scale)) for one, n in of_rules.items()}
    fewer = rules.changed({one: pair.scaled for one, pair in numbers.items()}) if numbers else rules
    return SimulatedServer(engine, profile, fewer, name, flags, shown | numbers)


def filled_options(engine: Engine) -> set[str]:
    """Return the options that the server derives from the memory of its device if they are not given. A pool that holds
    all requests is assumed then."""
    capacity = engine.capacity()
    return {size.option for size in capacity.sizes if size.filled} if capacity else set()


def counts_tokens(flag: Flag, known: Mapping[str, Option]) -> bool:
    """True if the option counts tokens and has a positive number."""
    value = known[flag.name]
    return flag.tokens and isinstance(value, int) and value > 0


def context_for(engine: Engine, given: Mapping[str, Option], room: int) -> dict[str, Option]:
    """Return the option for a context in which every slot has ``room`` tokens: a power of two, at least
    ``LEAST_CONTEXT``. Return {} if the context was given or the engine has no such option."""
    context = engine.manual.context
    if context is None or context.name in given:
        return {}
    each = LEAST_CONTEXT
    while each < room:
        each *= 2
    return {context.name: each * context.parts({**engine.manual.defaults, **given})}


def scaled_windows(layers: str, scale: int) -> str:
    """Return the layers with windows divided by the scale. Raise BadInput if a width is not a multiple of it."""
    def narrow(found: re.Match[str]) -> str:
        if int(found[1]) % scale:
            raise BadInput(f"a window of {found[1]} tokens is not a multiple of the scale {scale}")
        return f"W{int(found[1]) // scale}"

    return _WINDOW.sub(narrow, layers)


def unlimited(engine: Engine, given: Mapping[str, Option], tokens: int) -> dict[str, Option]:
    """Return these options without limits on stored state. ``tokens``: all tokens of the workload."""
    manual = engine.manual
    room: dict[str, Option] = {}
    if manual.context is not None:
        room[manual.context.name] = 2 * tokens * manual.context.parts({**manual.defaults, **given})
    kept = {name: value for name, value in given.items() if name not in filled_options(engine)}
    return {**kept, **manual.unlimited, **room}
