"""Stand-in for the interpreter that runs venv and pip: a shell script, which knows the wheel by its requirement."""

from __future__ import annotations

import sys
from pathlib import Path

SCRIPT = """#!/bin/sh
HERE='{here}'
for last; do :; done
case "$*" in
*" venv "*)
    echo "$@" >> "$HERE/called"
    test -e "$HERE/venv-fails" && cat "$HERE/venv-fails" >&2 && exit 1
    mkdir -p "$last/bin" && cp "$0" "$last/bin/python" ;;
*" pip "*)
    echo "$@" >> "$HERE/called"
    env > "$HERE/environment"; pwd > "$HERE/folder"
    test -e "$HERE/pip-waits" && {{ sleep 600 & echo $$ $! > "$HERE/pip-waits"; wait; }}
    test -e "$HERE/pip-fails" && cat "$HERE/pip-fails" >&2 && exit 1
    read wanted hashes < "$last"
    echo "$wanted $hashes" >> "$HERE/wanted"
    echo "0 ${{wanted#xllamacpp==}}" > "$(dirname "$last")/bin/reported" ;;
*)
    cat "$HERE/reported" 2> /dev/null || cat "$(dirname "$0")/reported" ;;
esac
"""


class Programs:
    """The stand-in, and what it was asked. A file ``pip-fails`` or ``venv-fails`` in its folder has the error that it
    prints; with ``pip-waits`` pip starts a process and waits; ``reported`` replaces what the wheel reports."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.folder = folder
        self.python = folder / "python"
        self.python.write_text(SCRIPT.format(here=folder))
        self.python.chmod(0o755)

    def says(self, file: str, text: str) -> None:
        """Write a file of the stand-in."""
        (self.folder / file).write_text(text)

    def lines(self, file: str) -> list[str]:
        """Return the lines of a file that the stand-in wrote."""
        path = self.folder / file
        return path.read_text().splitlines() if path.exists() else []

    @property
    def installed(self) -> list[str]:
        """The requirements that pip installed."""
        return [line.split()[0] for line in self.lines("wanted")]


def replaced(tmp_path: Path, monkeypatch) -> Programs:
    """Let venv and pip be the stand-in, and environments lie in the temporary folder."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    programs = Programs(tmp_path / "programs")
    monkeypatch.setattr(sys, "executable", str(programs.python))
    return programs
