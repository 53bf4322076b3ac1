"""Bounded readers for untrusted files: bytes, text, lines and JSON.

Whatever the path names (a FIFO, a device, a folder, a socket, nothing, an invalid name), the result is the content of a
regular file or a BadInput with the path. Reading never blocks and never exceeds the limit. Nesting, number of values
and digits of a JSON file are checked before parsing, because CPython's json parser recurses at every bracket and
creates an object for every value.
"""

from __future__ import annotations

import codecs
import io
import json
import os
import re
import stat
import sys
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO, Iterator, NoReturn

from cachesim.base.errors import BadInput
from cachesim.base.limits import JSON_VALUES, NESTING, TRACE_BYTES, Limit

CHUNK = 1 << 20
_HOW = os.O_RDONLY | sum(getattr(os, name, 0) for name in ("O_NONBLOCK", "O_CLOEXEC", "O_BINARY"))
FILE = "file"
FOLDER = "folder"
OTHER = "other"


def kind(path: Path | str) -> str:
    """Return FILE, FOLDER, OTHER (a device, a FIFO, a socket), or "" if nothing is found at the path."""
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):                # missing, no permission, name too long or with a NUL
        return ""
    return FILE if stat.S_ISREG(mode) else FOLDER if stat.S_ISDIR(mode) else OTHER


def file_size(path: Path | str) -> int | None:
    """Return the size of a regular file [bytes], None if the path names anything else or nothing."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return None
    return found.st_size if stat.S_ISREG(found.st_mode) else None


def file_stamp(path: Path | str) -> tuple[int, int]:
    """Return the time of the last change of a file [ns] and its size [bytes], zeros if it cannot be asked. Never
    raises: whoever reads the file says why it cannot be read."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return 0, 0
    return found.st_mtime_ns, found.st_size


def path_of(name: str | Path) -> Path:
    """Return the path of an argument. Raise BadInput for "", which pathlib treats as the current folder."""
    if not str(name):
        raise BadInput("empty file name", hint="write . for the current folder")
    return Path(name)


def real_path(path: Path) -> str:
    """Return the absolute path without links, to find two names of a file. Never raises: of a link to itself the
    result is the link."""
    try:
        return os.path.realpath(path)
    except (OSError, ValueError):                # the current folder was removed, a NUL in the name
        return str(path)


STDIN = Path("-")
"""Standard input, for functions that read a whole file; this object only, so that no text in a file can name it."""


def argument_path(name: str) -> Path:
    """Return the path of an argument that may be ``-``, standard input."""
    return STDIN if name == "-" else Path(name)


def files_in(folder: Path, ending: str) -> list[Path]:
    """Return the files in a folder and its subfolders whose names have this ending, sorted. Folders that cannot be read
    or that disappear meanwhile count as empty. Links to folders are not followed."""
    found = (Path(at, name) for at, _, names in os.walk(folder) for name in names if name.endswith(ending))
    return sorted(found)


def read_bytes(path: Path, limit: Limit, what: str = "file") -> bytes:
    """Return the bytes of a regular file. ``what``: its name in messages. Raise BadInput, also beyond ``limit``."""
    with _regular(path, f"expected a {what}, found a folder") as stream:
        pieces, size = [], 0
        while piece := stream.read(CHUNK):
            pieces.append(piece)
            size += len(piece)
            if size > limit.now:
                raise limit.exceeded(f"{what} is larger than allowed", file=str(path))
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def read_start(path: Path, most: int) -> bytes:
    """Return the first ``most`` bytes of a regular file of any size. Raise BadInput."""
    with _regular(path) as stream:
        return stream.read(most)


def open_lines(path: Path, longest: int = 1 << 16) -> Iterator[str]:
    """Yield the lines of a text file of any size, without line ends, each cut at ``longest`` characters. UTF-16 is
    detected by its byte order mark; undecodable bytes become U+FFFD. Raise BadInput at the first line if the file
    cannot be opened, and later if reading fails."""
    with _regular(path) as stream:
        wide = stream.read(2) in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
        stream.seek(0)
        with io.TextIOWrapper(stream, "utf-16" if wide else "utf-8-sig", errors="replace") as text:
            yield from _lines(text, longest)


@contextmanager
def _regular(path: Path, folder: str = "not a regular file") -> Iterator[BinaryIO]:
    """Open a regular file. Raise BadInput if it is not a regular file, cannot be opened, or reading fails in the
    block. ``folder``: message for a folder."""
    file = str(path)
    if path is STDIN:
        yield io.BytesIO(_standard_input())
        return
    try:
        if (found := kind(path)) in (OTHER, FOLDER):     # checked first: opening a device can have side effects
            raise BadInput(folder if found == FOLDER else "not a regular file", file=file)
        with os.fdopen(os.open(path, _HOW), "rb") as stream:
            if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
                raise BadInput("not a regular file", file=file)
            yield stream
    except OSError as error:
        why = folder if kind(path) == FOLDER else (error.strerror or "cannot be read").lower()
        raise BadInput(why, file=file) from None
    except ValueError:
        raise BadInput("no such file: the name contains a NUL", file=file) from None


