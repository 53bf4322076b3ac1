"""Checks of single values, for files and lines in notation. Errors have no place; the caller adds it."""

from __future__ import annotations

import re
from typing import Any, Sequence

from cachesim.base.errors import BadInput, cut, nearest, quoted
from cachesim.scenarios.notation.tree import Value

HIGHEST = 2**31 - 1                 # the servers use 32-bit integers


def integer(name: str, value: object, low: int) -> int:
    """Check an integer from ``low`` to 2**31 - 1 and return it. Raise BadInput."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise BadInput(f"{cut(name)} must be an integer")
    if value < low:
        raise BadInput(f"{cut(name)} is {quoted(value)}, it must be at least {low}")
    if value > HIGHEST:
        raise BadInput(f"{cut(name)} is {quoted(value)}, it must be at most {HIGHEST}")
    return value


def truth(name: str, value: object) -> bool:
    """Check a truth value and return it. Raise BadInput."""
    if not isinstance(value, bool):
        raise BadInput(f"{cut(name)} must be true or false")
    return value


def text(name: str, value: object) -> str:
    """Check a string and return it. Raise BadInput."""
    if not isinstance(value, str):
        raise BadInput(f"{cut(name)} must be a string")
    return value


def integers(name: str, value: object) -> tuple[int, ...]:
    """Check a list of integers from 0 to 2**31 - 1 and return it. Raise BadInput."""
    if not isinstance(value, list) or not all(type(entry) is int and 0 <= entry <= HIGHEST for entry in value):
        raise BadInput(f"{cut(name)}: {quoted(value)} is not a list of non-negative integers")
    return tuple(value)


def items(name: str, value: object) -> list[Any]:
    """Check a list and return it. Raise BadInput."""
    if not isinstance(value, list):
        raise BadInput(f"{cut(name)} must be a list")
    return value


def one_of(name: str, value: object, choices: Sequence[str]) -> str:
    """Check that a word is in ``choices`` and return it. Raise BadInput with the nearest choice."""
    if text(name, value) not in choices:
        raise BadInput(f"unknown {name} {quoted(value)}", hint=nearest(str(value), choices) or ", ".join(choices))
    return str(value)


def file_name(value: str) -> str:
    """Check the name of a slot file and return it. Raise BadInput."""
    if not re.fullmatch(r"[A-Za-z0-9_]{1,64}", value):
        raise BadInput(f"file {quoted(value)}: expected 1 to 64 letters, digits and underscores")
    return value


def share(value: object) -> int:
    """Check a share of a file from 0 to 100 percent and return it. Raise BadInput."""
    if integer("percent", value, 0) > 100:
        raise BadInput(f"percent is {quoted(value)}, it must be at most 100")
    return int(str(value))


def literal(written: str) -> Value:
    """Return the value of a word on a command line: a truth value, an integer, a float, or the word itself."""
    if written in ("true", "false", "True", "False"):
        return written in ("true", "True")
    for kind, form in ((int, r"-?[0-9]{1,18}"), (float, r"-?[0-9]*\.?[0-9]+")):
        if re.fullmatch(form, written):
            return kind(written)
    return written
