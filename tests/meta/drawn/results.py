"""Results by fault in a file of JSON lines, which a later run goes on from.

A fault that was found stays found while its module and the test that found it are unchanged. A fault that was not found
is tried again after every change of the package or its tests.
"""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any, NamedTuple

from cachesim.base.files import add_line
from tests.meta.drawn.copies import digest
from tests.meta.drawn.drawing import DrawnFault

PARTS = ("cachesim", "tests", "scenarios")


class Result(NamedTuple):
    """Outcome of a step for a fault: the test that found it, "" = none."""

    step: str
    test: str


class Results:
    """Results in ``file`` for the tree at ``root``. A line that an interrupt cut off is ignored."""

    def __init__(self, file: Path, root: Path) -> None:
        self.file, self.root = file, root
        self._tree = digest(root, *PARTS)
        self._digests: dict[str, str] = {}
        self._rows: list[dict[str, Any]] = []
        self._lock = threading.Lock()
        self.read()

    def read(self) -> None:
        """Read the results in the file."""
        self._rows.clear()
        if self.file.exists():
            for line in self.file.read_text("utf-8").splitlines():
                try:
                    self._rows.append(json.loads(line))
                except ValueError:
                    continue

    def of(self, fault: DrawnFault, step: str) -> Result | None:
        """Return the last result of a step that still holds, or None."""
        for row in reversed(self._rows):
            if row.get("fault") == fault.name and row["step"] == step and self._holds(row, fault):
                return Result(step, row["test"])
        return None

    def _holds(self, row: dict[str, Any], fault: DrawnFault) -> bool:
        """True if nothing that a result depends on has changed since."""
        is_module = row["module"] == self._digest(f"cachesim/{fault.file}")
        return is_module and bool(row["stand"] == self._stand(row["test"]))

    def keep(self, fault: DrawnFault, result: Result, seconds: float) -> None:
        """Write the result of a fault."""
        self._add({"fault": fault.name, "step": result.step, "test": result.test, "seconds": round(seconds, 1),
                   "module": self._digest(f"cachesim/{fault.file}"), "stand": self._stand(result.test)})  # fmt: skip

    def failed(self, faults: list[DrawnFault], step: str) -> list[str] | None:
        """Return the tests that failed with these faults together in this tree, None = they have not run."""
        names = [fault.name for fault in faults]
        wanted = {"together": names, "step": step, "tree": self._tree}
        return next((row["failed"] for row in reversed(self._rows) if row.items() >= wanted.items()), None)

    def keep_failed(self, faults: list[DrawnFault], step: str, failed: list[str]) -> None:
        """Write which tests failed with these faults together."""
        self._add({"together": [fault.name for fault in faults], "step": step, "failed": failed, "tree": self._tree})

    def _stand(self, test: str) -> str:
        """Return what a result depends on, beside the module: the file of the test that found it, or the tree."""
        file = test.partition("::")[0]
        return self._digest(file) if test and (self.root / file).is_file() else self._tree

    def _digest(self, part: str) -> str:
        if part not in self._digests:
            self._digests[part] = digest(self.root, part)
        return self._digests[part]

    def _add(self, row: dict[str, Any]) -> None:
        self._rows.append(row)
        self.file.parent.mkdir(parents=True, exist_ok=True)
        self.file.touch()
        with self._lock:
            is_cut_off = not self.file.read_bytes().endswith(b"\n") and self.file.stat().st_size > 0
            add_line(self.file, b"\n" * is_cut_off + json.dumps(row).encode() + b"\n")
