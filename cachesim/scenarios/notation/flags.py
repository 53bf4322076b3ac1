"""What stands in braces behind a request: everything that the notation has no sign for. One table for reading lines,
reading files, checking, and writing both.

    A5>r2{n_cmpl=2 cancel_after=0 drafts=3:1,2:0 together+2}
"""

from __future__ import annotations

import re
from typing import Any, Callable, Iterable, Iterator, Mapping, NamedTuple

from cachesim.base.errors import BadInput, nearest, quoted
from cachesim.engines.capabilities import Field
from cachesim.engines.registry import ENGINES
from cachesim.scenarios.notation.tree import PLAIN, TASKS, Asked
from cachesim.scenarios.notation.value_checks import integer, integers, items, one_of, truth

_NUMBER = re.compile(r"-?[0-9]{1,10}")


class RequestFlag(NamedTuple):
    """A field of a request. ``check`` takes its name and a value as a file has it, and raises BadInput; ``read`` makes
    such a value of the text behind ``=``, ``write`` that text."""

    check: Callable[[str, object], Any]
    read: Callable[[str], object]
    write: Callable[[Any], str] = str


def _from(low: int) -> Callable[[str, object], int]:
    return lambda name, value: integer(name, value, low)


def plain(text: str) -> object:
    """A number, True or False as a file would have it, else the text."""
    if text in ("True", "False"):
        return text == "True"
    return int(text) if _NUMBER.fullmatch(text) else text


def _drafts(name: str, value: object) -> tuple[tuple[int, int], ...]:
    """Pairs of tokens drafted and tokens accepted."""
    drafts = []
    for one in items(name, value):
        pair = integers(name, one)
        if len(pair) != 2 or pair[1] > pair[0]:
            raise BadInput(f"{name}: {quoted(one)} must be [drafted, accepted], not more accepted than drafted")
        drafts.append((pair[0], pair[1]))
    return tuple(drafts)


def _read_drafts(text: str) -> object:
    return [[plain(one) for one in pair.split(":")] for pair in text.split(",")]


def _write_drafts(drafts: tuple[tuple[int, int], ...]) -> str:
    return ",".join(f"{drafted}:{accepted}" for drafted, accepted in drafts)


FLAGS: Mapping[str, RequestFlag] = {
    "task": RequestFlag(lambda name, value: one_of(name, value, TASKS), str),
    "n_keep": RequestFlag(_from(-1), plain),
    "n_discard": RequestFlag(_from(0), plain),
    "n_cache_reuse": RequestFlag(_from(0), plain),
    "n_cmpl": RequestFlag(_from(0), plain),
    "cancel_after": RequestFlag(_from(0), plain),
    "draft_else": RequestFlag(_from(0), plain),
    "seed": RequestFlag(truth, plain),
    "drafts": RequestFlag(_drafts, _read_drafts, _write_drafts),
    "together": RequestFlag(truth, plain),
    "after": RequestFlag(_from(0), plain),
}
"""Every flag whose value is no text of words, in the order in which they are written."""


def check_flag(name: str, value: object) -> Any:
    """The value of a flag, or of a field that an engine declares, as the tree has it. Raises BadInput; for an unknown
    name with the nearest known one."""
    if name in FLAGS:
        return FLAGS[name].check(name, value)
    declared = declared_fields()
    if name not in declared:
        raise BadInput(f"unknown key {quoted(name)}", hint=nearest(name, (*FLAGS, *declared, "answers")))
    return declared[name].check(value)


def declared_fields() -> dict[str, Field]:
    """The fields of requests that engines declare, by name."""
    return {one.name: one for engine in ENGINES.values() for one in engine.manual.fields}


def check_after(flags: Mapping[str, Any]) -> None:
    """Raise BadInput if somebody waits for a request that he is not sent together with."""
    if flags.get("after") and not flags.get("together"):
        raise BadInput("after counts from the request before, so it needs together = true")


def given(step: Asked, names: Iterable[str] = FLAGS) -> Iterator[tuple[str, Any]]:
    """The flags of a request that are not the default, in this order, by default that of the table."""
    for name in names:
        if getattr(step, name) != getattr(PLAIN, name):
            yield name, getattr(step, name)
    yield from step.extra
