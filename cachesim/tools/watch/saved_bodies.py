"""File of compared request bodies, a line of JSON each, as ``import`` reads it.

Only its user can read a new file. Neither the query of a path nor the values of fields with names of secrets are
stored (``secret_fields``). After the first failure, for example on a full disk, nothing more is written; the bodies are
counted.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path

from cachesim.base.console import complain
from cachesim.base.errors import Unwritable
from cachesim.tools.watch.secret_fields import redacted

_OPEN = os.O_WRONLY | os.O_APPEND | os.O_CREAT | sum(getattr(os, name, 0) for name in ("O_NONBLOCK", "O_CLOEXEC"))
MODE = 0o600                 # of a new file


class SavedBodies:
    """File to which bodies are appended. Raise Unwritable if it cannot be opened. ``unsaved``: bodies that were not
    written."""

    def __init__(self, path: Path) -> None:
        self._path, self.unsaved = path, 0
        try:
            self._file = os.open(path, _OPEN, MODE)
        except (OSError, ValueError) as error:
            raise Unwritable(_cause(error), file=str(path)) from None

    def add(self, path: str, raw: bytes) -> None:
        """Append a body, with the path of its request. After a failure, only count it; the first one is reported."""
        if not self.unsaved:
            line = json.dumps({"path": path, "request": redacted(json.loads(raw))}) + "\n"
            try:
                self._write(line.encode())
            except OSError as error:
                complain(f"{self._path}: {_cause(error)}; this request and later ones are not saved")
            else:
                return
        self.unsaved += 1

    def _write(self, line: bytes) -> None:
        """Write a whole line, or remove its first part again. Raise OSError."""
        left = memoryview(line)
        try:
            while left:
                left = left[os.write(self._file, left) :]
        except OSError:
            with suppress(OSError):              # not a regular file
                os.ftruncate(self._file, os.fstat(self._file).st_size - (len(line) - len(left)))
            raise


def _cause(error: Exception) -> str:
    return (getattr(error, "strerror", None) or "cannot be written").lower()
