"""Scenario files of suggestions: the changed conversation, where its command line would have to spell it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Sequence

from cachesim.base.errors import BadInput
from cachesim.base.files import make_folder, write_new
from cachesim.scenarios.schema import Scenario
from cachesim.scenarios.toml_writer import to_toml

LONGEST = 120                # characters of the name of a file
_NOT_IN_NAMES = re.compile(r"[^a-z0-9.@-]+")


class CaseFiles:
    """Files in a folder, one for each case that was named."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._cases: dict[Path, tuple[Scenario, str]] = {}

    def name(self, scenario: Scenario, profile: str, words: Sequence[str]) -> str:
        """Return the path of the file of a case, which ``write`` writes. ``words``: names of its changes."""
        parts = (_NOT_IN_NAMES.sub("-", word.lower()).strip("-") for word in words)
        file = self.folder / f"{'-'.join(parts)[:LONGEST] or 'unchanged'}.toml"
        self._cases[file] = (scenario, profile)
        return str(file)

    def write(self) -> None:
        """Write the files. Raise BadInput if one of them exists, and Unwritable."""
        for file, (scenario, profile) in self._cases.items():
            make_folder(file.parent)
            if not write_new(file, _text(scenario, profile, file.stem).encode()):
                raise BadInput("the file exists", file=str(file), hint="--out names another folder")


def _text(scenario: Scenario, profile: str, name: str) -> str:
    """Return the scenario file of a case."""
    head = {
        "id": re.sub(r"[^a-z0-9-]+", "-", name)[:80].strip("-"), "title": f"advice: {name}"[:120],
        "source": ["cachesim advise"], "why": f"A suggestion for {scenario.id}, as the search ran it.",
        "engine": scenario.engine, "model": scenario.model, "profiles": [profile],
    }  # fmt: skip
    return to_toml(head, scenario.server, scenario.words, [step.asked for step in scenario.steps])
