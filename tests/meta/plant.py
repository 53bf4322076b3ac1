"""Plants a fault in a copy of the package and asks which tests notice.

The copy holds the package and the tests; pytest runs inside it, so nothing here or in an installed package is touched.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[2]
GROUPS = {
    "unit": ["tests/unit/engines"],
    "replay": ["tests/replay/test_selection.py", "-k", "every_verdict"],
    "property": [f"tests/properties/test_{name}.py" for name in ("memory_ops", "server_histories", "server_quality")],
}  # fmt: skip
ENGINE = ("cachesim/engines/llama_cpp", "cachesim/engines/shared")
LEFT_OUT = shutil.ignore_patterns("__pycache__", "meta", "house", "scenarios")


def holders(folder: Path, text: str) -> list[Path]:
    """The files of the engine in which a text stands."""
    files = (path for part in ENGINE for path in sorted((folder / part).rglob("*.py")))
    return [path for path in files if text in path.read_text()]


class Copy:
    """A working copy in ``folder``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        shutil.copytree(ROOT / "cachesim", folder / "cachesim", ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copytree(ROOT / "tests", folder / "tests", ignore=LEFT_OUT)
        shutil.copy(ROOT / "pyproject.toml", folder)

    def run(self, group: str) -> tuple[int, str]:
        """(pytest's exit code, first test that failed or "") of a group of tests, stopped at its first failure."""
        command = [sys.executable, "-m", "pytest", "-x", "-p", "no:cacheprovider", *GROUPS[group]]
        env = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run(
            command, cwd=self.folder, env=env, capture_output=True, text=True, timeout=600, check=False
        )
        failed = re.search(r"^FAILED (?:\S*/)?(\S+?\.py::.*?)(?: - .*)?$", done.stdout, re.MULTILINE)
        return done.returncode, failed[1] if failed else ""

    def origin(self) -> Path:
        """Where a run inside the copy gets the package from."""
        code = "import cachesim, sys; sys.stdout.write(cachesim.__file__)"
        done = subprocess.run([sys.executable, "-c", code], cwd=self.folder, capture_output=True, text=True, check=True)
        return Path(done.stdout)

    @contextmanager
    def with_fault(self, old: str, new: str):
        """The copy with one text of the engine replaced, as long as the block runs."""
        paths = holders(self.folder, old)
        text = paths[0].read_text() if len(paths) == 1 else ""
        assert text.count(old) == 1, f"{[str(p) for p in paths]} hold, not once: {old}"
        paths[0].write_text(text.replace(old, new))
        try:
            yield
        finally:
            paths[0].write_text(text)
