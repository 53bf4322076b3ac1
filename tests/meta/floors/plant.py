"""Plants a fault in a copy of the tree and finds the first test of its package that fails.

The copy consists of hard links to an unmodified copy, except for the file with the fault.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Iterator, NamedTuple

from tests.meta.floors.fault import FLOORS, Fault

ROOT = Path(__file__).parents[3]
ORDER = Path(__file__).with_name("nearest_first.py")
WHICH = ("-m", "not slow and not meta and not browser")     # including those of `make long`
PATIENCE = 600         # seconds after which the tests of a package count as endless
FAILED = re.compile(r"^(?:FAILED|ERROR) (?:\S*/)?(\S+?\.py(?:::.*?)?)(?: - .*)?$", re.MULTILINE)
BESIDE = shutil.ignore_patterns("meta", "*.pyc.*")      # *.pyc.*: files that another process is writing
PASSED, FOUND = 0, (1, 2)


class Found(NamedTuple):
    """Failed test ("" = none) and duration of the test run [seconds]."""

    test: str
    seconds: float


@dataclass
class Field:
    """Place where faults are planted, in a copy each."""

    folder: Path

    def __post_init__(self) -> None:
        self.clean = self.folder / "clean"
        for name in ("cachesim", "tests", "scenarios"):          # including byte code
            shutil.copytree(ROOT / name, self.clean / name, ignore=BESIDE)
        for file in (ROOT / "pyproject.toml", ORDER):
            shutil.copy(file, self.clean)

    @contextmanager
    def spoilt(self, fault: Fault) -> Iterator[Path]:
        """Yield a copy of the tree with the fault."""
        with tempfile.TemporaryDirectory(dir=self.folder) as name:
            copy = Path(name) / "copy"
            shutil.copytree(self.clean, copy, copy_function=os.link)
            text = fault.planted(copy)
            (copy / "cachesim" / fault.file).unlink()        # break the hard link to the unmodified file
            (copy / "cachesim" / fault.file).write_text(text)
            yield copy

    def ask(self, fault: Fault) -> Found:
        """Run the tests of the fault's package on a copy with the fault."""
        with self.spoilt(fault) as copy:
            return first_failing(copy, fault.floor, Path(fault.file).stem)


def first_failing(folder: Path, floor: str, near: str = "") -> Found:
    """Return the first test of a package that fails in this copy. ``near``: module whose tests run first."""
    begun = time.perf_counter()
    env = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(folder), "NEAR": near}
    command = [sys.executable, "-m", "pytest", "-x", "-p", "no:cacheprovider", "-p", ORDER.stem, *WHICH, *FLOORS[floor]]
    try:
        done = subprocess.run(
            command, cwd=folder, env=env, capture_output=True, text=True, timeout=PATIENCE, check=False
        )
    except subprocess.TimeoutExpired:
        return Found("timeout", time.perf_counter() - begun)
    took = time.perf_counter() - begun
    assert done.returncode in (PASSED, *FOUND), f"pytest ended with {done.returncode}: {done.stdout}{done.stderr}"
    if done.returncode == PASSED:
        return Found("", took)
    failed = FAILED.search(done.stdout)
    return Found(failed[1] if failed else "collection failed", took)
