"""Plants a fault in a copy of the tree and asks the tests of its floor: which of them fails first?

The copy is linked to an unspoilt one, so that it costs next to nothing; only the file of the fault is another.
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
WHICH = ("-m", "not slow and not meta and not browser")     # those of `make long` too
PATIENCE = 600         # seconds after which the tests of a floor are taken for some that never end
FAILED = re.compile(r"^(?:FAILED|ERROR) (?:\S*/)?(\S+?\.py(?:::.*?)?)(?: - .*)?$", re.MULTILINE)
BESIDE = shutil.ignore_patterns("meta", "*.pyc.*")      # the latter somebody is writing right now
PASSED, FOUND = 0, (1, 2)


class Found(NamedTuple):
    """The test that failed, "" = none did, and how long it took to know."""

    test: str
    seconds: float


@dataclass
class Field:
    """Where faults are planted, one copy for each."""

    folder: Path

    def __post_init__(self) -> None:
        self.clean = self.folder / "clean"
        for name in ("cachesim", "tests", "scenarios"):          # with what was compiled of it, if anything was
            shutil.copytree(ROOT / name, self.clean / name, ignore=BESIDE)
        for file in (ROOT / "pyproject.toml", ORDER):
            shutil.copy(file, self.clean)

    @contextmanager
    def spoilt(self, fault: Fault) -> Iterator[Path]:
        """A copy of the tree with the fault in it."""
        with tempfile.TemporaryDirectory(dir=self.folder) as name:
            copy = Path(name) / "copy"
            shutil.copytree(self.clean, copy, copy_function=os.link)
            text = fault.planted(copy)
            (copy / "cachesim" / fault.file).unlink()        # else the unspoilt one would be written to as well
            (copy / "cachesim" / fault.file).write_text(text)
            yield copy

    def ask(self, fault: Fault) -> Found:
        """Does a test of its floor find the fault?"""
        with self.spoilt(fault) as copy:
            return first_failing(copy, fault.floor, Path(fault.file).stem)


def first_failing(folder: Path, floor: str, near: str = "") -> Found:
    """The first test of a floor that fails in this copy; ``near``: the module in which to look first."""
    begun = time.perf_counter()
    env = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(folder), "NEAR": near}
    command = [sys.executable, "-m", "pytest", "-x", "-p", "no:cacheprovider", "-p", ORDER.stem, *WHICH, *FLOORS[floor]]
    try:
        done = subprocess.run(
            command, cwd=folder, env=env, capture_output=True, text=True, timeout=PATIENCE, check=False
        )
    except subprocess.TimeoutExpired:
        return Found("it never ends", time.perf_counter() - begun)
    took = time.perf_counter() - begun
    assert done.returncode in (PASSED, *FOUND), f"pytest ended with {done.returncode}: {done.stdout}{done.stderr}"
    if done.returncode == PASSED:
        return Found("", took)
    failed = FAILED.search(done.stdout)
    return Found(failed[1] if failed else "nothing can be collected", took)
