"""Is a value what it must be? The checks of single values, for files and for lines: what is wrong is told without a
place, which the caller knows."""

from __future__ import annotations

import re
from typing import Any, Sequence

from cachesim.base.errors import BadInput, cut, nearest, quoted
from cachesim.scenarios.notation.tree import Value

HIGHEST = 2**31 - 1                 # the servers' integers have 32 bits


def integer(name: str, value: object, low: int) -> int:
    """An integer from ``low`` on. Raises BadInput."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise BadInput(f"{cut(name)} must be an integer")
    if value < low:
        raise BadInput(f"{cut(name)} is {quoted(value)}, it must be at least {low}")
    if value > HIGHEST:
        raise BadInput(f"{cut(name)} is {quoted(value)}, it must be at most {HIGHEST}")
    return value


def truth(name: str, value: object) -> bool:
    """True or false. Raises BadInput."""
    if not isinstance(value, bool):
        raise BadInput(f"{cut(name)} must be true or false")
    return value


def text(name: str, value: object) -> str:
    """A string. Raises BadInput."""
    if not isinstance(value, str):
        raise BadInput(f"{cut(name)} must be a string")
    return value


def integers(name: str, value: object) -> tuple[int, ...]:
    """A list of integers from 0 on. Raises BadInput."""
    if not isinstance(value, list) or not all(type(one) is int and 0 <= one <= HIGHEST for one in value):
        raise BadInput(f"{cut(name)}: {quoted(value)} is not a list of non-negative integers")
    return tuple(value)


def items(name: str, value: object) -> list[Any]:
    """A list. Raises BadInput."""
    if not isinstance(value, list):
        raise BadInput(f"{cut(name)} must be a list")
    return value


def one_of(name: str, value: object, choices: Sequence[str]) -> str:
    """One of these words. Raises BadInput with the nearest."""
    if text(name, value) not in choices:
        raise BadInput(f"unknown {name} {quoted(value)}", hint=nearest(str(value), choices) or ", ".join(choices))
    return str(value)


def file_name(value: str) -> str:
    """The name of a slot's file. Raises BadInput."""
    if not re.fullmatch(r"[A-Za-z0-9_]{1,64}", value):
        raise BadInput(f"file {quoted(value)}: a name is made of letters, digits and underscores")
    return value


def literal(written: str) -> Value:
    """What a word on a command line stands for."""
    if written in ("true", "false", "True", "False"):
        return written in ("true", "True")
    for kind, form in ((int, r"-?[0-9]{1,18}"), (float, r"-?[0-9]*\.?[0-9]+")):
        if re.fullmatch(form, written):
            return kind(written)
    return written
