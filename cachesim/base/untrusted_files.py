"""How is a file from elsewhere read? As data, up to a bound, and only if it is a regular file.

Whatever the name and whatever lies there (a FIFO, a device, a folder, a socket, nothing, a name that no system takes),
the answer is bytes or one BadInput with the path; nothing waits, and nothing is read beyond the bound. What is inside a
JSON file is bounded before it is parsed: nesting, number of values, digits. Source: CPython's json parser recurses at
every bracket and makes an object of every value.
"""

from __future__ import annotations

import codecs
import io
import json
import os
import re
import stat
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Iterator, NoReturn

from cachesim.base.errors import BadInput
from cachesim.base.limits import JSON_VALUES, NESTING, TRACE_BYTES, Limit

CHUNK = 1 << 20
_HOW = os.O_RDONLY | sum(getattr(os, name, 0) for name in ("O_NONBLOCK", "O_CLOEXEC", "O_BINARY"))
FILE, FOLDER, OTHER = "file", "folder", "other"


def kind(path: Path | str) -> str:
    """What lies at a path: FILE, FOLDER, OTHER (a device, a FIFO, a socket), or "" where nothing can be found."""
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):                # not there, not ours to see, too long a name, a NUL in it
        return ""
    return FILE if stat.S_ISREG(mode) else FOLDER if stat.S_ISDIR(mode) else OTHER


def path_of(name: str | Path) -> Path:
    """The path that an argument names. Raises BadInput for an empty one, which pathlib takes for the current folder."""
    if not str(name):
        raise BadInput("the name of a file is empty", hint="the current folder is .")
    return Path(name)


def files_in(folder: Path, ending: str) -> list[Path]:
    """The files in a folder, and in those below it, whose names end so, sorted. A folder that cannot be read, or that
    goes while it is looked at, holds none; a link to a folder is not followed."""
    found = (Path(at, name) for at, _, names in os.walk(folder) for name in names if name.endswith(ending))
    return sorted(found)


def read_bytes(path: Path, limit: Limit, what: str = "file") -> bytes:
    """The bytes of a regular file, as many as ``limit`` allows. ``what``: how messages call it. Raises BadInput."""
    with _regular(path, f"a folder, where one {what} is wanted") as stream:
        pieces, size = [], 0
        while piece := stream.read(CHUNK):
            pieces.append(piece)
            size += len(piece)
            if size > limit.now:
                raise limit.passed(f"{what} is larger than allowed", file=str(path))
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def read_start(path: Path, most: int) -> bytes:
    """The first bytes of a regular file, whatever its size. Raises BadInput."""
    with _regular(path) as stream:
        return stream.read(most)


def open_lines(path: Path, longest: int = 1 << 16) -> Iterator[str]:
    """The lines of a text file of any size, one by one, without their ends; of a line only the first ``longest``
    characters. UTF-16 is known by its mark, what is no text becomes U+FFFD. Raises BadInput when the first line is
    asked for, and where reading fails later."""
    with _regular(path) as stream:
        wide = stream.read(2) in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
        stream.seek(0)
        with io.TextIOWrapper(stream, "utf-16" if wide else "utf-8-sig", errors="replace") as text:
            yield from _lines(text, longest)


@contextmanager
def _regular(path: Path, folder: str = "not a regular file") -> Iterator[BinaryIO]:
    """A regular file, opened. Raises BadInput where it is none, cannot be opened, or reading fails inside. ``folder``:
    what is said of a folder."""
    file = str(path)
    try:
        if (found := kind(path)) in (OTHER, FOLDER):     # before it is opened: opening a device may do something
            raise BadInput(folder if found == FOLDER else "not a regular file", file=file)
        with os.fdopen(os.open(path, _HOW), "rb") as stream:
            if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
                raise BadInput("not a regular file", file=file)
            yield stream
    except OSError as error:
        why = folder if kind(path) == FOLDER else (error.strerror or "cannot be read").lower()
        raise BadInput(why, file=file) from None
    except ValueError:
        raise BadInput("no such file: a name holds no NUL", file=file) from None


