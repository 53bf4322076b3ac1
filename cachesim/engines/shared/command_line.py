"""What does the command line of a recorded server set? The form in which every engine's reader says it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Mapping

from cachesim.base.errors import BadInput, nearest, quoted

_WHOLE = re.compile(r"[+-]?[0-9]{1,10}")
_SHARE = re.compile(r"[+-]?(?:[0-9]{1,20}(?:\.[0-9]{0,30})?|\.[0-9]{1,30})(?:[eE][+-]?[0-9]{1,2})?")


@dataclass(slots=True)
class CommandLine:
    """``options`` of the server by name; ``request`` defaults of request fields; whether the server ``sleeps`` when it
    has been idle for some time."""

    options: dict[str, Any] = field(default_factory=dict)
    request: dict[str, Any] = field(default_factory=dict)
    sleeps: bool = False

    @property
    def drafts_by_model(self) -> bool:
        """Do drafts come from a model, and not from what was said before?"""
        return str(self.options.get("spec_type", "none")).startswith("draft-")


def whole(text: str) -> int:
    """The number that a flag's value is: 32 bits, as the servers read it. Raises BadInput."""
    if not _WHOLE.fullmatch(text) or not -(2**31) <= int(text) < 2**31:
        raise BadInput(f"{quoted(text)} is no integer of 32 bits")
    return int(text)


def share(text: str) -> float:
    """The finite number that a flag's value is. Raises BadInput."""
    if not _SHARE.fullmatch(text):
        raise BadInput(f"{quoted(text)} is no number")
    return float(text)


# Are these flags ones that a server knows, and of the right type?

def check_flags(flags: Mapping[str, Any], known: Mapping[str, Any]) -> None:
    """Raise BadInput for an unknown name or a value of the wrong type. ``known`` has the defaults, whose types count;
    an integer passes for a number, a truth value for neither."""
    for name, value in flags.items():
        if name not in known:
            raise BadInput(f"unknown server flag {quoted(name)}", hint=nearest(name, known))
        want = type(known[name])
        good = isinstance(value, want) and (want is bool or not isinstance(value, bool))
        if not good and not (want is float and type(value) is int):
            raise BadInput(f"server flag {quoted(name)} wants {want.__name__}, not {quoted(value)}")
