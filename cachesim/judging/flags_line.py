"""Which flags was the server started with? Those that matter most, and those that are not its own defaults, in its own
spelling."""

from __future__ import annotations

from typing import Any, Mapping

from rich.text import Text

from cachesim.engines.manual import Flag, Option
from cachesim.engines.registry import engine_of
from cachesim.judging.try_command import settings
from cachesim.scenarios.option_checks import in_force

SHORT = 4              # characters of a short spelling, such as -kvu
Data = dict[str, Any]


def flags_data(profile: str, given: Mapping[str, Option]) -> Data:
    """``default``: the flags that every report names and that are as in this version of the server; ``set``: all flags
    that are not. Raises BadInput for an unknown profile."""
    manual = engine_of(profile).manual
    own, now = in_force({}, profile), in_force(given, profile)
    return {
        "default": [flag_text(flag, now[flag.name], manual.open_words) for flag in manual.flags
                    if flag.name in manual.headline and now[flag.name] == own[flag.name]],
        "set": [flag_text(flag, now[flag.name], manual.open_words) for flag in manual.flags
                if now[flag.name] != own[flag.name]],
    }  # fmt: skip


def flags_line(data: Data) -> list[Text]:
    """``flags: -b 2048 -ub 512; set: -c 4096``, the parts that there are; [] where there is none."""
    parts = [f"{name}: {' '.join(data[key])}" for name, key in (("flags", "default"), ("set", "set")) if data[key]]
    return [Text("; ".join(parts), "dim")] if parts else []


def flag_text(flag: Flag, value: Option, open_words: Mapping[str, str]) -> str:
    """A flag as it is typed for the server, in its shortest spelling: ``-np 2``."""
    words = [one for one in flag.spellings if len(one) <= SHORT or one.startswith("--")]
    word = words[0] if words else ""
    if not word:
        return settings({flag.name: value})[0]
    if isinstance(value, bool):
        switched = flag.off[0] if flag.off and not value else word
        return switched if value or flag.off else f"{word} off"
    return f"{word} {open_words.get(flag.name, value) if value == flag.open else value}"