def _lines(text: io.TextIOWrapper, longest: int) -> Iterator[str]:
    """The rest of a line that is too long is read and dropped."""
    dropping = False
    while piece := text.readline(longest):
        if not dropping:
            yield piece.removesuffix("\n")
        dropping = not piece.endswith("\n")


def decode(data: bytes, file: str) -> str:
    """The text of a file's bytes. Raises BadInput for none, and for what is not UTF-8."""
    if not data.strip():
        raise BadInput("the file is empty", file=file)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise BadInput("not UTF-8 text", file=file, line=line) from None


def read_text(path: Path, limit: Limit, what: str = "file") -> str:
    """The text of a regular file that is not empty. Raises BadInput."""
    return decode(read_bytes(path, limit, what), str(path))


def too_deep(file: str, line: int | None = None) -> BadInput:
    """The error to raise for a file whose brackets, tables or objects are nested too deeply."""
    return BadInput(f"nested deeper than {NESTING.now} levels", file=file, line=line)


# --- JSON ----------------------------------------------------------------------------------------------------

# A text that nobody closed goes on to the end of the file: without that, the search would begin again at each quote.
_TEXT = re.compile(rb'"(?:[^"\\]++|\\.)*+(?:"|\Z)', re.S)
_NOT_OPEN_OR_CLOSE = bytes(set(range(256)) - set(b"[]{}"))
_AS_ONE_KIND = bytes.maketrans(b"{}", b"[]")
_LARGE_EXPONENT = re.compile(rb"[eE]\+?[0-9]{3}")


def read_json(path: Path, what: str = "file") -> Any:
    """The value in a JSON file. Raises BadInput."""
    return parse_json(read_bytes(path, TRACE_BYTES, what), str(path), what)


def parse_json(data: bytes, file: str = "", what: str = "file") -> Any:
    """The value that JSON text stands for; of a key that is given twice the last one holds. Raises BadInput for text
    that is none, is nested too deeply, holds too many values, or a number that is none (NaN, Infinity, 1e999)."""
    text = decode(data, file)
    bare = _TEXT.sub(b"", data)
    JSON_VALUES.check(sum(map(bare.count, (b"[", b"{", b",", b":"))), what, file=file)
    _check_nesting(bare, file)
    # only a large exponent or very many digits make a number that is too large for a float
    suspect = _LARGE_EXPONENT.search(bare) is not None or max(map(len, bare.split(b","))) > 100
    hook = _finite if suspect else None
    del data, bare
    try:
        return json.loads(text, parse_float=hook, parse_constant=_refuse)
    except json.JSONDecodeError as error:
        raise BadInput(f"broken or truncated JSON: {error.msg}", file=file, line=error.lineno) from None
    except ValueError as error:
        cause = str(error) if isinstance(error, _NoNumber) else "a number has too many digits"
        raise BadInput(f"broken JSON: {cause}", file=file) from None


class _NoNumber(ValueError):
    """A number that JSON does not have, or that no float holds."""


def _refuse(word: str) -> NoReturn:
    raise _NoNumber(f"{word} is no number of JSON")


def _finite(digits: str) -> float:
    value = float(digits)
    if value in (float("inf"), float("-inf")):
        raise _NoNumber("a number is too large")
    return value


def _check_nesting(bare: bytes, file: str) -> None:
    """Raise BadInput if the brackets of a text without strings are nested too deeply. Innermost pairs are taken out,
    level by level: as many passes as levels, and no recursion."""
    left = bare.translate(_AS_ONE_KIND, _NOT_OPEN_OR_CLOSE)
    for _ in range(NESTING.now):
        left, before = left.replace(b"[]", b""), left
        if left == before:
            break
    if left.count(b"[") > NESTING.now or b"[]" in left:
        raise too_deep(file)
