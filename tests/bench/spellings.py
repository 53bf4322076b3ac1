"""Spellings of rows for older commits: names of commands, options, scenarios and modules.

A spelling is chosen by what a checkout contains, not by its commit. The first entry of a list that fits is used; a row
without a fitting entry has no counterpart there.
"""

from __future__ import annotations

from pathlib import Path
from typing import Mapping, NamedTuple, TypeVar

Words = tuple[str, ...]
T = TypeVar("T")


class Sign(NamedTuple):
    """Sign of a spelling: a file of the checkout that matches ``glob`` and contains ``text``."""

    glob: str
    text: str = ""

    def holds(self, root: Path) -> bool:
        """True if the checkout has such a file."""
        files = (path for path in sorted(root.glob(self.glob)) if path.is_file())
        return any(not self.text or self.text in path.read_text("utf-8") for path in files)


LIMIT = Sign("cachesim/**/*.py", '"--limit"')
ENTRY_REMOVED = "llama-24143-entry-removed-hybrid"
WORDS: Mapping[str, tuple[tuple[Sign, Words], ...]] = {
    "{line}": (                                # requests in notation
        (Sign("cachesim/**/try_line.py"), ("try",)),
        (Sign("cachesim/__main__.py"), ("run",)),
    ),
    "{scenario}": (
        (Sign(f"scenarios/**/{ENTRY_REMOVED}.toml"), (ENTRY_REMOVED,)),
        (Sign("scenarios/**/seed-24143-hybrid.toml"), ("seed-24143-hybrid",)),
    ),
    "{many-tokens}": (                         # limits of a run, far above what a row needs
        (LIMIT, ("--limit", "tokens=10000000", "--limit", "judged=900000000", "--limit", "passes=10000000")),
        (Sign("cachesim/**/*.py"), ("--max-tokens", "10000000", "--max-judged", "900000000", "--max-passes",
                                    "10000000")),
    ),
}  # fmt: skip
"""Word of a row -> its spellings, newest first where both could fit."""

STEPS: Mapping[str, tuple[tuple[Sign, tuple[Words, ...]], ...]] = {
    "{advise-log}": (
        (Sign("cachesim/**/advise/command.py", "IMPORTS = True"), (("advise", "{llama-log}"),)),
        (Sign("cachesim/**/*.py"), (("import", "{llama-log}", "-o", "{out}/case.toml", "--force"),
                                    ("advise", "{out}/case.toml"))),
    ),
}  # fmt: skip
"""First word of a row whose work takes another number of commands in an older commit -> these commands."""

MODULES: Mapping[str, Words] = {
    "limits": ("cachesim.base.limits", "cachesim.limits"),
    "requests": ("cachesim.engines.base",),
    "registry": ("cachesim.engines.registry",),
    "events": ("cachesim.events",),
    "schema": ("cachesim.scenarios.schema",),
    "judged_run": ("cachesim.judging.judged_run", "cachesim.verdicts.judged_run"),
}
"""Name of a module in ``drivers`` -> its names in the package, newest first."""


class NoCounterpart(Exception):
    """A checkout lacks what a row needs."""


def find_modules(root: Path) -> dict[str, str]:
    """Return the names of the modules that drivers import from a checkout. Raise NoCounterpart if one is missing."""
    found = {}
    for name, spellings in MODULES.items():
        for spelling in spellings:
            path = root / spelling.replace(".", "/")
            if path.with_suffix(".py").is_file() or (path / "__init__.py").is_file():
                found[name] = spelling
                break
        else:
            raise NoCounterpart(f"no module {name}")
    return found


def spell(words: Words, root: Path, places: Mapping[str, str]) -> list[list[str]]:
    """Return the commands of a row for a checkout, each as words after ``python -m cachesim``. ``places``: paths of
    inputs by their names in braces. Raise NoCounterpart if the checkout has no spelling."""
    steps = _choose(STEPS[words[0]], root, words[0]) if words[:1] and words[0] in STEPS else (words,)
    commands = []
    for step in steps:
        spelled: list[str] = []
        for word in step:
            for part in _choose(WORDS[word], root, word) if word in WORDS else (word,):
                spelled += _filled(part, places)
        commands.append(spelled)
    return commands


def _choose(spellings: tuple[tuple[Sign, T], ...], root: Path, name: str) -> T:
    for sign, found in spellings:
        if sign.holds(root):
            return found
    raise NoCounterpart(f"no spelling of {name}")


def _filled(word: str, places: Mapping[str, str]) -> list[str]:
    """Return a word with its places filled in; a word that is a list of files becomes a word for each."""
    if word in places and "\n" in places[word]:
        return places[word].split("\n")
    for name, place in places.items():
        word = word.replace(name, place)
    return [word]
