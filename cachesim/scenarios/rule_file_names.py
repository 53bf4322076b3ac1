"""Which files of rules does a scenario name, and what is said to somebody who runs it without them?

``rules = ["my_rules.py"]`` at the top says where profiles of the file are from that nobody else has, as a path from the
folder of the file. It is a word to the reader: nothing is run because a scenario names it.
"""

from __future__ import annotations

import os.path
from pathlib import Path
from typing import AbstractSet

from cachesim.base.errors import BadInput, cut, quoted
from cachesim.base.reading import FILE, kind
from cachesim.scenarios.schema import Scenario


def own_profiles(scenario: Scenario, known: AbstractSet[str]) -> tuple[str, ...]:
    """The profiles that a scenario names. Raises BadInput for one that only a file of rules could bring."""
    for name in scenario.profiles:
        if name not in known:
            raise _absent(scenario, name)
    return scenario.profiles


def _absent(scenario: Scenario, profile: str) -> BadInput:
    paths = [os.path.normpath(Path(scenario.file).parent / path) for path in scenario.rules]
    there = [path for path in paths if kind(path) == FILE]
    if not there:
        absent = cut(", ".join(paths))
        return BadInput(f"profile {quoted(profile)} is of {absent}, which is not there", file=scenario.file)
    cause = f"profile {quoted(profile)} is of {cut(' or '.join(there))}, Python that is run only where you ask for it"
    return BadInput(cause, file=scenario.file, hint=f"add -p {cut(there[0])}")
