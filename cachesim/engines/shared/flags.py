"""Are these flags ones that a server knows, and of the right type?"""

from __future__ import annotations

from typing import Any, Mapping

from cachesim.base.errors import BadInput, nearest, quoted


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
