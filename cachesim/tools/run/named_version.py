"""Version of a server that a text names beside its command line, and the rule set for it.

A text is what people paste: a command line, a file that starts containers, with lines of an installation or of a log.
"""

from __future__ import annotations

import re
from typing import Iterator, NamedTuple

from cachesim.base.errors import BadInput
from cachesim.engines.build_names import resolve_name
from cachesim.engines.contract import Engine

_TAG = re.compile(r"(?:^|[-_])(?:v?(?P<version>\d+\.\d+[\w.]*)|b(?P<build>\d{2,9})$)")
_CHART = re.compile(r"^[ \t-]*repository:[ \t]*[\"']?([\w./-]+)[\"']?[ \t]*(?:#[^\n]*)?\n(?:[ \t]*pullPolicy:[^\n]*\n)?"
                    r"[ \t]*tag:[ \t]*[\"']?([\w.-]+)", re.MULTILINE)  # fmt: skip
_STATED = (
    r"(?<![\w./-])({})(?:\[[\w,-]*\])?(?:==|@)v?(\d+\.\d[\w.]*)",                # a package
    r"(?<![\w.-])({})-(\d+\.\d[\w.]*)(?:\+\w+)?-(?:cp|py)3",                       # its wheel
    r"\b(?:conda|mamba) install\b[^\n]*?\s({})=(\d+\.\d[\w.]*)",
    r"\b({})_(?:IMAGE_)?(?:VERSION|TAG)[ \t]*[=:][ \t]*[\"']?v?(\d+\.\d[\w.]*)",      # a variable
    r"\bgit clone\b[^\n]*?({})[^\0]{{0,400}}?(?:\bcheckout|\s--branch|\s-b)[ =]+(?:tags/)?v?(\d+\.\d[\w.]*)",
)
"""Patterns of the ways to state a version, with a place for the names of the server."""
_LOGGED = r"\b({})[\w ]{{0,40}}? version:? ?v?(\d+\.\d+[\w.]*)"
_SAID = r"(?<![\w./-])({})[ \t]+v?(\d+\.\d+\.\d+[\w.]*)"
_RANGE = r"(?<![\w./@-])({})(?:\[[\w,-]*\])?[ \t]*(?:~=|[<>!]=?)[ \t]*\d[\d.*]*(?:,[ \t]*[<>!~]=?[ \t]*\d[\d.*]*)*"
_NUMBERS = re.compile(r"\d+")
_WORD = re.compile(r"[\w./:@-]+")


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
    """Return the version of an engine's server that a text names first: by an installed package, a wheel, a variable, a
    checkout, a line of a log, the tag of an image, or in words. A tag without a version counts if nothing else names
    one. None without any."""
    names = "|".join(map(re.escape, dict.fromkeys((*engine.command_table.images, engine.recorded.name, engine.name))))
    for pattern in (*_STATED, _LOGGED):
        if found := re.search(pattern.format(names), text, re.IGNORECASE):
            return NamedVersion(_plain(found[2]), _in_one_line(found))
    tagged = [image for image in _images(text) if re.search(names, image.name, re.IGNORECASE)]
    for image in tagged:
        if (found := _TAG.search(image.tag)) and _is_release(found["version"], engine):
            return NamedVersion(_plain(found["version"] or f"b{found['build']}"), image.words)
    if found := re.search(_SAID.format(names), text, re.IGNORECASE):
        return NamedVersion(_plain(found[2]), found[0])
    if found := re.search(_RANGE.format(names), text, re.IGNORECASE):
        return NamedVersion("", found[0])
    return next((NamedVersion("", image.words) for image in tagged if not image.tag.isdigit()), None)


def _is_release(version: str | None, engine: Engine) -> bool:
    """True if a tag can be a version of this engine's server: builds are; a number that begins unlike all releases is
    another program's, or a date."""
    if version is None:
        return True
    begins = {numbers[0] for profile in engine.line if (numbers := _numbers(profile.partition("@")[2]))}
    return not begins or _numbers(version)[0] in begins


def _in_one_line(found: re.Match[str]) -> str:
    """Return the words that state a version; of several lines, the name and the version."""
    return found[0] if "\n" not in found[0] else f"{found[1]} {found[2]}"


class TaggedImage(NamedTuple):
    """An image of a container with its tag, and the words that name both."""

    name: str
    tag: str
    words: str


def _images(text: str) -> Iterator[TaggedImage]:
    """Yield the tagged images of a text: those in one word, then those that a chart names on two lines."""
    for word in _WORD.findall(text):
        name, _, tag = word.rpartition(":")
        if name and tag[:1].isalnum() and "/" not in tag:
            yield TaggedImage(name, tag, word)
    for found in _CHART.finditer(text):
        yield TaggedImage(found[1], found[2], f"{found[1]}:{found[2]}")


def _plain(version: str) -> str:
    """Return a version without the dot of a sentence, and without what a build adds to it."""
    return version.partition("+")[0].rstrip(".")


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
    differs = [says for release, says in engine.manual.before.items() if _numbers(named.version) < _numbers(release)]
    return ChosenRules(near, (line, *differs), is_nearest=True)


def nearest_release(engine: Engine, version: str) -> str:
    """Return the rule set of the main branch whose version is nearest: of the two neighbours in order the one that
    differs less. "" if none has a version with numbers."""
    wanted = _numbers(version)
    numbered = [(profile, _numbers(profile.partition("@")[2])) for profile in engine.line]
    known = sorted((numbers, profile) for profile, numbers in numbered if numbers)
    if not wanted or not known:
        return ""
    older = [one for one in known if one[0] <= wanted]
    newer = [one for one in known if one[0] > wanted]
    return min([*older[-1:], *newer[:1]], key=lambda one: _distance(one[0], wanted))[1]


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
