"""Sources of rules, parsed into places of a llama.cpp tree.

    FILE SYMBOL ["MARK" ...][, [later] [FILE] SYMBOL ...]

A mark is a text in a long function that leads to the statement which the rule is about; see ``cpp.regions``. "later"
precedes the name that a symbol has in later builds. Other items that were read from llama.cpp (numbers of a table,
parts of the driver) have their sources in ``other.toml``.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any, Mapping, NamedTuple

from cachesim.engines import registry
from cachesim.engines.rule import about

_WORD = re.compile(
    r"""\s*(?:"(?P<mark>[^"]+)"|(?P<file>[\w./-]+\.(?:cpp|h))(?![\w:])|(?P<name>~?[A-Za-z_][\w:.]*)|,)"""
)
_FILLER = {"and"}
OTHER = Path(__file__).with_name("other.toml")


class Place(NamedTuple):
    """Symbol of a file, and marks in it (none = all of it). ``later``: name of the symbol in later builds."""

    file: str
    symbol: str
    marks: tuple[str, ...] = ()
    later: str = ""

    def __str__(self) -> str:
        return " ".join([self.file.rpartition("/")[2], self.symbol, *(f'"{mark}"' for mark in self.marks)])


class Item(NamedTuple):
    """Rule or other item that was read from llama.cpp: its id or name, its field in the rule table ("" = none), its
    places."""

    name: str
    field: str
    places: tuple[Place, ...]


def places(text: str) -> tuple[Place, ...]:
    """Return the places of a source, () for other sources (a thread, a document)."""
    out, at, file, later = list[Place](), 0, "", False
    while found := _WORD.match(text, at):
        at = found.end()
        if found["file"]:
            file = _resolved(found["file"], file)
        elif found["mark"] and out:
            out[-1] = out[-1]._replace(marks=(*out[-1].marks, found["mark"]))
        elif found["name"] == "later":
            later = True
        elif found["name"] and found["name"] not in _FILLER:
            if not file:
                return ()
            symbol = found["name"].replace(".", "::")
            out = [*out[:-1], out[-1]._replace(later=symbol)] if later and out else [*out, Place(file, symbol)]
            later = False
    return tuple(out)


def _resolved(name: str, before: str) -> str:
    """Return the path of a file. Without a folder, it is in the folder of the previous file."""
    return name if "/" in name else f"{before.rpartition('/')[0]}/{name}"


def source_of(rule: Any) -> str:
    """Return file, symbols and marks of a rule that was read from llama.cpp, "" if it has another source."""
    source = about(rule).source
    return f"{source.path} {source.where}" if source.project.endswith("/llama.cpp") and source.path else ""


def rules_of(profile: str) -> list[Item]:
    """Return the rules of a version, in the order of its table. Raise BadInput for an unknown version."""
    fields = registry.rules_of(profile).fields()
    return [Item(value.rule, name, places(source_of(value))) for name, value in fields.items() if callable(value)]


def others() -> list[Item]:
    """Return the items that are not rules: numbers by their field in the table, parts of the driver by a word."""
    data: Mapping[str, Mapping[str, str]] = tomllib.loads(OTHER.read_text("utf-8"))
    numbers = [Item(name, name, places(text)) for name, text in data["numbers"].items()]
    return numbers + [Item(name, "", places(text)) for name, text in data["driver"].items()]
