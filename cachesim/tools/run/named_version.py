"""Version of a server that a text names beside its command line, and the rule set for it.

A text is what people paste: a command line, a file that starts containers, with lines of an installation or of a log.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from cachesim.base.errors import BadInput
from cachesim.engines.build_names import resolve_name
from cachesim.engines.contract import Engine

_TAG = re.compile(r"(?:^|[-_])(?:v?(?P<version>\d+\.\d+[\w.]*)|b(?P<build>\d{2,9})$)")
_CHART = re.compile(r"^[ \t-]*repository:[ \t]*[\"']?([\w./-]+)[\"']?[ \t]*(?:#[^\n]*)?\n(?:[ \t]*pullPolicy:[^\n]*\n)?"
                    r"[ \t]*tag:[ \t]*[\"']?([\w.-]+)", re.MULTILINE)  # fmt: skip
_NUMBERS = re.compile(r"\d+")


class NamedVersion(NamedTuple):
    """A version as a rule set writes it ("" = the tag of an image that names none), and the words that name it."""

    version: str
    words: str


class ChosenRules(NamedTuple):
    """The rule set for a version, and lines about the choice. ``is_nearest``: the version itself has no rule set."""

    profile: str
    notes: tuple[str, ...]
    is_nearest: bool = False


def named_version(text: str, engine: Engine) -> NamedVersion | None:
    """Return the version of an engine's server that a text names first: by an installed package, by the tag of an
    image, or by a line of a log. A tag without a version counts if nothing else names one. None without any."""
    names = "|".join(map(re.escape, dict.fromkeys((*engine.command_table.images, engine.recorded.name, engine.name))))
    package = re.compile(rf"(?<![\w./-])({names})(?:\[[\w,-]*\])?(?:==|@)v?(\d+\.\d[\w.]*)", re.IGNORECASE)
    log = re.compile(rf"\b({names})[\w ]*? version:? ?v?(\d+\.\d+[\w.]*)", re.IGNORECASE)
    for pattern in (package, log):
        if found := pattern.search(text):
            return NamedVersion(_plain(found[2]), found[0])
    image = re.compile(rf"(?<![\w.-])(?:[\w.-]+(?::\d+)?/)*[\w.-]*(?:{names})[\w./-]*:(\w[\w.-]*)", re.IGNORECASE)
    tagged = [*image.finditer(text), *(found for found in _CHART.finditer(text) if re.search(names, found[1], re.I))]
    tags = [(found[found.lastindex or 1], found[0]) for found in tagged]
    for tag, words in tags:
        if found := _TAG.search(tag):
            return NamedVersion(_plain(found["version"] or f"b{found['build']}"), _one_line(words))
    return next((NamedVersion("", _one_line(words)) for tag, words in tags if not tag.isdigit()), None)


def _plain(version: str) -> str:
    """Return a version without the dot of a sentence, and without what a build adds to it."""
    return version.partition("+")[0].rstrip(".")


def _one_line(words: str) -> str:
    return ":".join(re.findall(r"(?:repository|tag):[ \t]*[\"']?([\w./-]+)", words)) or words


def rules_for(engine: Engine, named: NamedVersion) -> ChosenRules | None:
    """Return the rule set for a version; without one of its own, the nearest one. None if no rule set has a version."""
    full = f"{engine.name}@{named.version}"
    if full in engine.profiles:
        return ChosenRules(full, (f"{named.words}: {full}",))
    try:
        found = resolve_name(full)
    except BadInput:
        found = None
    if found is not None:
        return ChosenRules(found.profile, (f"{named.words}: {found.note}", *found.unknown))
    near = nearest_release(engine, named.version)
    if not near:
        return None
    line = f"{named.words}: {engine.name} {named.version} has no rule set: {near}, the nearest one, is assumed"
    return ChosenRules(near, (line,), is_nearest=True)


def nearest_release(engine: Engine, version: str) -> str:
    """Return the rule set of the main branch whose version is nearest, "" if none has a version with numbers."""
    wanted = _numbers(version)
    numbered = [(profile, _numbers(profile.partition("@")[2])) for profile in engine.line]
    known = [(profile, numbers) for profile, numbers in numbered if numbers]
    if not wanted or not known:
        return ""
    return min(known, key=lambda one: _distance(one[1], wanted))[0]


def _numbers(version: str) -> tuple[int, ...]:
    """Return the numbers of a version, at most three: the others count corrections of the same release."""
    return tuple(map(int, _NUMBERS.findall(version)[:3]))


def _distance(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    """Return the differences of two versions, the most significant first."""
    length = max(len(a), len(b))
    return tuple(abs(x - y) for x, y in zip(_padded(a, length), _padded(b, length), strict=True))


def _padded(numbers: tuple[int, ...], length: int) -> tuple[int, ...]:
    return numbers + (0,) * (length - len(numbers))


__all__ = ["ChosenRules", "NamedVersion", "named_version", "rules_for"]
