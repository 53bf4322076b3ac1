"""Search for the test that finds a fault, in four steps.

1. "own": the unit tests that are named after the module, each fault in a child process of its own (forked_tests.py).
2. "folder": the unit tests of the folder that mirrors the module, in child processes, too.
3. "suite": all tests of `make test` except those of step 4. Many faults are tried in child processes first; what these
   do not find is planted, ten faults in different modules at once, because tests of commands start other processes.
4. "laws": tests/properties and tests/conformance with their long tests, in child processes.

A fault whose function ran before the first test is planted in its module instead: alone in step 1, else with others.

A failing test counts only if it passes in a control: a copy in which every function has a statement that does nothing.
So a test that compares the text of the package, or fails in a copy anyway, finds no fault.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path
from queue import SimpleQueue
from threading import Lock

from tests.meta.drawn.copies import LEFT, NO_RESULT, Copy, Processes, Stopped, TestRun, harmless
from tests.meta.drawn.drawing import DrawnFault
from tests.meta.drawn.folders import mirror, own
from tests.meta.drawn.results import Result, Results

OWN, FOLDER, SUITE, LAWS = "own", "folder", "suite", "laws"
STEPS = (OWN, FOLDER, SUITE, LAWS)
TOGETHER = 10          # faults planted at once
FEW = 20               # faults for which a run of all tests in child processes takes longer than planting them
LAW_FOLDERS = ("tests/properties", "tests/conformance")
OWN_TESTS = "tests/meta"                # no copy has them
WITH_LONG = "not slow and not meta and not browser"

Say = Callable[[str], None]
FirstFailing = Callable[[DrawnFault, Sequence[str]], str]
"""Returns the first of the tests that fails with this fault, "" = none."""
IsLikely = Callable[[DrawnFault, str], bool]
"""True if a test probably finds a fault: it is tried first."""


class Control:
    """Copy with statements that do nothing, and the tests that failed or passed in it."""

    def __init__(self, copy: Copy) -> None:
        self._copy = copy
        self._failing: dict[str, bool] = {}
        self._lock = Lock()
        package = copy.root / "cachesim"
        copy.write({path.relative_to(package).as_posix(): harmless(path.read_text("utf-8"))
                    for path in sorted(package.rglob("*.py"))})  # fmt: skip

    def passing(self, tests: Sequence[str], run: TestRun) -> list[str]:
        """Return those of the tests that pass in the control. A run without a result is repeated as a whole. Raise
        RuntimeError if it has none in the control, too."""
        with self._lock:
            todo = [test for test in tests if test not in self._failing]
            if any(test.startswith(NO_RESULT) for test in todo):
                failed = self._copy.failing(run)
                if any(test.startswith(NO_RESULT) for test in failed):
                    raise RuntimeError(f"tests do not run in an unchanged copy: {failed}")
                self._failing |= {test: False for test in todo if test.startswith(NO_RESULT)}
                todo = [test for test in todo if not test.startswith(NO_RESULT)]
            if todo:
                failed = self._copy.failing(only(todo, marks=run.marks))
                is_lost = any(one.startswith(NO_RESULT) for one in failed)
                self._failing |= {test: is_lost or test in failed for test in todo}
            return [test for test in tests if not self._failing[test]]


def only(tests: Sequence[str], marks: str = "") -> TestRun:
    """Return a run of these tests alone."""
    return TestRun([*dict.fromkeys(test.partition("::")[0] for test in tests)], tests, marks=marks)


def found_by_own(fault: DrawnFault, copy: Copy, control: Control) -> str:
    """Return the first test named after the module that finds a fault, "" = none."""
    paths = own(copy.root, fault.file)
    never: list[str] = []
    copy.plant([fault])
    while paths:
        run = TestRun(paths, never=never, is_first_enough=True)
        failed = copy.failing(run)
        found = control.passing(failed, run)
        if found or not failed:
            return found[0] if found else ""
        never += failed
    return ""


def in_batches(faults: Iterable[DrawnFault], most: int) -> list[list[DrawnFault]]:
    """Return the faults in batches of different modules, in order as far as possible."""
    batches: list[list[DrawnFault]] = []
    for fault in faults:
        for batch in batches:
            if len(batch) < most and fault.file not in {other.file for other in batch}:
                batch.append(fault)
                break
        else:
            batches.append([fault])
    return batches


def attributed(faults: Sequence[DrawnFault], failed: Sequence[str], first: FirstFailing, is_likely: IsLikely,
               ) -> Iterator[tuple[DrawnFault, str]]:  # fmt: skip
    """Yield (fault, test that finds it or ""), given the tests that failed with all faults together.

    They are tried again with each fault alone, the likely ones first, until one fails. A test that fails with no fault
    alone finds none: two faults together may do what neither does.
    """
    for fault in faults:
        tests = sorted(failed, key=lambda test: not is_likely(fault, test))
        yield fault, first(fault, tests) if tests else ""


class Search:
    """Search for tests that find the faults. Results are kept in a file as soon as they are known."""

    def __init__(self, folder: Path, results: Results, jobs: int, say: Say, together: int = TOGETHER) -> None:
        self.results, self.jobs, self._say, self.together = results, jobs, say, together
        self.processes = Processes()
        self._copies: SimpleQueue[Copy] = SimpleQueue()
        for at in range(jobs):
            self._copies.put(Copy(_made(folder / f"copy-{at}"), results.root, self.processes))
        self._control = Control(Copy(_made(folder / "control"), results.root, self.processes))

    def run(self, step: str, faults: Sequence[DrawnFault]) -> None:
        """Run a step for every fault that has no result of it."""
        root = self.results.root
        todo = [fault for fault in faults if self.results.of(fault, step) is None]
        left = self._in_children(step, todo)
        if step == OWN:
            self._each(self._own, left)
        elif step == FOLDER:
            batches = [(batch, TestRun(tests)) for tests, mine in _by_mirror(root, left)
                       for batch in in_batches(mine, self.together)]  # fmt: skip
            self._each(lambda job, copy: self._batch(copy, job[0], step, job[1]), batches)
        else:
            for batch in in_batches(left, self.together):
                run = _selected(root, step)._replace(workers=self.jobs)
                self._each(lambda job, copy: self._batch(copy, job[0], step, job[1]), [(batch, run)])

    def _each(self, work: Callable[..., None], jobs: Sequence[object]) -> None:
        """Do a work for every job, with a copy for each process. After an interrupt none begins."""

        def do(job: object) -> None:
            copy = self._copies.get()
            try:
                work(job, copy)
            finally:
                self._copies.put(copy)

        with ThreadPoolExecutor(self.jobs) as pool:
            try:
                _wait_for([pool.submit(do, job) for job in jobs])
            except BaseException:
                self.processes.stop()
                pool.shutdown(cancel_futures=True)
                raise

    def _in_children(self, step: str, faults: Sequence[DrawnFault]) -> list[DrawnFault]:
        """Try faults in child processes, and return those that must be planted: also the faults that step 3 does not
        find, because some of its tests start commands."""
        root = self.results.root
        left: list[DrawnFault] = []
        if step == SUITE and len(faults) <= FEW:
            return [*faults]
        jobs = [(TestRun(tests), mine) for tests, mine in _by_mirror(root, faults)]
        if step == OWN:
            jobs = [(TestRun(sorted({test for fault in mine for test in own(root, fault.file)})), mine)
                    for _, mine in jobs]  # fmt: skip
        elif step != FOLDER:
            jobs = [(_selected(root, step), [*faults])] if faults else []

        def work(job: tuple[TestRun, list[DrawnFault]], copy: Copy) -> None:
            run, mine = job
            begun = time.monotonic()
            found = {} if run.paths else {fault.name: "" for fault in mine}
            try:
                if run.paths:
                    found = copy.found_by_children(mine, run, step == OWN)
            except Stopped:
                found = copy.found_so_far()
                raise
            finally:
                for fault in [fault for fault in mine if fault.name in found]:
                    if found[fault.name] == LEFT or (step == SUITE and not found[fault.name]):
                        left.append(fault)
                    else:
                        self._keep(fault, step, found[fault.name], begun)

        self._each(work, jobs)
        return left

    def _own(self, fault: DrawnFault, copy: Copy) -> None:
        begun = time.monotonic()
        self._keep(fault, OWN, found_by_own(fault, copy, self._control), begun)

    def _batch(self, copy: Copy, batch: list[DrawnFault], step: str, run: TestRun) -> None:
        """Run tests with a batch of faults, and find the fault that explains each failing test."""
        begun = time.monotonic()
        failed = self.results.failed(batch, step)
        if failed is None:
            copy.plant(batch)
            failed = copy.failing(run)
            self.results.keep_failed(batch, step, failed)
        self._say(f"{step}: {len(failed)} tests fail with {len(batch)} faults together")

        def first(fault: DrawnFault, tests: Sequence[str]) -> str:
            copy.plant([fault])
            again = run if any(test.startswith(NO_RESULT) for test in tests) else only(tests, marks=run.marks)
            return next(iter(copy.failing(again._replace(is_first_enough=True))), "")

        def is_likely(fault: DrawnFault, test: str) -> bool:
            path = copy.root / test.partition("::")[0]
            return path.is_file() and Path(fault.file).stem in path.read_text("utf-8")

        for fault, test in attributed(batch, self._control.passing(failed, run), first, is_likely):
            self._keep(fault, step, test, begun)

    def _keep(self, fault: DrawnFault, step: str, test: str, begun: float) -> None:
        self.results.keep(fault, Result(step, test), time.monotonic() - begun)
        self._say(f"{fault.name}\n    {step}: {test or 'not found'}")


def _by_mirror(root: Path, faults: Iterable[DrawnFault]) -> list[tuple[tuple[str, ...], list[DrawnFault]]]:
    """Return the faults with the unit tests of the folder that mirrors their module's."""
    found: dict[tuple[str, ...], list[DrawnFault]] = {}
    for fault in faults:
        found.setdefault((*mirror(root, fault.file),), []).append(fault)
    return [*found.items()]


def _selected(root: Path, step: str) -> TestRun:
    """Return the tests of the last two steps."""
    if step == LAWS:
        return TestRun([folder for folder in LAW_FOLDERS if (root / folder).is_dir()], marks=WITH_LONG)
    parts = sorted(path.relative_to(root).as_posix() for path in (root / "tests").iterdir() if path.is_dir())
    return TestRun([part for part in parts if part not in (*LAW_FOLDERS, OWN_TESTS) and "__pycache__" not in part])


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


def _wait_for(futures: Sequence[Future[None]]) -> None:
    """Wait for all, and raise the first exception at once."""
    left = {*futures}
    while left:
        done, left = wait(left, return_when=FIRST_COMPLETED)
        for future in done:
            future.result()
