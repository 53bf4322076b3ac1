"""Table of the request fields written in braces, used to parse, check and write lines and files.

    A5>r2{n_cmpl=2 cancel_after=0 drafts=3:1,2:0 together+2}
"""

from __future__ import annotations

import re
from typing import Any, Callable, Iterable, Iterator, Mapping, NamedTuple

from cachesim.base.errors import BadInput, nearest, quoted
from cachesim.engines.capabilities import Field
from cachesim.engines.registry import ENGINES
from cachesim.scenarios.notation.tree import PLAIN, TASKS, LineRequest
from cachesim.scenarios.notation.value_checks import integer, integers, items, one_of, truth

_NUMBER = re.compile(r"-?[0-9]{1,10}")


class RequestFlag(NamedTuple):
    """Functions for a request field. ``check(name, value)`` validates a value from a file and raises BadInput; ``read``
    converts the text after ``=`` to such a value; ``write`` converts a value to that text."""

    check: Callable[[str, object], Any]
    read: Callable[[str], object]
    write: Callable[[Any], str] = str


def _from(low: int) -> Callable[[str, object], int]:
    return lambda name, value: integer(name, value, low)


def parse_value(text: str) -> object:
    """Return a text as an integer, True or False if it is written so, else unchanged."""
    if text in ("True", "False"):
        return text == "True"
    return int(text) if _NUMBER.fullmatch(text) else text


def _drafts(name: str, value: object) -> tuple[tuple[int, int], ...]:
    """Check a list of pairs [drafted, accepted] in tokens and return it. Raise BadInput."""
    drafts = []
    for entry in items(name, value):
        pair = integers(name, entry)
        if len(pair) != 2 or pair[1] > pair[0]:
            raise BadInput(f"{name}: {quoted(entry)} must be [drafted, accepted] with accepted <= drafted")
        drafts.append((pair[0], pair[1]))
    return tuple(drafts)


def _read_drafts(text: str) -> object:
    return [[parse_value(number) for number in pair.split(":")] for pair in text.split(",")]


def _write_drafts(drafts: tuple[tuple[int, int], ...]) -> str:
    return ",".join(f"{drafted}:{accepted}" for drafted, accepted in drafts)


FLAGS: Mapping[str, RequestFlag] = {
    "task": RequestFlag(lambda name, value: one_of(name, value, TASKS), str),
    "n_keep": RequestFlag(_from(-1), parse_value),
    "n_discard": RequestFlag(_from(-(2**31)), parse_value),
    "n_cache_reuse": RequestFlag(_from(0), parse_value),
    "n_cmpl": RequestFlag(_from(0), parse_value),
    "cancel_after": RequestFlag(_from(0), parse_value),
    "draft_else": RequestFlag(_from(0), parse_value),
    "seed": RequestFlag(truth, parse_value),
    "drafts": RequestFlag(_drafts, _read_drafts, _write_drafts),
    "together": RequestFlag(truth, parse_value),
    "after": RequestFlag(_from(0), parse_value),
}
"""All flags except those with words as values, in the order in which they are written."""


def check_flag(name: str, value: object) -> Any:
    """Return the checked value of a flag or of a field that an engine declares, as in the tree. Raise BadInput, for an
    unknown name with the nearest known name."""
    if name in FLAGS:
        return FLAGS[name].check(name, value)
    declared = declared_fields()
    if name not in declared:
        raise BadInput(f"unknown key {quoted(name)}", hint=nearest(name, (*FLAGS, *declared, "answers")))
    return declared[name].check(value)


def declared_fields() -> dict[str, Field]:
    """Return the request fields that engines declare, by name."""
    return {declared.name: declared for engine in ENGINES.values() for declared in engine.manual.fields}


def check_after(flags: Mapping[str, Any]) -> None:
    """Raise BadInput for ``after`` without ``together``."""
    if flags.get("after") and not flags.get("together"):
        raise BadInput("after counts from the previous request, so it needs together = true")


def given(step: LineRequest, names: Iterable[str] = FLAGS) -> Iterator[tuple[str, Any]]:
    """Yield name and value of the flags that differ from their defaults, in the order of ``names``."""
    for name in names:
        if getattr(step, name) != getattr(PLAIN, name):
            yield name, getattr(step, name)
    yield from step.extra
