"""Table of the command-line arguments of a real server: which program it is, and what each argument means here.

An engine brings one table for all its releases. A row states the spellings of an argument, its number of values, its
effect on the cache, and the releases that have it. ``tools.run.server_command`` reads a command line
with it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Callable, Iterator, Mapping, NamedTuple, Sequence

from cachesim.base.errors import BadInput, Crash, quoted
from cachesim.engines.capabilities import Flag, Option

OPTION = "option"              # simulated: a row of the engine's flags, or a reader of the table
NO_EFFECT = "no effect"        # changes nothing of what is reused
SIZE = "size"                  # changes the size of the pool, which the real server derives from its memory
LIMIT = "limit"                # not simulated: matters only for requests that reach it, or on special hardware
OPEN = "not simulated"         # may change what is reused
MODEL = "model"                # names the model
EFFECTS = (OPTION, NO_EFFECT, SIZE, LIMIT, OPEN, MODEL)
COUNTS = {"0", "1", "2", "?", "*", "+", "j"}
"""Numbers of values, as argparse writes them; ``j`` is one value, which is JSON."""


class Argument(NamedTuple):
    """An argument of a server. ``since``, ``until``: first and last compared release that has it, "" = every one."""

    spellings: tuple[str, ...]
    values: str
    effect: str
    since: str = ""
    until: str = ""
    harmless: tuple[str, ...] = ()     # values of an argument that is not simulated with which it has no effect
    variable: str = ""                 # environment variable with the same meaning


class AllowedSizes(NamedTuple):
    """Sizes that an argument's value allows for an ``option`` of the server: ``sizes``, or their ``multiples``. Of
    others the server makes ``otherwise``, or, if it does not start with them (``refuses``), of an unstated one alone.
    Without ``sizes`` every stated one is allowed. ``since``, ``until``: first and last compared release in which this
    is so, "" = every one."""

    option: str
    sizes: tuple[int, ...]
    otherwise: int
    multiples: bool = False
    refuses: bool = False
    since: str = ""
    until: str = ""

    def allow(self, size: int) -> bool:
        """True for an allowed size, if any size is stated."""
        return any(size % one == 0 for one in self.sizes) if self.multiples else size in self.sizes

    @property
    def words(self) -> str:
        """The allowed sizes."""
        if not self.sizes:
            return f"{self.otherwise} unless stated"
        listed = " or ".join(map(str, self.sizes))
        return f"multiples of {listed}" if self.multiples else listed


class ParsedArgument(NamedTuple):
    """Meaning of an argument's value: ``options`` of the server; ``ignored``: parts of the value without effect;
    ``refused``: parts that are not simulated; ``limits``: those that matter only for requests that reach them;
    ``needs``: options that the value leaves open -> why; ``allowed``: sizes that it allows."""

    options: Mapping[str, Option] = {}
    ignored: Sequence[str] = ()
    refused: Sequence[str] = ()
    limits: Sequence[str] = ()
    needs: Mapping[str, str] = {}
    allowed: Sequence[AllowedSizes] = ()


class LoggedSize(NamedTuple):
    """A number in the server's log that is the value of an ``option``. ``pattern``: regular expression, whose first
    group is the number, with or without commas."""

    pattern: str
    option: str


Reader = Callable[[Any], ParsedArgument]
"""Read the value of an argument: its text, or the parsed JSON of an argument with a JSON value. Raises BadInput."""


class ArgumentStyle(NamedTuple):
    """Spellings that a server's parser accepts: ``--name=value``, unique beginnings of a name, ``_`` for ``-``."""

    equals: bool = True
    beginnings: bool = True
    underscores: bool = False


ARGPARSE = ArgumentStyle()


