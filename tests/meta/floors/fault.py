"""Planted fault in a package above the engines, and the tests of each package."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

BUILDS = ("tests/unit/engines/test_build_names.py", "tests/unit/engines/llama_cpp/test_builds.py")
"""Tests of the rules in force at a build."""
FLOORS: dict[str, tuple[str, ...]] = {
    "engines": BUILDS,
    "engines/shared": BUILDS,
    "engines/llama_cpp/profiles": BUILDS,
    "scenarios/notation": ("tests/unit/scenarios/notation", "tests/unit/scenarios/test_from_notation.py"),
    "scenarios": ("tests/unit/scenarios",),
    "judging": ("tests/unit/judging",),
    "replay": ("tests/unit/replay", "tests/replay/test_selection.py"),
    "tools/live": ("tests/unit/tools/live",),
    "tools/run": ("tests/unit/tools/run", "tests/unit/cli/test_commands.py"),
    "tools/replay": ("tests/unit/tools/replay",),
    "tools/search": ("tests/unit/tools/search",),
    "tools/conformance": ("tests/conformance", "tests/unit/tools/conformance"),
    "tools/conformance/http_check": ("tests/unit/tools/conformance/http_check",),
    "tools/server_logs": ("tests/unit/tools/server_logs",),
    "tools/request_bodies": ("tests/unit/tools/request_bodies",),
    "tools/watch": ("tests/unit/tools/watch", "tests/hostile/test_watch.py"),
    "tools/advise": ("tests/unit/tools/advise",),
    "tools/workload": ("tests/unit/tools/workload", "tests/workloads"),
    "tools/picture": ("tests/unit/tools/picture", "tests/docs/test_pictures.py"),
    "tools/lessons": ("tests/unit/tools/lessons",),
    "cli": ("tests/unit/cli",),
}
"""Folders above the engines, and the tests of each; all run with `make test` or `make long`. Of the engines: the rules
in force at a build, for which faults are only written by hand."""


class Fault(NamedTuple):
    """Replacement of the text ``old``, which occurs once in ``file`` (below ``cachesim``), by ``new``. ``how``:
    mutation of a generated fault, "" = written by hand."""

    name: str
    file: str
    old: str
    new: str
    how: str = ""

    @property
    def floor(self) -> str:
        """Innermost folder of ``FLOORS`` that contains the file."""
        return max((folder for folder in FLOORS if self.file.startswith(f"{folder}/")), key=len)

    def planted(self, root: Path) -> str:
        """Return the text of the file with the fault, in the tree at ``root``. Raise AssertionError unless the text
        occurs once."""
        text = (root / "cachesim" / self.file).read_text()
        assert text.count(self.old) == 1, f"{self.file} does not hold once: {self.old}"
        return text.replace(self.old, self.new)
