"""POSIX shell command that runs a scenario again, and the flags of its server.

The flags line shows the most important flags and those that differ from the defaults, in the server's own spelling.
"""

from __future__ import annotations

from contextlib import suppress
from types import MappingProxyType
from typing import Any, Mapping, NamedTuple, Sequence

from rich.text import Text

from cachesim.base.errors import BadInput
from cachesim.base.escaping import shell_command
from cachesim.base.layout import SCREEN
from cachesim.engines.capabilities import AssumedSizes, Flag, Manual, Option
from cachesim.engines.registry import engine_named, engine_of, rules_of
from cachesim.engines.rule_files import profile_argument
from cachesim.scenarios.from_notation import from_line
from cachesim.scenarios.notation.canonical_text import spell
from cachesim.scenarios.notation.word_lengths import normal
from cachesim.scenarios.option_checks import in_force, spoken
from cachesim.scenarios.request_spec import with_word_names, words_named
from cachesim.scenarios.schema import Scenario
from cachesim.scenarios.server_settings import assumed_sizes

SHORT = 4              # characters of a short spelling, such as -kvu
NOTHING = AssumedSizes(MappingProxyType({}))
Data = dict[str, Any]


def flags_data(profile: str, given: Mapping[str, Option], assumed: AssumedSizes = NOTHING) -> Data:
    """Return the flags of a server. ``default``: the flags that every report names, as far as they have the default of
    this version; ``set``: all other flags; ``derived``: lines on what the server derives from them, or from a size that
    is not known; ``assumed``: sizes of the pool that are not given; ``assumed_cap``: the memory that limits these.
    Raise BadInput for an unknown profile."""
    engine = engine_of(profile)
    manual = engine.manual
    own, now = in_force({}, profile), in_force(given, profile)
    replaced = engine.replaced(rules_of(profile), given)
    words = dict(manual.open_words)
    if manual.context is not None and now[manual.context.trained]:
        words[manual.context.name] = str(now[manual.context.trained])
    return {
        "default": [flag_text(flag, now[flag.name], words) for flag in manual.flags
                    if flag.name in manual.headline and now[flag.name] == own[flag.name]
                    and not (flag.resolved and flag.name not in given) and flag.name not in replaced],
        "set": [flag_text(flag, now[flag.name], words) for flag in manual.flags
                if now[flag.name] != own[flag.name]],
        "derived": [*engine.derived(rules_of(profile), given), *assumed.notes],
        "assumed": _texts(assumed.options, manual),
        "assumed_cap": assumed.cap,
    }  # fmt: skip


def _texts(given: Mapping[str, Option], manual: Manual) -> list[str]:
    """Return options in the spelling of the server, in the order of its flags."""
    return [flag_text(flag, given[flag.name], {}) for flag in manual.flags if flag.name in given]


class AssumedFlags(NamedTuple):
    """Assumed sizes of a pool in the spelling of the server. ``cap``: the memory that limits them, "" = they hold all
    requests."""

    flags: Sequence[str]
    cap: str


def assumed_flags(scenario: Scenario) -> AssumedFlags:
    """Return the assumed sizes of the pool of a scenario's server. Raise BadInput."""
    found = assumed_sizes(scenario)
    return AssumedFlags(_texts(found.options, engine_named(scenario.engine).manual), found.cap)


def flags_line(data: Data) -> list[Text]:
    """Return ``flags: -b 2048 -ub 512; set: -c 4096`` as a list of a line, without empty parts, the line of what is
    assumed, and the derived lines; [] without flags."""
    parts = [f"{name}: {' '.join(data[key])}" for name, key in (("flags", "default"), ("set", "set")) if data[key]]
    assumed = [Text(assumption(data["assumed"], data["assumed_cap"]))] if data["assumed"] else []
    return [*([Text("; ".join(parts), "dim")] if parts else []), *assumed, *map(Text, data["derived"])]


def assumption(flags: Sequence[str], cap: str = "") -> str:
    """Return the line about the assumed sizes of a pool, each of which its flag sets. ``cap``: the memory that limits
    them."""
    if cap:
        return f"assumed: {' '.join(flags)}, all of {cap}; the real server's pool is smaller"
    return f"assumed: {' '.join(flags)}, a pool that holds all requests here; the real server's is not known"


def flag_text(flag: Flag, value: Option, open_words: Mapping[str, str]) -> str:
    """Return a flag in its shortest spelling for the server's command line: ``-np 2``."""
    words = [one for one in flag.spellings if len(one) <= SHORT or one.startswith("--")]
    word = words[0] if words else ""
    if not word:
        return settings({flag.name: value})[0]
    if isinstance(value, bool):
        switched = flag.off[0] if flag.off and not value else word
        return switched if value or flag.off else f"{word} off"
    return f"{word} {open_words.get(flag.name, value) if value == flag.open else value}"


def line_arguments(line: str, profile: str, model: str, given: Mapping[str, Option]) -> list[str]:
    """Return the arguments of ``cachesim run`` or ``why``: a line and the server that runs it."""
    return [line, "-p", profile_argument(profile), "--model", model, *set_words(given)]


def set_words(given: Mapping[str, Option]) -> list[str]:
    """Return the options of a server as ``--set`` arguments."""
    return [word for setting in settings(given) for word in ("--set", setting)]


def settings(given: Mapping[str, Option]) -> list[str]:
    """Return ``name=value`` for each option."""
    return [f"{name}={str(value).lower() if isinstance(value, bool) else value}" for name, value in given.items()]


def line_command(line: str, profile: str, model: str, given: Mapping[str, Option]) -> str:
    """Return the ``cachesim run`` command of a line. ``given``: options that differ from the defaults."""
    return shell_command(["cachesim", "run", *line_arguments(line, profile, model, given)])


def line_words(scenario: Scenario, profile: str) -> list[str]:
    """Return ``line_arguments`` of the requests of a scenario. Raise BadInput if the line notation cannot express
    it, or if an option has the tokens of a word that no request has."""
    given = with_word_names(spoken(scenario.server, scenario.engine), scenario.words)
    line = spell(normal(scenario.line))
    made = from_line(line, model=scenario.model, profiles=(profile,))
    if missing := [word for word in words_named(given, scenario.words) if word not in made.words]:
        raise BadInput(f"an option has the tokens of {missing[0]}, and no request has this word")
    return line_arguments(line, profile, scenario.model, given)


def case_words(scenario: Scenario, profile: str) -> list[str]:
    """Return ``line_words`` of a scenario; its file with the same server if the line is longer than a screen, and its
    file (or id) if the line notation cannot express it."""
    with suppress(BadInput):
        if not getattr(scenario.words, "spelled", None):
            line, *server = line_words(scenario, profile)
            return [scenario.file if scenario.file and len(line) > SCREEN else line, *server]
    return [scenario.file or scenario.id, "-p", profile_argument(profile)]


def case_command(scenario: Scenario, profile: str) -> str:
    """Return the command that runs a scenario under a profile, with a line if possible."""
    return shell_command(["cachesim", "run", *case_words(scenario, profile)])
