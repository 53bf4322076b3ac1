"""Bundled scenarios, in the checkout or in the installed package, and file arguments that may be scenario ids.

``rules = ["my_rules.py"]`` at the top of a scenario names the files that define its profiles, relative to its folder.
It only informs the reader: cachesim never executes a file because a scenario names it.
"""

from __future__ import annotations

import os
import re
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import AbstractSet, Mapping

from cachesim.base.errors import BadInput, Crash, cut, nearest, quoted
from cachesim.base.untrusted_files import FILE, kind, path_of
from cachesim.scenarios.load import inside, neighbour
from cachesim.scenarios.schema import Scenario


def own_profiles(scenario: Scenario, known: AbstractSet[str]) -> tuple[str, ...]:
    """Return the profiles that a scenario names. Raise BadInput for a profile that only a file of rules defines."""
    absent = next((name for name in scenario.profiles if name not in known), None)
    if absent is None:
        return scenario.profiles
    paths = [os.path.normpath(Path(scenario.file).parent / path) for path in scenario.rules]
    there = [path for path in paths if kind(path) == FILE]
    cause, hint = f"{cut(', '.join(paths))}, which does not exist", ""
    if there:
        cause = f"{cut(' or '.join(there))}, Python code that runs only on request"
        hint = f"add -p {cut(there[0])}"
    raise BadInput(f"profile {quoted(absent)} is of {cause}", file=scenario.file, hint=hint)


SHOWN_IN = "SHOWN_IN.txt"    # lines "RULE: id id": the scenarios that show a rule
_ID = re.compile("[a-z0-9]+(-[a-z0-9]+)+")


def corpus_root() -> Path:
    """Return the folder of the bundled scenarios. The checkout comes first: an editable install has no packed copy."""
    checkout = Path(__file__).resolve().parents[2]
    if (checkout / "pyproject.toml").is_file() and (checkout / "scenarios").is_dir():
        return checkout / "scenarios"
    spec = find_spec("cachesim._corpus")
    places = list(spec.submodule_search_locations or []) if spec else []
    if not places:
        raise Crash("the corpus of scenarios is missing from the installed package")
    return Path(places[0])


def corpus_files() -> dict[str, Path]:
    """Return the files of the bundled scenarios by scenario id (the file name without its ending)."""
    return dict(_files_below(corpus_root()))


@cache
def _files_below(root: Path) -> dict[str, Path]:
    """Return the scenario files of a folder by scenario id. Bundled files do not change while a process runs."""
    return {file.stem: file for file in inside(root)}


def shown_in() -> Mapping[str, tuple[str, ...]]:
    """Return the ids of the scenarios that show each rule, best first, by rule id."""
    return _shown_below(corpus_root())


@cache
def _shown_below(root: Path) -> Mapping[str, tuple[str, ...]]:
    """Return the table of a folder of scenarios. Bundled files do not change while a process runs."""
    lines = (root / SHOWN_IN).read_text("utf-8").splitlines()
    return {rule: tuple(ids.split()) for rule, _, ids in (line.partition(": ") for line in lines)}


def named(text: str) -> Path:
    """Return the path of an argument: a file, a folder, or the id of a scenario if no such path exists.

    Other missing paths are returned too; reading them raises. Raise BadInput for an unknown id and for "".
    """
    if os.path.exists(text) or not could_be_id(text):          # never raises, however long the name
        return path_of(text)
    file = f"{text}.toml"
    for folder, _, names in os.walk(corpus_root()):
        if file in names:
            return Path(folder, file)
    hint = nearest(text, corpus_files()) or neighbour(Path(text)) or "see cachesim scenarios"
    raise BadInput("not a file, a scenario id or a line of requests", file=text, hint=hint)


def could_be_id(text: str) -> bool:
    """True if a text has the form of a scenario id. Requests in notation never have this form."""
    return _ID.fullmatch(text) is not None


def is_file(text: str) -> bool:
    """True if an argument is a file, a folder or a scenario id; False for requests in notation."""
    return text.endswith(".toml") or os.path.exists(text) or could_be_id(text)
