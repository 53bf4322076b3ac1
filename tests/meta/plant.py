"""Plants a fault in a copy of the package, and detects it with the fuzzer or, if that fails, with the tests.

The copy contains the package and the tests, and everything runs inside it. The checkout and installed packages are not
touched.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from tests.meta.fault import Fault

ROOT = Path(__file__).parents[2]
HUNT = Path(__file__).with_name("hunt.py")
EXAMPLES = 400         # conversations in which the fuzzer must find a fault
PATIENCE = 400         # seconds after which a group of tests counts as endless
PROFILES = {
    "llama_cpp": ("llama_cpp@b10587",), "ik_llama": ("ik_llama@main",),
    "mlx_lm": ("mlx_lm@0.32.2", "mlx_lm@0.31.1"),
}  # fmt: skip
"""Profiles to search for a fault, in order."""

GROUPS = {
    "llama_cpp": {
        "unit": ["tests/unit/engines/llama_cpp"],
        "replay": ["tests/replay/test_selection.py", "-k", "every_verdict"],
        "property": [f"tests/properties/test_{name}.py" for name in ("memory_ops", "server_histories")],
    },
    "ik_llama": {
        "unit": ["tests/unit/engines/ik_llama"],
        "replay": ["tests/replay/test_selection.py", "-k", "every_verdict and ik_llama"],
        "property": ["tests/properties/test_ik_companion.py"],
    },
    "mlx_lm": {
        "unit": ["tests/unit/engines/mlx_lm"],
        "transcripts": ["tests/peers/test_replay.py", "tests/peers/test_bursts.py"],
    },
}  # fmt: skip
"""Groups of tests that run if the fuzzer does not detect a fault."""

ENOUGH = 1
LEFT_OUT = shutil.ignore_patterns("__pycache__", "meta", "house", "scenarios")
PASSED, FAILED = 0, 1


def holders(root: Path, engine: str, text: str) -> list[Path]:
    """Return the files of an engine and of the shared code that contain a text."""
    files = (path for part in (engine, "shared") for path in sorted((root / "cachesim/engines" / part).rglob("*.py")))
    return [path for path in files if text in path.read_text()]


class Noticed(NamedTuple):
    """Detection of a fault by a property of the fuzzer or by a test."""

    by: str = ""                     # property or group of tests, "" = not detected
    rule: str = ""                   # rule of the finding, or failed test
    how: str = ""                    # kind of the finding, see hunt.py; "test" for a test
    profile: str = ""
    examples: int = 0                # conversations run
    seconds: float = 0.0
    differs: int | None = None       # first conversation with any different answer, None = none


class Copy:
    """Working copy in ``folder``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        shutil.copytree(ROOT / "cachesim", folder / "cachesim", ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copytree(ROOT / "tests", folder / "tests", ignore=LEFT_OUT)
        shutil.copytree(ROOT / "scenarios", folder / "scenarios")
        shutil.copy(ROOT / "pyproject.toml", folder)
        shutil.copy(HUNT, folder)

    def test(self, engine: str, group: str) -> tuple[int, str]:
        """Return pytest's exit code and the first failed test ("" = none) of a group of tests, stopped at the first
        failure."""
        command = ["-m", "pytest", "-x", "-p", "no:cacheprovider", "-m", "not slow", *GROUPS[engine][group]]
        code, out = self._python(command)
        failed = re.search(r"^(?:FAILED|ERROR) (?:\S*/)?(\S+?\.py(?:::.*?)?)(?: - .*)?$", out, re.MULTILINE)
        return code, failed[1] if failed else ""

    def hunt(self, *args: object) -> dict[str, Any]:
        """Return the output of hunt.py, run with the package of the copy."""
        code, out = self._python(["hunt.py", *map(str, args)])
        if code:
            return {"how": "clean", "property": "no crash", "rule": "at once", "examples": 1, "seconds": 0.0}
        result: dict[str, Any] = json.loads(out)
        assert Path(result["package"]).is_relative_to(self.folder), "the wrong package was imported"
        return result

    def _python(self, args: list[str]) -> tuple[int, str]:
        env = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(self.folder)}
        try:
            done = subprocess.run(
                [sys.executable, *args], cwd=self.folder, env=env, capture_output=True, text=True, timeout=PATIENCE,
                check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return FAILED, f"ERROR {args[-1]}.py::never_ends"
        return done.returncode, done.stdout

    def spoil(self, fault: Fault) -> None:
        """Plant a fault."""
        paths = holders(self.folder, fault.engine, fault.old)
        text = paths[0].read_text() if len(paths) == 1 else ""
        assert text.count(fault.old) == 1, f"{[str(p) for p in paths]} hold, not once: {fault.old}"
        paths[0].write_text(text.replace(fault.old, fault.new))


@dataclass
class Field:
    """Place where faults are planted, in a copy each. ``notes``: recorded answers of the unmodified engine, by
    profile."""

    folder: Path
    notes: dict[str, Path] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.clean = Copy(self.folder / "clean")
        subprocess.run([sys.executable, "-m", "compileall", "-q", "cachesim"], cwd=self.clean.folder, check=True)

    def profiles(self, fault: Fault) -> tuple[str, ...]:
        """Return the profiles to search for a fault."""
        return fault.profiles or PROFILES[fault.engine]

    def note(self, profile: str, n: int = EXAMPLES) -> Path:
        """Record the answers of the unmodified engine to n conversations, and return the file."""
        if profile not in self.notes:
            path = self.folder / f"{profile}.json"
            self.clean.hunt("note", profile, n, path)
            self.notes[profile] = path
        return self.notes[profile]

    def ask(self, fault: Fault, profiles: tuple[str, ...], n: int = EXAMPLES) -> list[Noticed]:
        """Return the attempts to detect the fault. The last attempt counts; those before it are fuzz runs under other
        profiles."""
        with tempfile.TemporaryDirectory(dir=self.folder) as name:
            copy = Copy.__new__(Copy)
            copy.folder = Path(name) / "copy"
            shutil.copytree(self.clean.folder, copy.folder)
            copy.spoil(fault)
            found = []
            for profile in profiles:
                said = copy.hunt("find", profile, n, self.notes[profile])
                found.append(Noticed(
                    said.get("property", ""), said.get("rule", ""), said["how"], profile, said["examples"],
                    said["seconds"], said.get("differs"),
                ))
                if said["how"]:
                    return found
            return [*found, *_tested(copy, fault)]


def _tested(copy: Copy, fault: Fault) -> list[Noticed]:
    """Return the first group of tests that fails, [] if all pass."""
    begun = time.perf_counter()
    for group in GROUPS[fault.engine]:
        code, test = copy.test(fault.engine, group)
        assert code in (PASSED, FAILED, 2), f"{group}: pytest ended with {code}"
        if code != PASSED:
            return [Noticed(group, test, "test", seconds=time.perf_counter() - begun)]
    return []
