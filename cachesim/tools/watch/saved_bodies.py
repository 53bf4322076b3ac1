"""File of compared request bodies, a line of JSON each, as ``import`` reads it.

Only its user can read a new file. Neither the query of a path nor the values of fields with names of secrets are
stored. After the first failure, for example on a full disk, nothing more is written; the bodies are counted.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from cachesim.base.console import complain
from cachesim.base.errors import Unwritable

_OPEN = os.O_WRONLY | os.O_APPEND | os.O_CREAT | sum(getattr(os, name, 0) for name in ("O_NONBLOCK", "O_CLOEXEC"))
MODE = 0o600                 # of a new file
SECRETS = frozenset({"apikey", "xapikey", "authorization", "proxyauthorization", "password", "passwd", "accesstoken",
                     "secretkey", "clientsecret"})  # fmt: skip
"""Names of fields whose values are not stored, in lower case, without - and _."""
REDACTED = "(redacted)"


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


def redacted(value: Any) -> Any:
    """Return a JSON value without the secrets in it. An object is not a secret: a tool may describe a parameter
    ``password``."""
    if isinstance(value, list):
        return [redacted(entry) for entry in value]
    if not isinstance(value, dict):
        return value
    return {key: REDACTED if _is_secret(key, entry) else redacted(entry) for key, entry in value.items()}


def _is_secret(key: str, value: Any) -> bool:
    name = key.lower().replace("-", "").replace("_", "")
    return name in SECRETS and value is not None and not isinstance(value, dict)


def _cause(error: Exception) -> str:
    return (getattr(error, "strerror", None) or "cannot be written").lower()
