"""Where are the scenarios that come with cachesim? In the checkout, or inside the installed package."""

from __future__ import annotations

import os.path
import re
from importlib.util import find_spec
from pathlib import Path
from typing import AbstractSet

from cachesim.base.errors import BadInput, Crash, cut, nearest, quoted
from cachesim.base.untrusted_files import FILE, kind, path_of
from cachesim.scenarios.load import find, neighbour
from cachesim.scenarios.schema import Scenario

# Which files of rules does a scenario name, and what is said to somebody who runs it without them?
#
# ``rules = ["my_rules.py"]`` at the top says where profiles of the file are from that nobody else has, as a path from
# the folder of the file. It is a word to the reader: nothing is run because a scenario names it.

def own_profiles(scenario: Scenario, known: AbstractSet[str]) -> tuple[str, ...]:
    """The profiles that a scenario names. Raises BadInput for one that only a file of rules could bring."""
    absent = next((name for name in scenario.profiles if name not in known), None)
    if absent is None:
        return scenario.profiles
    paths = [os.path.normpath(Path(scenario.file).parent / path) for path in scenario.rules]
    there = [path for path in paths if kind(path) == FILE]
    cause, hint = f"{cut(', '.join(paths))}, which is not there", ""
    if there:
        cause = f"{cut(' or '.join(there))}, Python that is run only where you ask for it"
        hint = f"add -p {cut(there[0])}"
    raise BadInput(f"profile {quoted(absent)} is of {cause}", file=scenario.file, hint=hint)


SHOWN_IN = "SHOWN_IN.txt"    # by which scenarios a rule is shown: "RULE: id id" in each line
_ID = re.compile("[a-z0-9]+(-[a-z0-9]+)+")


def corpus_root() -> Path:
    """The folder of the corpus. The checkout comes first, since an editable install has no packed copy."""
    checkout = Path(__file__).resolve().parents[2]
    if (checkout / "pyproject.toml").is_file() and (checkout / "scenarios").is_dir():
        return checkout / "scenarios"
    spec = find_spec("cachesim._corpus")
    places = list(spec.submodule_search_locations or []) if spec else []
    if not places:
        raise Crash("the corpus of scenarios is missing from the installed package")
    return Path(places[0])


def corpus_files() -> dict[str, Path]:
    """The files of the corpus by the id of their scenario, which is the name of the file."""
    return {file.stem: file for file in find([corpus_root()])}


def shown_in() -> dict[str, list[str]]:
    """Scenarios that show a rule, by the rule's id; the best ones first."""
    lines = (corpus_root() / SHOWN_IN).read_text("utf-8").splitlines()
    return {rule: ids.split() for rule, _, ids in (line.partition(": ") for line in lines)}


def named(text: str) -> Path:
    """The file or folder that an argument means: a path, or the id of a scenario where no such path exists.

    Other paths that do not exist are returned, for the reader to refuse. Raises BadInput for an id that nothing has,
    and for an empty text.
    """
    if os.path.exists(text) or not could_be_id(text):          # never raises, however long the name
        return path_of(text)
    files = corpus_files()
    if text not in files:
        hint = nearest(text, files) or neighbour(Path(text)) or "see cachesim scenarios"
        raise BadInput("no such file, and no scenario of this id", file=text, hint=hint)
    return files[text]


def could_be_id(text: str) -> bool:
    """Has a text the form of an id? Requests in one line never have it."""
    return _ID.fullmatch(text) is not None


def is_file(text: str) -> bool:
    """Does an argument mean a file, a folder or a scenario's id, and not requests in one line?"""
    return text.endswith(".toml") or os.path.exists(text) or could_be_id(text)