@dataclass(frozen=True)
class CommandTable:
    """Command lines of a server. A word of ``starts`` is compared with the last part of a path."""

    starts: tuple[tuple[str, ...], ...]          # words that start it: ("vllm", "serve")
    arguments: tuple[Argument, ...]
    releases: tuple[str, ...] = ()               # rule sets with whose servers the rows were compared, oldest first
    style: ArgumentStyle = ARGPARSE
    positional: bool = False                     # the model is a word without a flag
    images: tuple[str, ...] = ()                 # parts of the names of images whose entry point is the server
    mark: str = ""                               # part of the path of a program whose name another engine has, too
    readers: Mapping[str, Reader] = field(default_factory=dict)          # first spelling -> reader of its value
    renamed: Mapping[str, str] = field(default_factory=dict)             # spelling -> its name in other releases
    sized: str = ""                              # option with the size of the pool
    options_file: str = ""                       # argument that names a file of options, "" = no argument does
    variables: tuple[str, ...] = ()              # beginnings of environment variables that the server reads
    logged: tuple[LoggedSize, ...] = ()          # lines of the server's log that state its sizes
    switches: Mapping[str, str] = field(default_factory=dict)            # environment variable -> option it switches on
    replicas: frozenset[str] = frozenset()       # arguments that start several engines, each with its own cache

    @cached_property
    def names(self) -> Mapping[str, tuple[Argument, ...]]:
        """Spelling -> the rows that have it, one for each period of releases."""
        found: dict[str, tuple[Argument, ...]] = {}
        for argument in self.arguments:
            for spelling in argument.spellings:
                found[spelling] = (*found.get(spelling, ()), argument)
        return found

    def of_release(self, release: str) -> Mapping[str, Argument]:
        """Return the spellings that a release has, with their rows. "" = any release."""
        return {name: row for name, rows in self.names.items() for row in rows if self.has(row, release)}

    def has(self, row: Argument | AllowedSizes, release: str) -> bool:
        """True if a release has an argument, or these sizes."""
        if release not in self.releases:
            return True
        place = self.releases.index(release)
        first = self.releases.index(row.since) if row.since else 0
        last = self.releases.index(row.until) if row.until else len(self.releases) - 1
        return first <= place <= last

    def where(self, spelling: str, values: str = "") -> str:
        """Return the compared releases that have a spelling, as words. ``values``: with this number of values."""
        rows = [row for row in self.names.get(spelling, ()) if values in ("", row.values)]
        found = [release for release in self.releases if any(self.has(row, release) for row in rows)]
        short = [release.partition("@")[2] for release in found]
        return short[0] if len(short) == 1 else f"{short[0]} to {short[-1]}" if short else ""


def release_names(engine: str, releases: str) -> tuple[str, ...]:
    """Return the rule sets of releases, which are separated by spaces and in order."""
    return tuple(f"{engine}@{release}" for release in releases.split())


def table_rows(engine: str, *, options: str = "", models: str = "", sizes: str = "", limits: str = "",
               not_simulated: str = "", no_effect: str = "") -> tuple[Argument, ...]:  # fmt: skip
    """Return the rows of a table. Each text has the rows of an effect, as ``_rows`` reads them."""
    texts = {OPTION: options, MODEL: models, SIZE: sizes, LIMIT: limits, OPEN: not_simulated, NO_EFFECT: no_effect}
    return tuple(row for effect, text in texts.items() for row in _rows(text, effect, engine))


def _rows(text: str, effect: str, engine: str) -> Iterator[Argument]:
    """Yield the rows of a text, one in a line: number of values, spellings, and optionally ``>=RELEASE`` and
    ``<=RELEASE``, ``=VALUE`` (a harmless value) and ``$VARIABLE``. Raise Crash for a broken row."""
    for line in filter(None, map(str.strip, text.splitlines())):
        count, *words = line.split()
        known = [word for word in words if word[0] in "-><=$"]
        if count not in COUNTS or effect not in EFFECTS or known != words:
            raise Crash(f"broken row of a command table: {line!r}")
        yield Argument(
            spellings=tuple(word for word in words if word[0] == "-"),
            values=count,
            effect=effect,
            since=next((f"{engine}@{word[2:]}" for word in words if word.startswith(">=")), ""),
            until=next((f"{engine}@{word[2:]}" for word in words if word.startswith("<=")), ""),
            harmless=tuple(word[1:].casefold() for word in words if word[0] == "="),
            variable=next((word[1:] for word in words if word[0] == "$"), ""),
        )


