"""Faults of the kinds that people make, written by hand before the tests were thinned out. The list is not changed
afterwards; ``survivors.toml`` has those that `make test` does not find."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent
LISTS = ("core_faults.toml", "tool_faults.toml")


class PeopleFault(NamedTuple):
    """Replacement of a text that occurs once in a module. ``name`` says what a user sees, ``kind`` the mistake."""

    name: str
    kind: str
    file: str                    # below cachesim/
    old: str
    new: str


def people_faults() -> list[PeopleFault]:
    """Return all faults, in the order of the lists."""
    return [PeopleFault(**row) for name in LISTS for row in tomllib.loads((HERE / name).read_text("utf-8"))["fault"]]


def survivors() -> dict[str, str]:
    """Return the faults that `make test` does not find, each with what would have to be seen."""
    rows = tomllib.loads((HERE / "survivors.toml").read_text("utf-8")).get("survivor", [])
    return {row["name"]: row["why"] for row in rows}
