"""TOML parser with line numbers of keys and single-line errors.

The standard library's parser does not report line numbers, so they are found by searching the text.
"""

from __future__ import annotations

import re
import tomllib
from functools import cached_property
from pathlib import Path
from typing import Any

from cachesim.base.errors import BadInput
from cachesim.base.limits import NESTING, SCENARIO_BYTES
from cachesim.base.untrusted_files import read_text, too_deep

Key = tuple[str | int, ...]

_PART = r"""(?:"[^"\n]*"|'[^'\n]*'|[\w-]+)"""
_HEADER = re.compile(rf"\s*(\[\[?)\s*({_PART}(?:\s*\.\s*{_PART})*)\s*\]\]?\s*(?:#.*)?")
_KEY = re.compile(rf"\s*({_PART}(?:\s*\.\s*{_PART})*)\s*=")
_DOTTED = re.compile(r"""[\w"'-]++(?:\s*+\.\s*+[\w"'-]++)*+\s*+[=\]]?""")
_BETWEEN_DOTS = bytes(byte for byte in range(256) if byte > 127 or re.match(r"""[\w\s"'-]""", chr(byte)))
"""The bytes of a dotted key without its dots, in UTF-8."""


class TomlSource:
    """Text of a TOML file with the lines of its keys."""

    def __init__(self, file: str, text: str) -> None:
        self.file, self.text = file, text

    @cached_property
    def _lines(self) -> dict[Key, int]:
        return _lines(self.text)

    def line_of(self, key: Key) -> int | None:
        """Return the line of a key, else of the nearest enclosing table with a line, else None."""
        return next((self._lines[key[:cut]] for cut in range(len(key), 0, -1) if key[:cut] in self._lines), None)


def read_toml(path: Path) -> tuple[dict[str, Any], TomlSource]:
    """Return the parsed file and its source. Raise BadInput for every unreadable or invalid file."""
    source = TomlSource(str(path), read_text(path, SCENARIO_BYTES, "scenario file"))
    _refuse_long_keys(source)
    try:
        raw = tomllib.loads(source.text)
    except RecursionError:
        raise too_deep(source.file) from None
    except ValueError as error:              # TOMLDecodeError, or a number with too many digits
        raise _syntax(error, source) from None
    if _depth(raw) > NESTING.now:
        raise too_deep(source.file)
    return raw, source


def _refuse_long_keys(source: TomlSource) -> None:
    """Raise BadInput for dotted keys with too many parts: the parser would need hours for thousands of them. Most texts
    have nowhere so many dots with nothing else between them."""
    rest = source.text.encode().translate(None, _BETWEEN_DOTS)
    if b"." * (NESTING.now + 1) not in rest:
        return
    for match in _DOTTED.finditer(source.text):
        if match[0][-1:] in "=]" and match[0].count(".") > NESTING.now:
            line = source.text.count("\n", 0, match.start()) + 1
            raise too_deep(source.file, line)


def _syntax(error: ValueError, source: TomlSource) -> BadInput:
    where = re.search(r" \(at line (\d+), column (\d+)\)| \(at end of document\)", str(error))
    if where is None:
        return BadInput(f"not TOML: {error}", file=source.file)
    line = int(where[1]) if where[1] else source.text.rstrip().count("\n") + 1
    return BadInput(f"not TOML: {str(error)[: where.start()].lower()}", file=source.file, line=line)


def _depth(value: Any) -> int:
    """Return the nesting depth of tables and lists, without recursion."""
    depth, level = 0, [value]
    while level:
        level = [inner for outer in level if isinstance(outer, dict | list)
                 for inner in (outer.values() if isinstance(outer, dict) else outer)]  # fmt: skip
        depth += 1
    return depth - 1


def _lines(text: str) -> dict[Key, int]:
    """Return the line number (from 1) of every table header and of every key at the start of a line."""
    found: dict[Key, int] = {}
    count: dict[Key, int] = {}
    table: Key = ()
    for number, line in enumerate(text.split("\n"), 1):
        header = _HEADER.fullmatch(line.rstrip("\r"))
        if header is not None:
            table = _parts(header[2])
            if header[1] == "[[":
                count[table] = count.get(table, -1) + 1
                table = (*table, count[table])
            for cut in range(1, len(table) + 1):
                found.setdefault(table[:cut], number)
            continue
        match = _KEY.match(line)
        if match is not None:
            key = table + _parts(match[1])
            for cut in range(len(table) + 1, len(key) + 1):
                found.setdefault(key[:cut], number)
    return found


def _parts(dotted: str) -> Key:
    return tuple(part[1:-1] if part[0] in "\"'" else part for part in re.findall(_PART, dotted))
