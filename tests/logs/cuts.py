"""Excerpts of full logs, cut as people cut them: windows, greps, lost newlines, wrapped or prefixed lines, two servers.

An excerpt keeps, for each of its lines, the lines of the full logs that begin there and whether all of their text is
there. Everything follows from the number that the excerpt is drawn from.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Callable, Mapping, NamedTuple, Sequence

from cachesim.model.hash_mixing import Rng
from tests.logs.full_logs import FullLog, LoggedLine

WORDS = ("slot", "checkpoint", "n_past", "prompt", "cache")


class Origin(NamedTuple):
    """A line of a full log that begins at a line of an excerpt: number of the log, index of the line, and whether its
    message is complete."""

    log: int
    line: int
    whole: bool = True


@dataclass(slots=True)
class Excerpt:
    """An excerpt of one full log, or of two mixed ones."""

    cut: str
    logs: Sequence[FullLog]
    lines: list[str] = field(default_factory=list)
    origins: list[list[Origin]] = field(default_factory=list)  # one list for each line

    def source(self, origin: Origin) -> LoggedLine:
        """Return the line of the full log."""
        return self.logs[origin.log].lines[origin.line]

    def add(self, text: str, *origins: Origin) -> None:
        """Append a line."""
        self.lines.append(text)
        self.origins.append([*origins])

    def where(self, log: int, line: int) -> int:
        """Return the number, from 1, of the excerpt's line with all of this line's message; 0 if there is none."""
        wanted = Origin(log, line)
        return next((number for number, found in enumerate(self.origins, 1) if wanted in found), 0)


Cut = Callable[[Rng, Sequence[FullLog]], Excerpt]


def _window(rng: Rng, logs: Sequence[FullLog], name: str, most: int = 80) -> Excerpt:
    """Return consecutive lines of the first log."""
    lines = logs[0].lines
    size = min(len(lines), 10 + rng.below(most - 9))
    start = rng.below(len(lines) - size + 1)
    found = Excerpt(name, logs)
    for at in range(start, start + size):
        found.add(lines[at].text, Origin(0, at))
    return found


def window(rng: Rng, logs: Sequence[FullLog]) -> Excerpt:
    """A window of 10 to 80 lines."""
    return _window(rng, logs, "window")


def grep(rng: Rng, logs: Sequence[FullLog]) -> Excerpt:
    """All lines with one word, or only a part of them."""
    word = rng.one(WORDS)
    found = Excerpt(f"grep {word}", logs)
    for at, line in enumerate(logs[0].lines):
        if word in line.text.lower():
            found.add(line.text, Origin(0, at))
    if len(found.lines) > 20 and rng.chance(50):
        start = rng.below(len(found.lines) - 10)
        found.lines, found.origins = found.lines[start : start + 60], found.origins[start : start + 60]
    return found


def middle(rng: Rng, logs: Sequence[FullLog]) -> Excerpt:
    """From a line in the middle to the end."""
    lines = logs[0].lines
    start = rng.below(max(1, len(lines) * 2 // 3)) + len(lines) // 6
    found = Excerpt("middle", logs)
    for at in range(min(start, len(lines) - 1), len(lines)):
        found.add(lines[at].text, Origin(0, at))
    return found


def joined(rng: Rng, logs: Sequence[FullLog]) -> Excerpt:
    """A window in which some newlines are lost."""
    plain = _window(rng, logs, "joined")
    found = Excerpt("joined", logs)
    glue = rng.one(("", " "))
    for text, origins in zip(plain.lines, plain.origins, strict=True):
        if found.lines and rng.chance(15) and found.source(found.origins[-1][-1]).ev and found.source(origins[0]).ev:
            found.lines[-1] += glue + text
            found.origins[-1] += origins
        else:
            found.add(text, *origins)
    return found


def wrapped(rng: Rng, logs: Sequence[FullLog]) -> Excerpt:
    """Lines wrapped at 80 or 120 columns, from which a window of the screen was copied."""
    width = rng.one((80, 120))
    plain, found = _window(rng, logs, f"wrapped {width}"), Excerpt(f"wrapped {width}", logs)
    for text, (origin,) in zip(plain.lines, plain.origins, strict=True):
        pieces = [text[at : at + width] for at in range(0, max(1, len(text)), width)]
        for number, piece in enumerate(pieces):
            found.add(piece, *([origin] if not number else []))
    if rng.chance(30):  # the copy ends within a line
        size = len(found.lines) - rng.below(min(4, len(found.lines)))
        cut = any(True for _ in found.origins[size : size + 1] if not found.origins[size])
        found.lines, found.origins = found.lines[:size], found.origins[:size]
        last = next((at for at in range(size - 1, -1, -1) if found.origins[at]), 0)
        if cut and found.origins[last]:
            found.origins[last] = [found.origins[last][-1]._replace(whole=False)]
    return found


_STAMP = re.compile(r"^(?:\[\d+\] )?(?:\d+\.\d\d\.\d{3}\.\d{3} )?(?:[IWED] (?=[a-z ]))?")
_WHO = re.compile(r"^(?:slot|srv) +\S+: (?:id +\d+ \| task -?\d+ \| )?")
_COLOURS = ("[32m", "[0m", "[33m")


def stripped(rng: Rng, logs: Sequence[FullLog]) -> Excerpt:
    """A window whose lines lost the time stamp, or everything before the message."""
    plain, found = _window(rng, logs, "stripped"), Excerpt("stripped", logs)
    everything = rng.chance(30)
    for text, origins in zip(plain.lines, plain.origins, strict=True):
        text = _STAMP.sub("", text)
        found.add(_WHO.sub("", text) if everything else text, *origins)
    return found


def coloured(rng: Rng, logs: Sequence[FullLog]) -> Excerpt:
    """A window with colour codes, which may have lost their escape character."""
    escape = rng.one(("\x1b", "", "^["))
    plain, found = _window(rng, logs, "coloured"), Excerpt("coloured", logs)
    for text, origins in zip(plain.lines, plain.origins, strict=True):
        found.add(f"{escape}[{rng.one((32, 33, 35))}m{text}{escape}[0m", *origins)
    return found


PREFIXES: Sequence[tuple[str, str]] = (
    ("journald", "Nov 22 20:10:{second:02} corrm-pc llama-server[37450]: "),
    ("compose", "llama-1  | "),
    ("docker", "2026-11-22T20:10:{second:02}.123456789Z "),
    ("kubernetes", "2026-11-22T20:10:{second:02}.123456789Z stdout F "),
)


def prefixed(rng: Rng, logs: Sequence[FullLog]) -> Excerpt:
    """A window behind the prefix of a container or of the journal."""
    name, prefix = rng.one(PREFIXES)
    plain, found = _window(rng, logs, name), Excerpt(name, logs)
    for number, (text, origins) in enumerate(zip(plain.lines, plain.origins, strict=True)):
        found.add(prefix.format(second=min(59, number)) + text, *origins)
    return found


def mixed(rng: Rng, logs: Sequence[FullLog]) -> Excerpt:
    """Blocks of two servers' logs in turn."""
    found, at = Excerpt("mixed", logs), [0, 0]
    at = [rng.below(max(1, len(log.lines) // 2)) for log in logs[:2]]
    for turn in range(2 + rng.below(5)):
        which = turn % 2
        stop = min(len(logs[which].lines), at[which] + 3 + rng.below(14))
        for line in range(at[which], stop):
            found.add(logs[which].lines[line].text, Origin(which, line))
        at[which] = stop
    return found


def whole(rng: Rng, logs: Sequence[FullLog]) -> Excerpt:
    """The full log."""
    found = Excerpt("whole", logs)
    for at, line in enumerate(logs[0].lines):
        found.add(line.text, Origin(0, at))
    return found


CUTS: Mapping[str, Cut] = {
    "window": window, "grep": grep, "middle": middle, "joined": joined, "wrapped": wrapped, "stripped": stripped,
    "coloured": coloured, "prefixed": prefixed, "mixed": mixed, "whole": whole,
}  # fmt: skip
