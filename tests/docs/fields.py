"""Numbers in the prose of a document: each stands between two comments, of which the first says how it is computed.

    A dense model reuses <!--= reused(1) -->9<!--/--> tokens.

On a page and in a terminal the comments are not seen. ``make docs`` renews the numbers, and a test compares them.
"""

from __future__ import annotations

import re
from typing import Any, Iterable, Mapping

FIELD = re.compile(r"<!--=\s*(?P<how>.+?)\s*-->(?P<value>.*?)<!--/-->", re.S)


def shown(value: Any) -> str:
    """A value as prose has it: 1,234; 0.5; 8 and 10; "none" for an empty list."""
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "none"}[value]
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, Iterable) and not isinstance(value, str):
        *most, last = [shown(one) for one in value] or ["none"]
        return f"{', '.join(most)} and {last}" if most else last
    return str(value)


def computed(how: str, names: Mapping[str, Any]) -> str:
    """What a field has to say. ``how`` is an expression in our own documents."""
    return shown(eval(how, {"__builtins__": {}, **names}))


def with_fields(text: str, names: Mapping[str, Any]) -> str:
    """The text with the numbers of today."""
    return FIELD.sub(lambda m: f"<!--= {m['how']} -->{computed(m['how'], names)}<!--/-->", text)


def without_fields(text: str) -> str:
    """The text with nothing in place of its computed numbers."""
    return FIELD.sub("", text)
