"""Excerpts of recorded logs as people cut them: one kind of line, the end, one request, prefixes, spoilt lines.

Everything follows from the log and the number of the cut.
"""

from __future__ import annotations

import re
from typing import Callable, Mapping, Sequence

from cachesim.model.hash_mixing import Rng
from tests.logs.cuts import PREFIXES
from tests.logs.slow_logs.recorded_log import RecordedLog

KINDS = ("slot", "print_timing", "prompt eval time", "stop processing", "selected slot", "checkpoint", "n_tokens",
         "prompt processing", "get_availabl", "cached n_tokens", "task", "similarity")  # fmt: skip
"""Words that people search for."""
FEWEST, MOST = 20, 200          # lines of an end
PASTED = 120                    # lines that are pasted at most behind a prefix, with colours or with Windows line ends
AROUND = 3                      # lines before and after a request
COLOURS = (32, 33, 35, 36)
JOURNALD = re.compile(r"^\w{3} \d\d \d\d:\d\d:\d\d \S+ \S+\[\d+\]: ")

PeopleCut = Callable[[Rng, RecordedLog], list[str]]


def _bare(log: RecordedLog) -> list[str]:
    """Return the lines without the prefix of journald that a recording may have."""
    return [JOURNALD.sub("", line) for line in log.lines]


def one_kind(rng: Rng, log: RecordedLog) -> list[str]:
    """All lines with one word."""
    words = [word for word in KINDS if any(word in line for line in log.lines)]
    word = rng.one(words)
    return [line for line in log.lines if word in line]


def last_lines(rng: Rng, log: RecordedLog) -> list[str]:
    """The last lines."""
    return list(log.lines[-rng.between(FEWEST, MOST) :])


def one_request(rng: Rng, log: RecordedLog) -> list[str]:
    """The surroundings of a request."""
    return _around(log.lines, rng.one(list(log.requests)), rng.below(AROUND + 1))


def _around(lines: Sequence[str], task: int, more: int) -> list[str]:
    name = re.compile(rf"\btask +{task} \|")
    places = [at for at, line in enumerate(lines) if name.search(line)]
    return list(lines[max(0, places[0] - more - 1) : places[-1] + more + 1])


def _window(rng: Rng, lines: Sequence[str]) -> list[str]:
    """Return consecutive lines from the second half of a log, or its end."""
    size = rng.between(FEWEST, PASTED)
    start = max(0, min(len(lines) - size, len(lines) // 3 + rng.below(max(1, len(lines) // 2))))
    return list(lines[start : start + size])


def journald(rng: Rng, log: RecordedLog) -> list[str]:
    """A window behind the prefix of the journal."""
    return _prefixed(rng, log, dict(PREFIXES)["journald"])


def docker(rng: Rng, log: RecordedLog) -> list[str]:
    """A window behind the prefix of docker or compose."""
    return _prefixed(rng, log, dict(PREFIXES)[rng.one(("docker", "compose"))])


def _prefixed(rng: Rng, log: RecordedLog, prefix: str) -> list[str]:
    lines = _window(rng, _bare(log))
    return [prefix.format(second=min(59, number)) + line for number, line in enumerate(lines)]


def cut_lines(rng: Rng, log: RecordedLog) -> list[str]:
    """A window of a narrow terminal, which shows only the beginning of each line."""
    width = rng.one((80, 100, 120))
    return [line[:width] for line in _window(rng, log.lines)]


def torn_end(rng: Rng, log: RecordedLog) -> list[str]:
    """A window that begins and ends within a line."""
    lines = _window(rng, log.lines)
    lines[0] = lines[0][rng.below(len(lines[0]) + 1) :]
    lines[-1] = lines[-1][: rng.below(len(lines[-1]) + 1)]
    return lines


def windows_ends(rng: Rng, log: RecordedLog) -> list[str]:
    """A window with Windows line ends."""
    return [f"{line}\r" for line in _window(rng, log.lines)]


def coloured(rng: Rng, log: RecordedLog) -> list[str]:
    """A window with colour codes, which may have lost their escape character."""
    escape = rng.one(("\x1b", ""))
    return [f"{escape}[{rng.one(COLOURS)}m{line}{escape}[0m" for line in _window(rng, log.lines)]


PEOPLE_CUTS: Mapping[str, PeopleCut] = {
    "one kind": one_kind, "last lines": last_lines, "one request": one_request, "journald": journald,
    "docker": docker, "cut lines": cut_lines, "torn end": torn_end, "windows": windows_ends, "coloured": coloured,
}  # fmt: skip
ALWAYS = ("one kind", "last lines", "one request")


def people_cuts(log: RecordedLog, number: int) -> list[tuple[str, list[str]]]:
    """Return so many excerpts of a log with the names of their cuts; the first three are of one kind each."""
    rng = Rng(57, log.name)
    others = [name for name in PEOPLE_CUTS if name not in ALWAYS]
    names = [*ALWAYS, *(rng.one(others) for _ in range(max(0, number - len(ALWAYS))))][:number]
    return [(name, PEOPLE_CUTS[name](rng, log)) for name in names]
