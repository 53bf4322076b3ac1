"""Reading of a pasted command line that starts a real server, with the table of its engine.

``find_program`` finds the words that start the server. ``read_command`` reads its arguments. An argument is simulated,
without effect, or refused: none is left out silently.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import AbstractSet, Any, Mapping, NamedTuple, Sequence

from cachesim.base.errors import BadInput, first_of, nearest, quoted
from cachesim.base.limits import NESTING
from cachesim.base.shell_words import ShellWord
from cachesim.base.untrusted_files import parse_json
from cachesim.engines.capabilities import Flag, Option
from cachesim.engines.shared import command_table as effects
from cachesim.engines.shared.command_line import READERS
from cachesim.engines.shared.command_table import AllowedSizes, Argument, CommandTable, ParsedArgument

_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
_NUMBER = re.compile(r"-[0-9]+(\.[0-9]*)?|-\.[0-9]+")
_PLACEHOLDER = re.compile(r"<[^<>]+>")
_SHELL = re.compile(r"(?:.*/)?(?:ba|da|z|k)?sh")
_LEVEL = re.compile(r"-O\.?(?:level=)?[0-9]")
OPTIMISATION = "--optimization-level"
"""Argument that a level of optimisation (`-O3`) stands for."""
_COMMON = re.compile(r"\$|export|env|sudo|nohup|exec|time|-u|python[0-9.]*")       # words before many programs
_VERSION = re.compile(r"(?<=[a-z])@(v?\d[\w.]*|latest)$")
_EXTENSION = re.compile(r"\.exe$", re.IGNORECASE)
_CONTAINERS = ("docker", "podman", "nerdctl")
_CONTAINER_SWITCHES = frozenset({
    "-d", "-i", "-t", "-P", "-q", "--detach", "--init", "--interactive", "--no-healthcheck", "--oom-kill-disable",
    "--privileged", "--publish-all", "--quiet", "--read-only", "--rm", "--tty",
})  # fmt: skip
"""Options of `docker run` without a value; letters may be joined."""


_MANY = 1 << 20
_NUMBERS = {"0": (0, 0), "1": (1, 1), "j": (1, 1), "2": (2, 2), "?": (0, 1), "*": (0, _MANY), "+": (1, _MANY)}
"""Number of values in a table -> the least and the most."""


class UnknownFlag(BadInput):
    """An argument ``name`` that no compared release has."""

    def __init__(self, name: str, cause: str, *, hint: str) -> None:
        self.name = name
        super().__init__(cause, hint=hint)


class NotInRelease(BadInput):
    """An argument that another release has."""


class Program(NamedTuple):
    """Start of a server in a command line. ``at``: index of the first word after the program; ``is_marked``: the path
    or image names the engine; ``variables``: environment variables set for it; ``before``: words before the program,
    which are not read."""

    at: int
    is_marked: bool = False
    variables: Mapping[str, ShellWord] = {}
    before: tuple[str, ...] = ()


@dataclass
class ServerCommand:
    """Meaning of a command line."""

    options: dict[str, Option] = field(default_factory=dict)   # options of the server by name
    model: str = ""                                            # the model as written
    open_model: int = 0                                        # place of a shell variable that names it, 0 = none does
    ignored: list[str] = field(default_factory=list)           # arguments without effect
    sized: list[str] = field(default_factory=list)             # arguments that only set the size of the pool
    limits: list[str] = field(default_factory=list)            # arguments with values that are not simulated
    unread: list[str] = field(default_factory=list)            # environment variables that are not read
    needs: dict[str, str] = field(default_factory=dict)        # options that an argument leaves open -> why
    before: list[str] = field(default_factory=list)            # words before the program, which are not read
    unset: list[str] = field(default_factory=list)             # variables whose defaults are taken
    derived: list[str] = field(default_factory=list)           # options that an argument determines, and which one
    logged: dict[str, Option] = field(default_factory=dict)    # options that a line of the server's log states


def find_program(words: Sequence[ShellWord], table: CommandTable) -> Program | None:
    """Return the place where a command line starts a server of this table, None if it does not."""
    for at, word in enumerate(words):
        if word.text in _CONTAINERS and at + 1 < len(words) and words[at + 1].text == "run":
            return _in_container(words, at + 2, table)
    return _found_start(words, table)


def _found_start(words: Sequence[ShellWord], table: CommandTable) -> Program | None:
    """Return the first place whose words are those of a start, None if there is none."""
    texts = [word.text for word in words]
    for at, text in enumerate(texts):
        for start in table.starts:
            if _starts(texts[at : at + len(start)], start):
                before, variables = _before(words[:at])
                return Program(at + len(start), bool(table.mark) and table.mark in text, variables, before)
    return None


def _starts(texts: Sequence[str], start: Sequence[str]) -> bool:
    """True if these words are the words of a start; paths and `.exe` do not matter."""
    return len(texts) == len(start) and all(_base(text) == word for text, word in zip(texts, start, strict=True))


def _base(text: str) -> str:
    """Return the name of a program, without its folder, its extension and the version behind an @, which a runner of
    packages reads."""
    return _VERSION.sub("", _EXTENSION.sub("", re.split(r"[/\\]", text)[-1]))


def _before(words: Sequence[ShellWord]) -> tuple[tuple[str, ...], dict[str, ShellWord]]:
    """Return the words before a program, and the environment variables that they set."""
    variables = {word.text.partition("=")[0]: word._replace(text=word.text.partition("=")[2])
                 for word in words if _ASSIGNMENT.match(word.text)}  # fmt: skip
    others = (word.text for word in words if not _ASSIGNMENT.match(word.text))
    return tuple(text for text in others if not _COMMON.fullmatch(_base(text))), variables


def _in_container(words: Sequence[ShellWord], at: int, table: CommandTable) -> Program | None:
    """Return the start of a server by ``docker run``, whose options begin at ``at``; None for an image of another
    program."""
    variables: dict[str, ShellWord] = {}
    program = ""
    while at < len(words) and words[at].text.startswith("-"):
        name, equals, value = words[at].text.partition("=")
        joined = re.fullmatch(r"-[ditqP]+", name) is not None
        if not equals and name not in _CONTAINER_SWITCHES and not joined:
            at += 1
            value = words[at].text if at < len(words) else ""
        if name in ("-e", "--env") and "=" in value:
            variables[value.partition("=")[0]] = words[at]._replace(text=value.partition("=")[2])
        if name == "--entrypoint":
            program = value
        at += 1
    if at >= len(words):
        return None
    image, after = words[at].text, at + 1
    found = _found_start(words[after:], table)
    if found is not None:
        return found._replace(at=found.at + after, variables={**variables, **found.variables})
    starts = any(part in image for part in table.images)
    if program:
        starts = any(_base(program) == start[0] for start in table.starts)
    return Program(after, bool(table.mark) and table.mark in image, variables) if starts else None


def read_command(words: Sequence[ShellWord], program: Program, table: CommandTable, flags: Sequence[Flag],
                 release: str, sizes: Sequence[Flag] = (), later: str = "") -> ServerCommand:
    """Read the arguments of a server. ``flags``: options that are simulated; ``release``: rule set whose arguments
    are accepted; ``later``: the next compared one, whose arguments are accepted, too, "" = none; ``sizes``: options
    that change only sizes, which are read, too. Raise BadInput for an unknown argument, a broken value, and one that
    is not simulated."""
    words_of_sizes = {word for flag in sizes for word in flag.spellings}
    names = {**table.of_release(release), **(table.of_release(later) if later else {})}
    reader = _ArgumentReader(table, (*sizes, *flags), release, words_of_sizes, names)
    reader.read_variables(program.variables)
    reader.read_words(words[program.at :])
    reader.found.before = list(program.before)
    reader.finish()
    return reader.found


@dataclass
class _ArgumentReader:
    """Arguments read so far. ``open``: those that are not simulated; ``parts``: values given part by part, as
    ``--config.key value``."""

    table: CommandTable
    flags: Sequence[Flag]
    release: str
    sizes: AbstractSet[str]                        # spellings of options that change only sizes
    names: Mapping[str, Argument]                  # spellings that are accepted
    found: ServerCommand = field(default_factory=ServerCommand)
    open: list[str] = field(default_factory=list)
    parts: dict[str, dict[str, Any]] = field(default_factory=dict)
    allowed: list[tuple[str, AllowedSizes]] = field(default_factory=list)      # with the argument that allows them
    replaced: set[str] = field(default_factory=set)               # options whose sizes another argument excludes
    todo: list[ShellWord] = field(default_factory=list)

    def read_words(self, words: Sequence[ShellWord]) -> None:
        """Read all words. Raise BadInput."""
        self.todo = list(words)[::-1]
        while self.todo:
            word = self.todo.pop()
            if word.text.startswith("-") and len(word.text) > 1 and not _NUMBER.fullmatch(word.text):
                self._read_argument(word)
            elif self.table.positional and not self.found.model:
                self._set_model(word)
            elif word.variable:
                raise BadInput(f"{_place(word.variable)}: {quoted(word.text)} has a shell variable",
                               hint="put its value there")  # fmt: skip
            else:
                raise BadInput(f"{_origin(word)}: expected a flag, found {quoted(word.text)}")

    def _set_model(self, word: ShellWord) -> None:
        """Set the model. A shell variable in its folder does not matter: the file's name names the model."""
        if _SHELL.fullmatch(word.text):
            raise BadInput(f"{_origin(word)}: no server is started, but a shell: {quoted(word.text)}",
                           hint="paste the command that is typed there")  # fmt: skip
        self.found.model = word.text
        self.found.open_model = word.variable if re.search(r"[$`)}]", _base(word.text)) else 0
        self.found.unset += word.unset

    def read_variables(self, variables: Mapping[str, ShellWord]) -> None:
        """Read environment variables: those that stand for an argument, and names of others that the server reads."""
        rows = {row.variable: row for row in self.names.values() if row.variable}
        for name, word in variables.items():
            if name in rows and word.variable:
                raise BadInput(f"{_place(word.variable)}: {name} has a shell variable", hint="put its value there")
            if name in rows:
                self._apply_variable(rows[name], word)
            elif name in self.table.switches:
                self.found.options[self.table.switches[name]] = _is_on(word)
            elif name.startswith(self.table.variables):
                self.found.unread.append(name)
            else:
                self.found.ignored.append(name)

    def _apply_variable(self, row: Argument, word: ShellWord) -> None:
        """Apply an environment variable that stands for an argument; a switch has a truth value."""
        if row.values == "0":
            on = _is_on(word)
            positive = [name for name in row.spellings if not name.startswith(("--no-", "-no"))]
            negative = [name for name in row.spellings if name.startswith(("--no-", "-no"))]
            for spelling in (positive if on else negative)[:1]:
                self._apply(spelling, row, [], word)
        else:
            self._apply(row.spellings[0], row, [word], word)

    def _read_argument(self, word: ShellWord) -> None:
        """Read an argument with its values. Raise BadInput."""
        text, equals, value = word.text.partition("=") if self.table.style.equals else (word.text, "", "")
        if word.variable and not equals:
            raise BadInput(f"{_place(word.variable)}: {quoted(word.text)} has a shell variable",
                           hint="put its value there")  # fmt: skip
        name, dot, keys = self._plain(text).partition(".")
        spelling = self._spelling(name, word) if dot else self._spelling(self._plain(text), word)
        if spelling is None:
            self._list(text, self.names[OPTIMISATION].effect, text)
            return
        row = self.names[spelling]
        values = self._values(spelling, row, word._replace(text=value) if equals else None)
        if dot:
            self._add_part(spelling, row, keys, values, word)
            return
        self._apply(spelling, row, values, word)

    def _plain(self, text: str) -> str:
        """Return a name as the table has it."""
        if not self.table.style.underscores or not text.startswith("--"):
            return text
        name, dot, keys = text.partition(".")
        return name.replace("_", "-") + dot + keys

    def _spelling(self, name: str, word: ShellWord) -> str | None:
        """Return the spelling in the table that a name denotes; None for a level of optimisation (`-O3`). Raise
        BadInput for an unknown name."""
        if name in self.names:
            return name
        if _LEVEL.fullmatch(word.text) and OPTIMISATION in self.names:
            return None
        if name in self.table.names:
            raise self._unknown(name, word)
        if self.table.style.beginnings and name.startswith("--"):
            meant = sorted(known for known in self.names if known.startswith(name))
            rows = {self.names[known] for known in meant}
            if len(rows) == 1 and len(meant) == 1:
                return meant[0]
            if meant:
                raise BadInput(f"{_origin(word)}: {quoted(name)} is ambiguous", hint=first_of(meant, 160))
        raise self._unknown(name, word)

    def _unknown(self, name: str, word: ShellWord) -> BadInput:
        """Return the error for a name that the release does not have."""
        release = self.release.partition("@")[2]
        other = self.table.where(name)
        renamed = self.table.renamed.get(name, "")
        if not other and name not in self.table.renamed:
            return UnknownFlag(name, f"{_origin(word)}: unknown flag {quoted(name)} of {self.release}",
                               hint=nearest(name, self.names))  # fmt: skip
        there = f"{release} has {renamed}" if renamed in self.names else ""
        has = f"{other} has it" if other else "other releases had it"
        return NotInRelease(f"{_origin(word)}: {self.release} has no flag {quoted(name)}", hint=there or has)

    def _values(self, spelling: str, row: Argument, given: ShellWord | None) -> list[ShellWord]:
        """Take the values of an argument. Raise BadInput if one is missing."""
        if row.values == "0" and given is not None:
            raise BadInput(f"{_origin(given)}: flag {quoted(spelling)} has no value, found {quoted(given.text)}")
        if given is not None:
            return self._known([given], spelling, row)
        least, most = _NUMBERS[row.values]
        values: list[ShellWord] = []
        while len(values) < most and self.todo and not self._is_flag(self.todo[-1].text):
            values.append(self.todo.pop())
        if len(values) < least:
            after = f", found {quoted(self.todo[-1].text)}" if self.todo else ""
            without = self.table.where(spelling, "0")
            kind = NotInRelease if without else BadInput
            hint = f"{without} has it without" if without else ""
            raise kind(f"{self.release}: flag {quoted(spelling)}: expected a value{after}", hint=hint)
        return self._known(values, spelling, row)

    def _known(self, values: list[ShellWord], spelling: str, row: Argument) -> list[ShellWord]:
        """Return the values. Raise BadInput for one that depends on a shell variable, unless it does not matter or
        names the model, which the user may name."""
        for value in values:
            if value.variable and row.effect not in (effects.NO_EFFECT, effects.MODEL):
                kind = "placeholder" if _PLACEHOLDER.search(value.text) else "shell variable"
                raise BadInput(f"{_place(value.variable)}: the value of {quoted(spelling)} is a {kind}",
                               hint="put its value there")  # fmt: skip
        return values

    def _is_flag(self, text: str) -> bool:
        """True if a word cannot be a value: it is a flag of this release, or looks like a flag."""
        name = text.partition("=")[0] if self.table.style.equals else text
        if self._plain(name) in self.names:
            return True
        return re.match(r"--?[A-Za-z][^ ]*$", text) is not None

    def _add_part(self, spelling: str, row: Argument, keys: str, values: list[ShellWord], word: ShellWord) -> None:
        """Add a part of a JSON value, ``--config.key value``. Raise BadInput."""
        if row.values != "j":
            raise BadInput(f"{_origin(word)}: flag {quoted(spelling)} has no parts, found {quoted(word.text)}")
        place = self.parts.setdefault(row.spellings[0], {})
        *path, last = keys.rstrip("+").split(".")
        NESTING.check(len(path), spelling)
        for key in path:
            place = place.setdefault(key, {})
            if not isinstance(place, dict):
                raise BadInput(f"{_origin(word)}: {quoted(word.text)} is inside a value that is given, too")
        text = values[0].text
        try:
            place[last] = parse_json(text.encode("utf-8", "replace"), what=spelling)
        except BadInput:
            place[last] = text

    def _apply(self, spelling: str, row: Argument, values: list[ShellWord], word: ShellWord) -> None:
        """Apply an argument. Raise BadInput for a broken value."""
        value: Any = values[0].text if values else ""
        if row.values == "j":
            value = _json(spelling, values[0])
        if row.effect not in (effects.NO_EFFECT, effects.MODEL):
            self.found.unset += [name for one in values for name in one.unset]
        if spelling in self.sizes:
            self._set(spelling, row, value)
        elif row.effect == effects.MODEL:
            self._set_model(values[0])
        elif values and values[0].text.casefold() in row.harmless:
            self.found.ignored.append(spelling)
        elif row.effect == effects.OPTION:
            self._set(spelling, row, value)
        else:
            self._list(spelling, row.effect, " ".join([spelling, *(one.text for one in values[:1])]))

    def _list(self, spelling: str, effect: str, words: str) -> None:
        """List an argument that is not simulated by its effect. ``words``: the argument with its value."""
        if effect == effects.SIZE:
            self.found.sized.append(spelling)
        elif effect == effects.LIMIT:
            self.found.limits.append(words)
        elif effect == effects.OPEN:
            self.open.append(words)
        else:
            self.found.ignored.append(spelling)

    def _set(self, spelling: str, row: Argument, value: Any) -> None:
        """Set the options that an argument stands for. Raise BadInput."""
        reader = self.table.readers.get(row.spellings[0])
        try:
            reading = reader(value) if reader else self._option(spelling, value)
        except BadInput as bad:
            raise BadInput(f"flag {quoted(spelling)}: {bad.cause}", hint=bad.hint) from None
        self.found.options.update(reading.options)
        self.found.needs.update(reading.needs)
        self.found.ignored += [f"{spelling} {part}" for part in reading.ignored]
        self.found.limits += [f"{spelling} {part}" for part in reading.limits]
        self.open += [f"{spelling} {part}" for part in reading.refused]
        self.allowed += [(f"{spelling} {value}", one) for one in reading.allowed if self.table.has(one, self.release)]

    def _option(self, spelling: str, text: str) -> ParsedArgument:
        """Return the option of this spelling with its value. Raise BadInput for a value that is not simulated."""
        flag = next(flag for flag in self.flags if spelling in (*flag.spellings, *flag.off))
        if isinstance(flag.default, bool) and (flag.read is None or spelling in flag.off):
            return ParsedArgument({flag.name: spelling in flag.spellings})
        read = flag.read or READERS[type(flag.default)]
        value = read(text)
        if isinstance(value, Mapping):
            return ParsedArgument(value)
        if flag.choices and flag.unknown_word(str(value)) is not None:
            return ParsedArgument(refused=(quoted(text),))
        return ParsedArgument({flag.name: flag.added(self.found.options.get(flag.name), value)})

    def finish(self) -> None:
        """Apply values that were given part by part. Raise BadInput for arguments that are not simulated."""
        for spelling, value in self.parts.items():
            row = self.names[spelling]
            if row.effect == effects.OPTION:
                self._set(spelling, row, value)
            else:
                self._list(spelling, row.effect, spelling)
        self.parts.clear()
        for argument, allowed in self.allowed:
            self._allow(argument, allowed)
        if self.open:
            starts_several = all(argument.partition(" ")[0] in self.table.replicas for argument in self.open)
            raise BadInput(f"not simulated, and may change what is reused: {first_of(self.open, 175)}",
                           hint="without these flags, --replicas N runs several engines" if starts_several else
                           "remove these flags to simulate the server without them")  # fmt: skip

    def _allow(self, argument: str, allowed: AllowedSizes) -> None:
        """Replace a size that an argument excludes. Raise BadInput if the server does not start with it."""
        flag = next(flag for flag in self.flags if flag.name == allowed.option)
        stated = self.found.options.get(flag.name)
        size = flag.default if stated is None else stated
        reason = f"{flag.spellings[0]} {allowed.otherwise} ({argument} takes {allowed.words})"
        if flag.name in self.replaced and stated == allowed.otherwise:
            self.found.derived.append(reason)
            return
        if stated is not None and not allowed.sizes:
            return
        if isinstance(size, int) and allowed.allow(size):
            return
        if stated is not None and allowed.refuses:
            raise BadInput(f"the server does not start: {argument} needs {flag.spellings[0]} in {allowed.words}",
                           hint=f"{flag.spellings[0]} {allowed.otherwise}")  # fmt: skip
        self.found.options[flag.name] = allowed.otherwise
        self.found.derived.append(reason)
        self.replaced.add(flag.name)


def _is_on(word: ShellWord) -> bool:
    """True if the value of an environment variable switches on."""
    return word.text.lower() in ("1", "on", "true", "enabled")


def _origin(word: ShellWord) -> str:
    """Return where a word stands."""
    return word.origin or _place(word.place)


def _place(place: int) -> str:
    return f"command line at character {place}"


def _json(spelling: str, value: ShellWord) -> Any:
    """Return the JSON value of an argument. Raise BadInput with its place."""
    try:
        return parse_json(value.text.encode("utf-8", "replace"), what=spelling)
    except BadInput as bad:
        raise BadInput(f"{_origin(value)}: flag {quoted(spelling)}: {bad.cause}") from None


__all__ = ["NotInRelease", "Program", "ServerCommand", "UnknownFlag", "find_program", "read_command"]
