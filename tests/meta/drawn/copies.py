"""A copy of the tree in which faults are planted and tests run.

A copy keeps its place, so that byte code of modules without a fault is written once. A module gets another time of
modification with every change: byte code is found by this time, in whole seconds, and by the size.
"""

from __future__ import annotations

import ast
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from itertools import count
from pathlib import Path
from typing import NamedTuple

from tests.meta.drawn.changes import Source, functions
from tests.meta.drawn.drawing import DrawnFault
from tests.meta.drawn.folders import own
from tests.shared import ROOT

ORDER = Path(__file__).with_name("nearest_first.py")
PLUGIN = Path(__file__).with_name("asked_tests.py")
FORKED = Path(__file__).with_name("forked_tests.py")
LEFT_OUT = shutil.ignore_patterns(".git", ".venv*", "build", "dist", "__pycache__", ".*_cache", ".hypothesis",
                                  "*.egg-info")  # fmt: skip
LONGEST = 3600                              # seconds after which a run of tests is ended
SPREAD = ["--dist", "loadfile", "--no-loadscope-reorder"]          # as `make test`
NO_RESULT = "pytest ended with"
LEFT = "left"                               # as in forked_tests.py
PASSED, NONE_LEFT = 0, 5                    # exit codes of pytest


class Stopped(Exception):
    """A run of tests that was ended because of an interrupt."""


class TestRun(NamedTuple):
    """Tests to run. ``paths`` are below the root; of them ``only`` these tests (None = all), ``never`` those."""

    paths: Sequence[str]
    only: Sequence[str] | None = None
    never: Sequence[str] = ()
    marks: str = ""                         # expression of marks, "" = those of `make test`
    is_first_enough: bool = False           # ends at the first failure
    workers: int = 1


class Processes:
    """Runs of tests that are under way; an interrupt ends all of them."""

    def __init__(self) -> None:
        self.is_stopped = False
        self._running: set[int] = set()
        self._lock = threading.Lock()

    def run(self, command: Sequence[str], folder: Path, env: Mapping[str, str]) -> tuple[int, str]:
        """Return exit code and output of a command; the code is negative if it took too long. Raise Stopped."""
        with self._lock:
            if self.is_stopped:
                raise Stopped
            process = subprocess.Popen(
                command, cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT, text=True, errors="replace", start_new_session=True,
            )  # fmt: skip
            self._running.add(process.pid)
        try:
            output, _ = process.communicate(timeout=LONGEST)
        except subprocess.TimeoutExpired:
            self._end(process.pid)
            output, _ = process.communicate()
        finally:
            self._end(process.pid)                       # including servers that a test left behind
            with self._lock:
                self._running.discard(process.pid)
        if self.is_stopped:
            raise Stopped
        return process.returncode, output

    def stop(self) -> None:
        """End all runs; none begins any more."""
        with self._lock:
            self.is_stopped = True
            for pid in self._running:
                self._end(pid)

    @staticmethod
    def _end(pid: int) -> None:
        with suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)


