"""Lines of a log that grows: a file, which may be rotated or truncated meanwhile, or standard input."""

from __future__ import annotations

import os
import stat
import sys
from codecs import getincrementaldecoder
from contextlib import suppress
from pathlib import Path
from typing import Iterator

from cachesim.base.errors import BadInput
from cachesim.base.untrusted_files import STDIN

PIECE = 1 << 16              # bytes read at once
LONGEST = 1 << 16            # characters of a line that are kept


class LineSplitter:
    """Lines in pieces of bytes. Undecodable bytes become U+FFFD; the end of a line of more than ``longest`` characters
    is dropped."""

    def __init__(self, longest: int = LONGEST) -> None:
        self._longest = longest
        self._decoder = getincrementaldecoder("utf-8-sig")("replace")
        self._rest, self._dropping = "", False

    def lines(self, data: bytes) -> Iterator[str]:
        """Yield the lines that a piece completes."""
        *whole, rest = (self._rest + self._decoder.decode(data)).split("\n")
        for line in whole:
            if not self._dropping:
                yield line[: self._longest]
            self._dropping = False
        if self._dropping:
            rest = ""
        elif len(rest) > self._longest:
            yield rest[: self._longest]
            self._dropping, rest = True, ""
        self._rest = rest

    def last(self) -> Iterator[str]:
        """Yield the last line if it has no line end."""
        rest, self._rest = self._rest + self._decoder.decode(b"", final=True), ""
        if rest and not self._dropping:
            yield rest


class LogFollower:
    """Log that is read as it grows. ``longest``: characters of a line that are kept; ``ended``: standard input ended.
    Raise BadInput if the file cannot be opened."""

    def __init__(self, path: Path, longest: int = LONGEST) -> None:
        self._longest = longest
        self._path, self._split = path, LineSplitter(longest)
        self._stream: int | None = None
        self.ended, self._at_end = False, True
        self._has_size = True            # False for a file whose size is stated as 0, for example in /proc
        self.restarts = 0                # rotations and truncations
        self.failure = ""                # cause if the last read of the file failed
        self._open()

    def _open(self) -> None:
        """Open the file at its start. Raise BadInput."""
        if self._path is STDIN:
            self._stream = _standard_input()
            return
        try:
            opened = os.open(self._path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except (OSError, ValueError) as error:
            why = (getattr(error, "strerror", None) or "cannot be read").lower()
            raise BadInput(why, file=str(self._path)) from None
        if not stat.S_ISREG(os.fstat(opened).st_mode):
            os.close(opened)
            raise BadInput("not a regular file", file=str(self._path), hint="pipe it into `cachesim watch -`")
        self._stream = opened

    @property
    def name(self) -> str:
        """Path of the file, for messages."""
        return str(self._path)

    @property
    def has_more(self) -> bool:
        """True unless the last read was at the end of the file. A short read is not the end."""
        return not self._at_end

    @property
    def unread(self) -> int:
        """Number of bytes of the file that were not read, 0 for standard input and for a file without a size."""
        if self._path is STDIN or self._stream is None:
            return 0
        return max(0, os.fstat(self._stream).st_size - os.lseek(self._stream, 0, os.SEEK_CUR))

    def wait_on(self) -> list[int]:
        """Return the descriptors that become readable when lines arrive; a file has none."""
        return [self._stream] if self._path is STDIN and self._stream is not None and not self.ended else []

    def lines(self) -> Iterator[str]:
        """Yield the lines of the next piece of ``PIECE`` bytes. Call it for standard input when that is readable."""
        if self._path is STDIN:
            yield from self._of_pipe()
            return
        is_replaced = self._is_replaced()    # asked first: the server wrote its last lines before the rotation
        yield from self._of_file()
        if is_replaced and self._at_end:
            yield from self._split.last()
            self._restart()
            yield from self._of_file()

    def last(self) -> Iterator[str]:
        """Yield the last line if it has no line end."""
        yield from self._split.last()

    def close(self) -> None:
        """Close the file."""
        if self._path is not STDIN and self._stream is not None:
            os.close(self._stream)
            self._stream = None

    def _of_pipe(self) -> Iterator[str]:
        if self._stream is None or self.ended:
            return
        data = os.read(self._stream, PIECE)
        self.ended = not data
        yield from self._split.lines(data)

    def _of_file(self) -> Iterator[str]:
        """Yield the lines of a piece after the last position; from the start of the file if it became shorter."""
        self._at_end = True
        if self._stream is None:
            with suppress(BadInput):         # rotated, and the new file does not exist yet
                self._open()
        if self._stream is None:
            return
        position = os.lseek(self._stream, 0, os.SEEK_CUR)
        size = os.fstat(self._stream).st_size
        if self._has_size and size < position:
            os.lseek(self._stream, 0, os.SEEK_SET)
            self._split, self.restarts = LineSplitter(self._longest), self.restarts + 1
        data, self.failure = b"", ""
        try:
            data = os.read(self._stream, PIECE)
        except OSError as error:
            self.failure = (error.strerror or "cannot be read").lower()
        self._has_size = bool(size or os.fstat(self._stream).st_size)
        self._at_end = not data
        yield from self._split.lines(data)

    def _is_replaced(self) -> bool:
        """True if the path names another file than the open one."""
        if self._stream is None:
            return False
        try:
            found = os.stat(self._path)
        except OSError:
            return False                     # renamed: the server may still write into it
        held = os.fstat(self._stream)
        return (found.st_dev, found.st_ino) != (held.st_dev, held.st_ino)

    def _restart(self) -> None:
        """Close the old file, so that the next read opens the new one."""
        self.close()
        self._split, self.restarts = LineSplitter(self._longest), self.restarts + 1


def _standard_input() -> int:
    """Return the descriptor of standard input. Raise BadInput if it is closed."""
    try:
        return sys.stdin.fileno()
    except (AttributeError, OSError, ValueError):        # AttributeError: it was closed when cachesim started
        raise BadInput("standard input is closed", hint="expected a log on it") from None
