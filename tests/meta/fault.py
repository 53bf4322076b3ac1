"""Planted fault in an engine."""

from __future__ import annotations

from typing import NamedTuple


class Fault(NamedTuple):
    """Replacement of a text that occurs once in the engine and the code shared by all engines."""

    name: str
    old: str
    new: str
    engine: str = "llama_cpp"
    profiles: tuple[str, ...] = ()           # profiles to search, () = the default profiles
