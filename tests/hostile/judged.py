"""Findings about the end of a mutant, compared with the documented behaviour. Each is a line that begins with its
class."""

from __future__ import annotations

import re

from cachesim.base import exits
from tests.hostile.child import CPU, MIB, WALL

ALLOWED = (exits.HOLDS, exits.BROKEN, exits.BAD_INPUT, exits.UNDECIDED, exits.NOTHING)
ACCEPTED = (exits.HOLDS, exits.BROKEN, exits.UNDECIDED)
LINE = 300                   # characters of a line on stderr, at most
STDOUT = 16 << 20            # bytes of a result, at most
NOTES = 20                   # lines on stderr in addition to a result, at most
_PLACE = re.compile(r'File ".*?((?:cachesim|tests)/[^"]*)", line (\d+)')
_AUTHORS = re.compile(r"^\S*/rules\.py:\d+: \w+Warning: .*\n(?:  .*\n)?", re.M)
"""Warnings of Python for the author of a rules file."""
_ERROR = re.compile(r"[A-Za-z_.]+(Error|Exception|Failed|Crash)\b")


def findings(ended, cpu=CPU):
    """Return the findings about the end of a mutant, [] if it ended correctly."""
    return list(_findings(ended, cpu))


def accepted(ended):
    """True if it ended with a result."""
    return ended.code in ACCEPTED and ended.stdout > 0


def _findings(ended, cpu):
    lines = _AUTHORS.sub("", ended.stderr).splitlines()
    if ended.cpu > cpu:
        yield f"time: more than {cpu} CPU seconds"
    elif ended.code == -14:
        yield f"hang: not finished in {WALL} seconds"
    elif ended.code < 0:
        yield f"signal: {-ended.code}"
    if ended.mib > MIB or "MemoryError" in ended.stderr:
        yield f"memory: more than {MIB} MiB"
    if "Traceback (most recent call last)" in ended.stderr or ended.code == exits.CRASH:
        yield f"traceback: {_told(lines)}"
    elif ended.code >= 0:
        yield from _noise(lines, ended)
        if ended.code not in ALLOWED:
            yield f"exit code: {ended.code}"
    if ended.stdout > STDOUT:
        yield "output: more than 16 MiB"
    if ended.raw:
        yield f"raw: control character U+{ord(ended.raw[0]):04X} printed"
    if ended.left:
        yield f"left: {re.sub('tmp[0-9a-z_]{8}', 'tmp*', ended.left[0])}"
    if ended.running:
        yield "left: a process"


def _told(lines):
    """Return the last place in cachesim or tests of a traceback, and the error."""
    places = [found for line in lines if (found := _PLACE.search(line))]
    error = next((line for line in reversed(lines) if _ERROR.match(line)), "")
    if not places:
        return (lines or [""])[-1][:80]
    return f"{places[-1][1]}:{places[-1][2]} {error.partition(':')[0]}"


def _noise(lines, ended):
    if ended.code == exits.BAD_INPUT and not lines:
        yield "error: no message"
    foreign = [line for line in lines if not line.startswith(("cachesim: ", "next: cachesim "))]
    if foreign:
        yield f"noise: {re.sub('[0-9]+', '0', foreign[0])[:80]}"
    elif len(lines) > (ended.lines if ended.code == exits.BAD_INPUT else NOTES):
        yield f"error: {len(lines)} lines"
    for line in lines:
        if len(line) > LINE:
            yield f"error: a line of more than {LINE} characters: {re.sub('[^a-z ]+', '', line)[:50]}"
            return
