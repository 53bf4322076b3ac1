"""Version of the running code. Other code may give other results: a search continues only with the code that began it,
and workers must have the code of the command that sends them work."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

from cachesim import __version__


@cache
def code_version() -> str:
    """Return the version with a digest of all sources of cachesim, such as "1.0.0+1f0c55d2a9e3"."""
    folder = Path(__file__).parents[1]
    sources = hashlib.sha256()
    for file in sorted(folder.rglob("*.py")):
        text = file.read_bytes()
        sources.update(f"{file.relative_to(folder).as_posix()} {len(text)}\n".encode() + text)
    return f"{__version__}+{sources.hexdigest()[:12]}"
