"""Planted fault in an engine."""

from __future__ import annotations

from typing import NamedTuple


class Fault(NamedTuple):
    """Replacement of a text that occurs once in the engine and the code shared by all engines."""

    name: str
    old: str
    new: str
    named: bool = False                      # listed in the issue that introduced planted faults
    engine: str = "llama_cpp"
    how: str = ""                            # mutation of a generated fault, "" = written by hand
    rule: tuple[str, str] = ("", "")         # function that contains it: (module, name)
    profiles: tuple[str, ...] = ()           # profiles to search, () = the default profiles
