"""A JSON value as text, piece by piece, each with its path: so that a place in the text is a place in the value.

The text is that of ``json.dumps(value, ensure_ascii=False)``, as chat templates write tools.
"""

from __future__ import annotations

import json
from typing import Any, Iterator


def spelled(value: Any, path: str) -> Iterator[tuple[str, str]]:
    """Pairs of path and text, whose texts joined are the JSON text. The inside of a string is a piece of its own."""
    if isinstance(value, dict):
        yield path, "{"
        for number, (key, one) in enumerate(value.items()):
            yield path, (", " if number else "") + json.dumps(key, ensure_ascii=False) + ": "
            yield from spelled(one, f"{path}.{key}")
        yield path, "}"
    elif isinstance(value, list):
        yield path, "["
        for number, one in enumerate(value):
            if number:
                yield path, ", "
            yield from spelled(one, f"{path}[{number}]")
        yield path, "]"
    elif isinstance(value, str):
        yield path, '"'
        yield path, json.dumps(value, ensure_ascii=False)[1:-1]
        yield path, '"'
    else:
        yield path, json.dumps(value)


def canonical(value: Any) -> str:
    """The same text for values that are equal but for the order of keys."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False)
