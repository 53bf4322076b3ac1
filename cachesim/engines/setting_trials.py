"""Settings of a server that are worth a trial when tokens are evaluated again: for each flag, group or size the values
that an engine names (``Manual.tries``), and the default in place of a value that was given.

The list is the only one. ``why`` looks in it for the setting that decided, ``advise`` for one that helps. A value that
describes the model, the device or the simulation is not a choice, and has no other value. Nor has a size of the pool
that is assumed.
"""

from __future__ import annotations

from enum import StrEnum
from math import isqrt
from typing import AbstractSet, Any, Callable, Iterator, Mapping, NamedTuple, Sequence

from cachesim.engines.capabilities import Capacity, Flag, Manual, Option, ServerLoad
from cachesim.engines.shared.advice import tries_of

PROBES = 2               # parts of a range of sizes at whose ends smaller sufficient sizes are looked for


class SettingRole(StrEnum):
    """What a setting is."""

    SIZE = "size"            # amount of memory or of stored objects, of which a server may have too little
    GROUP = "group"          # division of the memory into groups
    SWITCH = "switch"
    NUMBER = "number"        # such as a distance of the places where reuse may end
    WORD = "word"


class ServerSettings(NamedTuple):
    """Settings of a server. ``now``: all options in force; ``own``: the defaults of its version; ``assumed``: names of
    the sizes that are assumed."""

    now: Mapping[str, Any]
    own: Mapping[str, Option]
    assumed: AbstractSet[str] = frozenset()


class SettingTrial(NamedTuple):
    """Values to try in place of the current ones, the main option first. ``role``: that of the main option;
    ``is_reset``: it was given, and gets its default; ``rules``: families of rules that it governs or affects;
    ``capacity``: describes the main option if a larger value is tried."""

    options: Mapping[str, Option]
    role: SettingRole
    rules: tuple[str, ...] = ()
    is_reset: bool = False
    capacity: Capacity | None = None

    @property
    def name(self) -> str:
        """Return the name of the main option."""
        return next(iter(self.options))


def setting_trials(manual: Manual, settings: ServerSettings, load: ServerLoad) -> Iterator[SettingTrial]:
    """Yield the trials of a server under a load, each once: defaults in place of given values, then those that the
    engine names, cheapest first."""
    seen: set[tuple[tuple[str, Option], ...]] = set()
    tries = manual.tries or tries_of(manual.flags)
    given = [flag for flag in manual.flags if _is_given(flag, settings)]
    resets = [{flag.name: _other_value(flag, manual, settings, load)} for flag in given]
    for number, one in enumerate([*resets, *tries(settings.now, load)]):
        differing = {name: value for name, value in one.items() if settings.now[name] != value}
        spelled = tuple(sorted(differing.items()))
        if not differing or spelled in seen or not settings.assumed.isdisjoint(differing):
            continue
        seen.add(spelled)
        yield _trial(manual, settings.now, differing, is_reset=number < len(resets))


def _is_given(flag: Flag, settings: ServerSettings) -> bool:
    """True for a choice that differs from its default."""
    return not flag.fact and settings.now[flag.name] != settings.own[flag.name]


def _other_value(flag: Flag, manual: Manual, settings: ServerSettings, load: ServerLoad) -> Option:
    """Return the value to try in place of one that was given: an ample size if that is larger, else the default. A
    default that the server derives from the memory of its device is not known."""
    capacity = _capacity(manual, flag.name)
    if capacity is None:
        return settings.own[flag.name]
    ample = capacity.ample(settings.now, load)
    if is_larger(ample, settings.now[flag.name]):
        return ample
    return settings.now[flag.name] if flag.resolved else settings.own[flag.name]


def _capacity(manual: Manual, name: str) -> Capacity | None:
    return {one.name: one for one in manual.capacities}.get(name)


def _trial(manual: Manual, now: Mapping[str, Any], options: Mapping[str, Option], *, is_reset: bool) -> SettingTrial:
    name = next(iter(options))
    flag = manual.flag(name)
    rules = () if flag is None else (*flag.governs.split(), *flag.affects.split())
    capacity = _capacity(manual, name)
    grown = capacity if capacity is not None and is_larger(options[name], now[name]) else None
    return SettingTrial(options, _role(manual, name, options[name]), rules, is_reset, grown)


def is_larger(value: Any, now: Any) -> bool:
    """True if a size is larger than the current one. A size that the server chooses, or without a limit, is no
    number of this order."""
    return bool(0 <= now < value)


def _role(manual: Manual, name: str, value: Option) -> SettingRole:
    if _capacity(manual, name) is not None:
        return SettingRole.SIZE
    if name in manual.group_options:
        return SettingRole.GROUP
    if isinstance(value, bool):
        return SettingRole.SWITCH
    return SettingRole.WORD if isinstance(value, str) else SettingRole.NUMBER


class SufficientSize(NamedTuple):
    """A size that suffices, and the next smaller one, which does not. Both were tried."""

    value: int
    below: int


def sufficient_size(low: int, high: int, step: int, is_enough: Callable[[int], bool]) -> SufficientSize:
    """Return a sufficient size after which the next smaller one fails, the smallest that was found. ``low`` does not
    suffice, ``high`` does; sizes in between are multiples of ``step``. The smallest one is proved only if larger sizes
    never do worse; for the others, sizes in the range below are tried, too."""
    known = {low: False, high: True}

    def enough(size: int) -> bool:
        if size not in known:
            known[size] = is_enough(size)
        return known[size]

    found = _bisected(low, high, step, enough)
    while (smaller := next(filter(enough, _probes(low, found.below, step)), None)) is not None:
        found = _bisected(low, smaller, step, enough)
    return found


def _bisected(low: int, high: int, step: int, enough: Callable[[int], bool]) -> SufficientSize:
    """Bisect, by the ratio of the sizes as long as they differ in their order."""
    while (middle := _middle(low, high, step)) is not None:
        if enough(middle):
            high = middle
        else:
            low = middle
    return SufficientSize(high, low)


def _middle(low: int, high: int, step: int) -> int | None:
    """Return a multiple of ``step`` between two sizes, None if there is none."""
    first, last = low // step + 1, -(-high // step) - 1
    if first > last:
        return None
    wanted = isqrt(max(1, low) * high) if high > 4 * max(1, low) else (low + high) // 2
    return step * min(max(wanted // step, first), last)


def _probes(low: int, high: int, step: int) -> Sequence[int]:
    """Return sizes between two that do not suffice, evenly spread."""
    sizes = [low + (high - low) * part // PROBES // step * step for part in range(1, PROBES)]
    return [size for size in dict.fromkeys(sizes) if low < size < high]
