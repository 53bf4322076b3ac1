"""The file of options that a pasted command line names, as ``--config FILE`` of vLLM and SGLang.

It is YAML, of which a subset is read: an option per line, lists, and options inside another one, which are the JSON
value of an argument. Its options come before those of the command line, which take precedence.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Iterator, NamedTuple, Sequence

from cachesim.base.errors import BadInput, quoted
from cachesim.base.limits import NESTING
from cachesim.base.shell_words import LONGEST, ShellWord
from cachesim.base.untrusted_files import FILE, decode, kind, parse_json, path_of, read_start, real_path
from cachesim.engines.shared.command_table import CommandTable

NOTHING = object()
"""Value of an option that has none; the value ``null`` leaves an option out."""
ENDINGS = (".yaml", ".yml")
OTHERWISE = "write its options into the command line: `port: 80` is --port 80"
_ENTRY = re.compile(r"(?:([A-Za-z_][\w.-]*)|\"([^\"\\]*)\"|'([^']*)')[ ]*:(?:[ ]+(.*))?")
_COMMENT = re.compile(r"(?:^|[ ])#.*")
_TRUE, _FALSE = ("true", "yes", "on"), ("false", "no", "off")
_NUMBER = re.compile(r"[+-]?[0-9]{1,30}(\.[0-9]{0,30}([eE][+-][0-9]{1,3})?)?")


class YamlLine(NamedTuple):
    """A line without comment. ``number``: from 1; ``indent``: blanks before it."""

    number: int
    indent: int
    text: str


class FileOption(NamedTuple):
    """An option of a file, and the line where it begins."""

    name: str
    value: Any
    line: int


class Scalar(str):
    """A number as it is written."""


def with_file_options(words: Sequence[ShellWord], at: int, table: CommandTable) -> list[ShellWord]:
    """Return the words of a command line, whose arguments begin at ``at``, with the options of the file in the place of
    the argument that names it. Raise BadInput for a file that is missing, or is more than a list of options."""
    name = table.options_file
    for place in range(at, len(words)) if name else ():
        given, equals, file = words[place].text.partition("=")
        if given != name or (not equals and place + 1 >= len(words)):
            continue
        stop = place + 1 if equals else place + 2
        word = words[place]._replace(text=file) if equals else words[place + 1]
        if word.variable:
            raise BadInput(f"command line at character {word.variable}: the file of {quoted(name)} is a shell variable",
                           hint="put its name there")  # fmt: skip
        names_model = table.positional and not words[at].text.startswith("-")
        first = at + names_model
        found = [*_file_words(word, table, skipped=("model",) if names_model else ())]
        rest = [*words[first:place], *words[stop:]] if first <= place else [*words[stop:]]
        return [*words[:first], *found, *rest]
    return list(words)


def _file_words(word: ShellWord, table: CommandTable, skipped: Sequence[str]) -> Iterator[ShellWord]:
    """Yield the arguments that a file stands for. ``skipped``: names of options that are left out."""
    for option in read_options(word.text):
        if option.name in skipped:
            continue
        origin = f"{word.text}:{option.line}"
        for text in _argument(option, table, origin):
            yield ShellWord(text, word.place, origin=origin)


def _argument(option: FileOption, table: CommandTable, origin: str) -> list[str]:
    """Return the words of an option. A switch has a truth value: off, it is left out, unless a spelling turns it
    off."""
    name = f"--{option.name}"
    value = option.value
    plain = name.replace("_", "-") if table.style.underscores else name
    if value is NOTHING:
        raise BadInput(f"{origin}: option {quoted(option.name)} has no value")
    if value is None:
        return []
    if isinstance(value, bool):
        is_switch = all(row.values == "0" for row in table.names.get(plain, ()))
        off = f"--no-{plain.removeprefix('--')}"
        if not is_switch:
            return [name, str(value).lower()]
        return [name] if value else [off] if off in table.names else []
    if isinstance(value, dict):
        return [name, json.dumps(value)]
    if isinstance(value, list):
        return [name, *map(str, value)] if value else []
    return [name, str(value)]


def read_options(name: str) -> list[FileOption]:
    """Return the options of a file. Raise BadInput."""
    path = path_of(name)
    if path.suffix not in ENDINGS or Path(real_path(path)).suffix not in ENDINGS:    # a link may name any file
        raise BadInput("the server takes options from .yaml and .yml only", file=name)
    if kind(path) != FILE:
        raise BadInput("the file of the server's options is not here", file=name, hint=OTHERWISE)
    return _options(path)


def _options(path: Path) -> list[FileOption]:
    text = decode(read_start(path, LONGEST + 1), str(path))
    if len(text) > LONGEST:
        raise BadInput(f"a file of options has at most {LONGEST:,} characters", file=str(path), hint=OTHERWISE)
    reader = _YamlReader(str(path), [*_lines(text)])
    found = [FileOption(key, value, line) for key, value, line in reader.entries(0)]
    if reader.todo:
        raise reader.refusal(reader.todo[0])
    return found


def _lines(text: str) -> Iterator[YamlLine]:
    """Yield the lines of a file that are neither empty nor comments."""
    for number, line in enumerate(text.splitlines(), 1):
        bare = line.lstrip(" ").rstrip()         # a tab before an option is refused later
        if bare and not bare.lstrip().startswith("#") and not (bare == "---" and number == 1):
            yield YamlLine(number, len(line) - len(line.lstrip(" ")), bare)


@dataclass
class _YamlReader:
    """Lines of a file that are not read yet."""

    file: str
    todo: list[YamlLine]

    def refusal(self, line: YamlLine) -> BadInput:
        """Return the error for a line that is not read."""
        return BadInput(f"expected `option: value`, found {quoted(line.text)}", file=self.file, line=line.number,
                        hint=OTHERWISE)  # fmt: skip

    def entries(self, indent: int, depth: int = 0) -> Iterator[tuple[str, Any, int]]:
        """Yield the entries at this indentation: name, value, and number of the line."""
        NESTING.check(depth, "options", file=self.file)
        while self.todo and self.todo[0].indent == indent:
            line = self.todo.pop(0)
            found = _ENTRY.fullmatch(line.text)
            if not found:
                raise self.refusal(line)
            rest = found[4] or ""
            value = self._scalar(rest, line) if _COMMENT.sub("", rest).strip() else self._nested(indent, depth)
            yield found[1] or found[2] or found[3] or "", value, line.number

    def _nested(self, indent: int, depth: int) -> Any:
        """Return the list or the options below an entry without value, NOTHING if there are none."""
        if not self.todo or self.todo[0].indent < indent:
            return NOTHING
        line = self.todo[0]
        if line.text.startswith("- "):
            return self._items(line.indent)
        if line.indent == indent:
            return NOTHING
        return {key: _typed(value) for key, value, _ in self.entries(line.indent, depth + 1)}

    def _items(self, indent: int) -> list[Any]:
        """Return the items of a list, one in a line."""
        found = []
        while self.todo and self.todo[0].indent == indent and self.todo[0].text.startswith("- "):
            line = self.todo.pop(0)
            if _ENTRY.fullmatch(line.text[2:].strip()):
                raise self.refusal(line)
            found.append(self._scalar(line.text[2:].strip(), line))
        return found

    def _scalar(self, text: str, line: YamlLine) -> Any:
        """Return a value in a line. Raise BadInput for syntax that is not read."""
        if text[0] in "\"'":
            return self._quoted(text, line)
        text = _COMMENT.sub("", text).strip()
        if text[0] in "[{":
            try:
                return parse_json(text.encode())
            except BadInput:
                raise self.refusal(line) from None
        if text[0] in "&*!|>%@`":
            raise self.refusal(line)
        word = text.casefold()
        if word in _TRUE or word in _FALSE:
            return word in _TRUE
        if word in ("null", "~"):
            return None
        return Scalar(text) if _NUMBER.fullmatch(text) else text

    def _quoted(self, text: str, line: YamlLine) -> str:
        """Return a text in quotation marks."""
        end = text.rfind(text[0])
        if end == 0 or _COMMENT.sub("", text[end + 1 :]).strip():
            raise self.refusal(line)
        inside = text[1:end]
        if text[0] == "'":
            return inside.replace("''", "'")
        try:
            return str(parse_json(text[: end + 1].encode()))
        except BadInput:
            raise self.refusal(line) from None


def _typed(value: Any) -> Any:
    """Return a value as JSON has it; an entry without a value is null, as YAML reads it."""
    if value is NOTHING:
        return None
    if isinstance(value, Scalar):
        return float(value) if "." in value else int(value)
    return [*map(_typed, value)] if isinstance(value, list) else value


__all__ = ["FileOption", "read_options", "with_file_options"]
