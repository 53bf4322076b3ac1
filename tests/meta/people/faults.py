"""Faults of the kinds that people make, written by hand.

Those of ``core_faults.toml`` and ``tool_faults.toml`` were written before the tests were thinned out, without a look at
them; these lists stay as they are. ``survivors.toml`` has those that `make test` does not find. ``earlier_faults.toml``
has the faults that were planted before, and grows: a fault that the tests missed comes here.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import NamedTuple, Sequence

HERE = Path(__file__).parent
LISTS = ("core_faults.toml", "tool_faults.toml")
EARLIER = ("earlier_faults.toml",)


class PeopleFault(NamedTuple):
    """Replacement of a text that occurs once in a module. ``name`` says what a user sees, ``kind`` the mistake."""

    name: str
    kind: str
    file: str                    # below cachesim/
    old: str
    new: str


def people_faults(lists: Sequence[str] = LISTS) -> list[PeopleFault]:
    """Return the faults of some lists, in their order."""
    return [PeopleFault(**row) for name in lists for row in tomllib.loads((HERE / name).read_text("utf-8"))["fault"]]


def survivors() -> dict[str, str]:
    """Return the faults that `make test` does not find, each with what would have to be seen."""
    rows = tomllib.loads((HERE / "survivors.toml").read_text("utf-8")).get("survivor", [])
    return {row["name"]: row["why"] for row in rows}