@cache
def _standard_input() -> bytes:
    """Return all of standard input. Raise BadInput beyond the limit of a file that is held in memory."""
    stream = getattr(sys.stdin, "buffer", None)
    data: bytes = b"" if stream is None else stream.read(TRACE_BYTES.now + 1)
    if len(data) > TRACE_BYTES.now:
        raise TRACE_BYTES.exceeded("standard input is larger than allowed")
    return data


def _lines(text: io.TextIOWrapper, longest: int) -> Iterator[str]:
    """Yield lines cut at ``longest`` characters; the rest of a longer line is read and dropped."""
    dropping = False
    while piece := text.readline(longest):
        if not dropping:
            yield piece.removesuffix("\n")
        dropping = not piece.endswith("\n")


def decode(data: bytes, file: str) -> str:
    """Return the text of UTF-8 bytes. Raise BadInput if they are empty, only white space, or not UTF-8."""
    if not data.strip():
        raise BadInput("the file is empty", file=file)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise BadInput("not UTF-8 text", file=file, line=line) from None


def read_text(path: Path, limit: Limit, what: str = "file") -> str:
    """Return the text of a regular file that is not empty. Raise BadInput."""
    return decode(read_bytes(path, limit, what), str(path))


def too_deep(file: str, line: int | None = None) -> BadInput:
    """Return the error for a file whose brackets, tables or objects are nested too deeply."""
    return BadInput(f"nested deeper than {NESTING.now} levels", file=file, line=line)


# --- JSON ----------------------------------------------------------------------------------------------------

# An unterminated string extends to the end of the file: otherwise the search would restart at each quote (quadratic).
_STRING = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\Z)'
_TEXT = re.compile(_STRING, re.S)
_PIECE = re.compile(rb'(?:[^"]*+' + _STRING + rb'){1,20000}+|[^"]++', re.S)
_NOT_OPEN_OR_CLOSE = bytes(set(range(256)) - set(b"[]{}"))
_AS_ONE_KIND = bytes.maketrans(b"{}", b"[]")
_LARGE_EXPONENT = re.compile(rb"[eE]\+?[0-9]{3}")


def read_json(path: Path, what: str = "file", *, is_python: bool = False) -> Any:
    """Return the value in a JSON file, see ``parse_json``. Raise BadInput."""
    return parse_json(read_bytes(path, TRACE_BYTES, what), str(path), what, is_python=is_python)


def parse_json(data: bytes, file: str = "", what: str = "file", values: Limit = JSON_VALUES, *,
               is_python: bool = False) -> Any:
    """Parse JSON text. If a key occurs twice, the last value counts. ``is_python``: NaN and Infinity are numbers, as
    Python writes them. Raise BadInput for invalid JSON, deep nesting, more than ``values``, and other invalid numbers
    (1e999)."""
    text = decode(data, file)
    # piece by piece: `sub` keeps an object for every string of its text until it ends
    bare = b"".join(_TEXT.sub(b"", piece[0]) for piece in _PIECE.finditer(data))
    values.check(sum(map(bare.count, (b"[", b"{", b",", b":"))), what, file=file)
    _check_nesting(bare, file)
    # a number can exceed the range of a float only with a large exponent or very many digits
    suspect = _LARGE_EXPONENT.search(bare) is not None or max(map(len, bare.split(b","))) > 100
    hook = _finite if suspect else None
    del data, bare
    try:
        return json.loads(text, parse_float=hook, parse_constant=float if is_python else _refuse)
    except json.JSONDecodeError as error:
        raise BadInput(f"broken or truncated JSON: {error.msg}", file=file, line=error.lineno) from None
    except ValueError as error:
        cause = str(error) if isinstance(error, _NoNumber) else "a number has too many digits"
        raise BadInput(f"broken JSON: {cause}", file=file) from None


class _NoNumber(ValueError):
    """A number that is not valid JSON or exceeds the range of a float."""


def _refuse(word: str) -> NoReturn:
    raise _NoNumber(f"{word} is not a JSON number")


def _finite(digits: str) -> float:
    value = float(digits)
    if value in (float("inf"), float("-inf")):
        raise _NoNumber("a number is too large")
    return value


def _check_nesting(bare: bytes, file: str) -> None:
    """Raise BadInput if the brackets of JSON without its strings are nested too deeply. Removes innermost pairs level
    by level: a pass per level, without recursion."""
    left = bare.translate(_AS_ONE_KIND, _NOT_OPEN_OR_CLOSE)
    for _ in range(NESTING.now):
        left, before = left.replace(b"[]", b""), left
        if left == before:
            break
    if left.count(b"[") > NESTING.now or b"[]" in left:
        raise too_deep(file)
