"""Where does output go? Results to stdout, complaints to stderr; JSON always with its schema number."""

from __future__ import annotations

import json
import sys
from typing import Any, Mapping

SCHEMA = 1


def say(text: str) -> None:
    """A result, on stdout."""
    print(text)


def say_json(data: Mapping[str, Any]) -> None:
    """A result as JSON, on stdout."""
    print(json.dumps({"schema": SCHEMA, **data}))


def complain(text: str) -> None:
    """One line on stderr, whatever the text holds."""
    line = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    print(f"cachesim: {line}", file=sys.stderr)
