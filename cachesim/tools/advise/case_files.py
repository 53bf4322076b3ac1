"""Scenario files of suggestions: the changed conversation, where its command line would have to spell it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Iterator

from cachesim.base.errors import BadInput
from cachesim.base.files import write_new
from cachesim.scenarios.toml_writer import to_toml

if TYPE_CHECKING:
    from cachesim.tools.advise.setup_changes import SetupChange, Trial

LONGEST = 120                # characters of the name of a file
_OTHER = re.compile(r"[^a-z0-9.@-]+")


class CaseFiles:
    """Files in a folder, one for each trial that was named."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._trials: dict[Path, Trial] = {}

    def name(self, trial: Trial) -> str:
        """Return the path of the file of a trial, which ``write`` writes."""
        words = (_OTHER.sub("-", word.lower()).strip("-") for change in trial.changes for word in _words(change))
        file = self.folder / f"{'-'.join(words)[:LONGEST] or 'unchanged'}.toml"
        self._trials[file] = trial
        return str(file)

    def write(self) -> None:
        """Write the files. Raise BadInput if one of them exists, and Unwritable."""
        for file, trial in self._trials.items():
            file.parent.mkdir(parents=True, exist_ok=True)
            if not write_new(file, _text(trial, file.stem).encode()):
                raise BadInput("the file exists", file=str(file), hint="--out names another folder")


def _words(change: SetupChange) -> Iterator[str]:
    """Yield the words that name a change in a file name."""
    if change.client is not None:
        yield change.client.name
    yield from (f"{name}-{value}" for name, value in change.options.items())
    if change.profile:
        yield change.profile


def _text(trial: Trial, name: str) -> str:
    """Return the scenario file of a trial."""
    scenario, profile = trial.case.scenario, trial.case.profile
    head = {
        "id": re.sub(r"[^a-z0-9-]+", "-", name)[:80].strip("-"), "title": f"advice: {name}"[:120],
        "source": ["cachesim advise"], "why": f"A suggestion for {scenario.id}, as the search ran it.",
        "engine": scenario.engine, "model": scenario.model, "profiles": [profile],
    }  # fmt: skip
    return to_toml(head, scenario.server, scenario.words, [step.asked for step in scenario.steps])
