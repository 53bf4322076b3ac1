"""Commands in the files that start servers: compose files, Kubernetes manifests, systemd units and Dockerfiles.

The parts of a container or service (entry point, command, arguments) become one command line. A container without a
program runs that of its image: its command line is that of ``docker run``. ``sh -c TEXT`` stands for the text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Iterator, Mapping, NamedTuple, Sequence

from cachesim.base.shell_words import LONGEST, ShellWord, command_lists, command_words, shell_commands, shell_words

_UNIT = re.compile(r"^[ \t]*(?:ExecStart|Environment)=[@:+!-]*", re.MULTILINE)
_EXEC = re.compile(r"^[ \t]*ExecStart=", re.MULTILINE)
_DOCKERFILE = re.compile(r"^[ \t]*(FROM|ENTRYPOINT|CMD)[ \t]+", re.MULTILINE)
_STARTS = re.compile(r"^[ \t]*(ENTRYPOINT|CMD)[ \t]", re.MULTILINE)
_CONTINUED = re.compile(r"[^\n]*\\[ \t]*\r?\n")
_NAMED = re.compile(r"([ ]*(?:-[ ]+)?)[\"']?([\w./-]+)[\"']?[ ]*:(?=\s|$)[ ]*")
_BLOCK = re.compile(r"[>|][+-]?[ \t]*\n")
_SHELL = re.compile(r"(?:.*/)?(?:ba|da|z|k)?sh")
_FLAG_C = re.compile(r"-[a-z]*c")
_VALUE = re.compile(r"^[ \t]*-[ \t]+name:[ \t]*[\"']?(\w+)[\"']?[ \t]*\n[ \t]*value:[ \t]*[\"']?([^\n\"']*)",
                    re.MULTILINE)  # fmt: skip
_REFERENCE = re.compile(r"\$\((\w+)\)")
PARTS = {"entrypoint": 0, "command": 1, "cmd": 1, "args": 2}
"""Key of a part -> its place in the command."""
IMAGE = "image"


class FileLine(NamedTuple):
    """A line of a file that is neither empty nor a comment. ``start``, ``stop``: its characters, without the end of the
    line; ``indent``: blanks before its text."""

    start: int
    stop: int
    indent: int
    text: str


@dataclass
class Container:
    """A container or service. ``parts``: words of each part, by place."""

    image: str = ""
    parts: dict[int, list[ShellWord]] = field(default_factory=dict)

    def words(self) -> list[ShellWord]:
        """Return its command line."""
        words = [word for place in sorted(self.parts) for word in self.parts[place]]
        if self.image and words and words[0].text.startswith("-"):
            words = [*(ShellWord(text, words[0].place) for text in ("docker", "run", self.image)), *words]
        return words


def start_commands(text: str) -> list[list[ShellWord]]:
    """Return the command lines in a text, at least one: that of each container of a file, or the text itself. Raise
    BadInput."""
    if len(text) > LONGEST:
        return [command_words(text)]            # refused there
    if _EXEC.search(text):
        found = [_unit_words(text)]
    elif _STARTS.search(text):
        found = [_dockerfile_words(text)]
    else:
        found = [words for words in map(Container.words, _containers(text)) if words] or command_lists(text)
    values = dict(_VALUE.findall(text))
    return [[_with_values(word, values) for word in inner] for words in found for inner in _unwrapped(words, text)]


def _with_values(word: ShellWord, values: Mapping[str, str]) -> ShellWord:
    """Return a word with the values of the variables that it names as Kubernetes does, ``$(NAME)``."""
    if not word.variable or not any(found[1] in values for found in _REFERENCE.finditer(word.text)):
        return word
    replaced = _REFERENCE.sub(lambda found: values.get(found[1], found[0]).strip(), word.text)
    return word._replace(text=replaced, variable=word.variable if "$" in replaced else 0)


def _unit_words(text: str) -> list[ShellWord]:
    """Return the words of a systemd unit, variables first."""
    variables = list[ShellWord]()
    command = list[ShellWord]()
    for found in _UNIT.finditer(text):
        words = _words(text, found.end(), _end_of_line(text, found.end()))
        if "ExecStart" in found[0]:
            command = words or command
        else:
            variables += words
    return [*variables, *command]


def _dockerfile_words(text: str) -> list[ShellWord]:
    """Return the words of the last stage of a Dockerfile."""
    made = Container()
    for found in _DOCKERFILE.finditer(text):
        words = _words(text, found.end(), _end_of_line(text, found.end()))
        if found[1] == "FROM":
            made = Container(image=words[0].text if words else "")
        else:
            made.parts[PARTS[found[1].lower()]] = words
    return made.words()


def _end_of_line(text: str, start: int) -> int:
    """Return the end of a line and of those that continue it."""
    at = start
    while (continued := _CONTINUED.match(text, at)) is not None:
        at = continued.end()
    return (text + "\n").index("\n", at)


def _image(value: str) -> str:
    """Return the image that a chart states in parts, "" for a value without parts."""
    repository = re.search(r"^[ \t]*repository:[ \t]*[\"']?([\w./:-]+)", value, re.MULTILINE)
    tag = re.search(r"^[ \t]*tag:[ \t]*[\"']?([\w.-]+)", value, re.MULTILINE)
    return ":".join(part[1] for part in (repository, tag) if part) if repository else ""


def _containers(text: str) -> list[Container]:
    """Return the containers of a YAML file; [] if the text has another form."""
    lines = [*_lines(text)]
    named = sum(_NAMED.match(line.text) is not None for line in lines)
    key = _NAMED.match(lines[0].text) if lines else None
    if key is None or (named < 2 and key[2] not in PARTS):
        return []
    if named < 2:                           # a value that may have lost its indentation
        return [Container(parts={PARTS[key[2]]: _words(text, lines[0].start + key.end(), len(text))})]
    found = list[Container]()
    known: dict[int, Container] = {}
    at = 0
    while at < len(lines):
        line = lines[at]
        key = _NAMED.match(line.text)
        at += 1
        known = {column: one for column, one in known.items() if column <= line.indent}
        if key is None or (key[2] not in PARTS and key[2] != IMAGE):
            continue
        column = len(key[1])
        if column not in known:
            known[column] = Container()
            found.append(known[column])
        begin = line.start + key.end()
        stop, at = _value_end(text, lines, at, column, begin)
        words = _words(text, begin, stop)
        if key[2] == IMAGE:
            known[column].image = _image(text[begin:stop]) or (words[0].text if words else "")
        else:
            known[column].parts[PARTS[key[2]]] = words
    return found


def _lines(text: str) -> Iterator[FileLine]:
    """Yield the lines of a text that are neither empty nor comments."""
    for found in re.finditer(r"[^\n]+", text):
        bare = found[0].lstrip()
        if bare and not bare.startswith("#"):
            yield FileLine(found.start(), found.end(), len(found[0]) - len(bare), found[0])


class ValueEnd(NamedTuple):
    """End of a value: its character, and the number of the next line."""

    stop: int
    line: int


def _value_end(text: str, lines: Sequence[FileLine], at: int, column: int, begin: int) -> ValueEnd:
    """Return the end of a value that begins at a character in the line before ``at``. A list in brackets ends with its
    last bracket, another value before the next key."""
    stop = lines[at - 1].stop
    empty = not text[begin:stop].strip()
    is_list = text[begin : begin + 1] == "["
    depth = _open_brackets(text[begin:stop]) if is_list else 0
    while at < len(lines):
        line = lines[at]
        dashed = empty and line.text.lstrip().startswith("- ") and line.indent >= column
        if depth <= 0 and line.indent <= column and not dashed:
            break
        if is_list and depth <= 0:
            break
        stop = line.stop
        at += 1
        depth += _open_brackets(line.text) if is_list else 0
    return ValueEnd(stop, at)


def _open_brackets(text: str) -> int:
    """Return the number of brackets that a line opens, outside of quotation marks."""
    bare = re.sub(r"\"(?:[^\"\\]|\\.)*\"|'[^']*'", "", text)
    return bare.count("[") - bare.count("]")


def _words(text: str, start: int, stop: int) -> list[ShellWord]:
    """Return the words of a value between two characters. Raise BadInput."""
    value = text[start:stop]
    begin = start + len(value) - len(value.lstrip())
    value = value.strip()
    if not value:
        return []
    if block := _BLOCK.match(value):
        return shell_words(text[: begin + len(value)], begin + block.end())
    if re.match(r"-[ ]+", value):
        return [*_items(text, start, stop)]
    if value[0] == "[":
        value = re.sub(r",\s*\]$", "]", value.replace("\\\n", "  "))
    elif value[0] in "\"'" and value[-1] == value[0] and value.count(value[0]) == 2:
        return shell_words(text[: begin + len(value) - 1], begin + 1)
    return _placed(value, begin)


def _placed(value: str, begin: int) -> list[ShellWord]:
    """Return the words of a value that begins at this character of its text. Raise BadInput."""
    return command_words(" " * begin + value)


def _items(text: str, start: int, stop: int) -> Iterator[ShellWord]:
    """Yield the items of a list with dashes. An item is one word; that of a block is its text."""
    value = text[start:stop]
    dashes = [*re.finditer(r"^([ \t]*)-[ ]+", value, re.MULTILINE)]
    least = min(len(dash[1]) for dash in dashes)
    own = [dash for dash in dashes if len(dash[1]) == least]
    for dash, after in zip(own, [*(dash.start() for dash in own[1:]), len(value)], strict=True):
        item = value[dash.end() : after]
        if block := _BLOCK.match(item):
            yield ShellWord(item[block.end() :], start + dash.end() + block.end() + 1)
        else:
            yield from _placed(f"- {item.strip()}", start + dash.end() - 2)


def _unwrapped(words: Sequence[ShellWord], text: str) -> list[list[ShellWord]]:
    """Return the words with the text of ``sh -c`` in its place, once for each of its commands."""
    for at in range(len(words) - 2):
        shell, flag, inner = words[at : at + 3]
        if _SHELL.fullmatch(shell.text) and _FLAG_C.fullmatch(flag.text):
            is_quoted = text[inner.place - 1 : inner.place] in ("'", '"')
            begin = inner.place if is_quoted else inner.place - 1
            return [[*words[:at], *command] for command in shell_commands(" " * begin + inner.text, begin)]
    return [list(words)]


__all__ = ["start_commands"]