class Copy:
    """Copy of the tree below ``folder``. ``code``: byte code of this copy."""

    clock = count(1_000_000_000)            # times of modification, each used once

    def __init__(self, folder: Path, root: Path = ROOT, processes: Processes | None = None) -> None:
        self.root, self._code = folder / "tree", folder / "byte-code"
        self._wish, self._failed, self._running = (folder / name for name in ("wish.json", "failed.txt", "running.txt"))
        self.processes = processes or Processes()
        self._planted: dict[str, str] = {}               # texts of the modules before
        shutil.copytree(root, self.root, ignore=LEFT_OUT)
        shutil.rmtree(self.root / "tests" / "meta", ignore_errors=True)
        for plugin in (ORDER, PLUGIN, FORKED):
            shutil.copy(plugin, folder)
        self._plugins = folder

    def plant(self, faults: Iterable[DrawnFault]) -> None:
        """Replace the faults that are planted by these, which lie in different modules."""
        self.write({fault.file: fault.planted(self._original(fault.file)) for fault in faults})

    def write(self, texts: Mapping[str, str]) -> None:
        """Give these modules another text, and all others their own one."""
        before = {file: self._original(file) for file in {*self._planted, *texts}}
        for file, text in before.items():
            path = self.root / "cachesim" / file
            path.write_text(texts.get(file, text), "utf-8")
            time = next(self.clock)
            os.utime(path, (time, time))
        self._planted = {file: before[file] for file in texts}

    def _original(self, file: str) -> str:
        return self._planted.get(file) or (self.root / "cachesim" / file).read_text("utf-8")

    def failing(self, run: TestRun) -> list[str]:
        """Return the tests that fail: the running one if it took too long, a sentence if pytest ended without a
        result. A file that cannot be imported fails as a whole, and the others run."""
        self._ask({"only": run.only, "never": [*run.never], "failed": str(self._failed)})
        options = ["--continue-on-collection-errors", *(["-x"] if run.is_first_enough else []),
                   *(["-m", run.marks] if run.marks else []),
                   *([*SPREAD, "-n", str(run.workers)] if run.workers > 1 else [])]  # fmt: skip
        code, output = self._pytest(PLUGIN, [*options, *run.paths])
        failed = [*dict.fromkeys(self._failed.read_text().splitlines())]
        if not failed and code not in (PASSED, NONE_LEFT):
            failed = [self._running.read_text() or f"{NO_RESULT} {code}: {' '.join(output.split())[-200:]}"]
        return failed

    def found_by_children(self, faults: Sequence[DrawnFault], run: TestRun, only_own: bool) -> dict[str, str]:
        """Return the test of a run that finds each fault, by the name of the fault: "" = none, LEFT = the fault
        must be planted in its module. Tests named after its module are tried first, or alone (``only_own``)."""
        self.write({})
        texts = {fault: self._original(fault.file) for fault in faults}
        asked = [{"name": fault.name, "file": fault.file, "function": fault.function, "text": fault.planted(text),
                  "line": fault.statement_line(text), "own": own(self.root, fault.file)}
                 for fault, text in texts.items() if not fault.is_default(text)]  # fmt: skip
        self._ask({"faults": asked, "only_own": only_own, "package": f"{self.root / 'cachesim'}/",
                   "out": str(self._failed), "longest": LONGEST})  # fmt: skip
        code, output = self._pytest(FORKED, [*(["-m", run.marks] if run.marks else []), *run.paths])
        if code not in (PASSED, NONE_LEFT):
            raise RuntimeError(f"{NO_RESULT} {code}: {output[-2000:]}")
        return {fault.name: LEFT for fault in faults} | self.found_so_far()

    def found_so_far(self) -> dict[str, str]:
        """Return what children have found in the last run, which may have been interrupted."""
        rows = [json.loads(line) for line in self._failed.read_text("utf-8").splitlines()]
        return {row["fault"]: row["test"] for row in rows}

    def _ask(self, wish: Mapping[str, object]) -> None:
        """Write the wish of a plug-in, and empty the files of its results."""
        for file in (self._failed, self._running):
            file.write_text("")
        self._wish.write_text(json.dumps({**wish, "running": str(self._running)}))

    def _pytest(self, plugin: Path, arguments: Sequence[str]) -> tuple[int, str]:
        """Run pytest with a plug-in in this copy; return exit code and output."""
        env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        path = os.pathsep.join((str(self.root), str(self._plugins)))
        env |= {"PYTHONPATH": path, "PYTHONPYCACHEPREFIX": str(self._code), "WISH": str(self._wish)}
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", ORDER.stem, "-p", plugin.stem]
        return self.processes.run([*command, *arguments], self.root, env)


def harmless(text: str) -> str:
    """Return the text of a module with a statement in every function that does nothing. A test that fails with it reads
    the text of the module, or fails anyway."""
    source = Source(text)
    lines = [line.decode() for line in source.lines]
    for _, function in functions(ast.parse(text)):
        has_text = ast.get_docstring(function, clean=False) is not None
        first = function.body[1 if has_text and len(function.body) > 1 else 0]
        row = min((first.lineno, *(one.lineno for one in getattr(first, "decorator_list", ())))) - 1
        if lines[row][: first.col_offset].strip() == "" and "\n" not in lines[row][: first.col_offset]:
            lines[row] = f"{lines[row][: first.col_offset]}pass\n{lines[row]}"
    return "".join(lines)


def digest(folder: Path, *parts: str) -> str:
    """Return a digest of the files of these parts of a tree, without tests of the tests."""
    found = sha256()
    for part in parts:
        top = folder / part
        for path in [top] if top.is_file() else sorted(top.rglob("*")):
            if path.is_file() and not {"__pycache__", "meta"} & {*path.parts}:
                found.update(f"{path.relative_to(folder)}\0".encode() + path.read_bytes())
    return found.hexdigest()[:16]
