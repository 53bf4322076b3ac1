"""Computed numbers in the prose of a document. Each is between two comments, the first of which contains its
expression.

    A dense model reuses <!--= reused(1) -->9<!--/--> tokens.

The comments are invisible on a page and in a terminal. ``make docs`` renews the numbers, and a test compares them.
"""

from __future__ import annotations

import re
from typing import Any, Iterable, Mapping

FIELD = re.compile(r"<!--=\s*(?P<how>.+?)\s*-->(?P<value>.*?)<!--/-->", re.S)


def shown(value: Any) -> str:
    """Return a value as text: 1,234; 0.5; 8 and 10; "none" for an empty list."""
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "none"}[value]
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, Iterable) and not isinstance(value, str):
        *most, last = [shown(part) for part in value] or ["none"]
        return f"{', '.join(most)} and {last}" if most else last
    return str(value)


def computed(how: str, names: Mapping[str, Any]) -> str:
    """Return the text of a field. ``how`` is an expression from this repository's own documents."""
    return shown(eval(how, {"__builtins__": {}, **names}))


def with_fields(text: str, names: Mapping[str, Any]) -> str:
    """Return the text with current numbers."""
    return FIELD.sub(lambda m: f"<!--= {m['how']} -->{computed(m['how'], names)}<!--/-->", text)


def without_fields(text: str) -> str:
    """Return the text without its computed numbers."""
    return FIELD.sub("", text)