POSITION_KEYS = ("rope_parameters", "rope_scaling", "rope_theta", "max_position_embeddings", "text_config")
"""Keys of a model's configuration that change no layer's memory."""

_CONTEXT_LENGTH = re.compile(r"[\w.-]+\.context_length=int:([1-9]\d{0,8})")


def read_metadata(text: str) -> ParsedArgument:
    """Read keys of the model's file that ``--override-kv`` replaces: the context that it was trained on; others are not
    simulated."""
    parts = text.split(",")
    contexts = [found[1] for part in parts if (found := _CONTEXT_LENGTH.fullmatch(part))]
    options = {"n_ctx_train": int(contexts[-1])} if contexts else {}
    return ParsedArgument(options, limits=[part for part in parts if not _CONTEXT_LENGTH.fullmatch(part)])


_HUMAN = re.compile(r"([0-9]{1,10})(?:\.([0-9]{1,3}))?([kKmMgG]?)")


def read_human_integer(text: str) -> int:
    """Parse an integer such as 8192, 32k (thousands) or 32K (1,024s). Raise BadInput."""
    found = _HUMAN.fullmatch(text)
    if not found or (found[2] and not found[3]):
        raise BadInput(f"expected an integer such as 8192 or 32k, found {quoted(text)}")
    base = 1024 if found[3].isupper() else 1000
    scale = {"": 1, "k": base, "m": base * base, "g": base * base * base}[found[3].lower()]
    fraction = found[2] or ""
    return int(found[1]) * scale + int(fraction or 0) * scale // int("1" + "0" * len(fraction))


def json_object(value: Any) -> Mapping[str, Any]:
    """Return a JSON object. Raise BadInput."""
    if not isinstance(value, dict):
        raise BadInput(f"expected a JSON object, found {quoted(value)}")
    return value


def read_model_overrides(value: Any) -> ParsedArgument:
    """Read changes of the model's configuration: those of its positions change no memory. Raise BadInput."""
    changed = json_object(value)
    inner = changed.get("text_config")
    keys = [*changed, *(inner if isinstance(inner, dict) else ())]
    return ParsedArgument(ignored=[key for key in keys if key in POSITION_KEYS],
                          refused=[key for key in keys if key not in POSITION_KEYS])  # fmt: skip


def default_table(engine: str, flags: Sequence[Flag], silent: Mapping[str, int]) -> CommandTable:
    """Return the table of an engine that brings none: its simulated flags and those without effect. The program has the
    engine's name."""
    rows = [Argument(("-m", "--model"), "1", MODEL)]
    rows += [Argument((*flag.spellings, *flag.off), "0" if isinstance(flag.default, bool) else "1", OPTION)
             for flag in flags if flag.spellings]  # fmt: skip
    taken = {spelling for row in rows for spelling in row.spellings}
    rows += [Argument((word,), str(count), NO_EFFECT) for word, count in silent.items() if word not in taken]
    return CommandTable(starts=((engine,), (engine.replace("_", "-"),)), arguments=tuple(rows))


__all__ = [
    "LIMIT",
    "MODEL",
    "NO_EFFECT",
    "OPEN",
    "OPTION",
    "SIZE",
    "Argument",
    "ArgumentStyle",
    "CommandTable",
    "LoggedSize",
    "ParsedArgument",
    "Reader",
    "default_table",
    "json_object",
    "read_human_integer",
    "read_model_overrides",
    "release_names",
    "table_rows",
]  # fmt: skip
