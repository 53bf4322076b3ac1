"""Plants the faults that people make, and prints which of them `make test` finds.

Run: ``python -m tests.meta.people``. Each fault is planted alone in a copy of the checkout, whose mirrored unit tests
run first. The faults that these miss are then planted together, and the rest of the suite runs once; a failing test
counts for the fault that makes it fail alone.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from argparse import ArgumentParser
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Iterable, Sequence

from tests.meta.people.faults import EARLIER, LISTS, PeopleFault, people_faults, survivors

ROOT = Path(__file__).parents[3]
SECONDS = 900                                    # after which a run of tests counts as endless
FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+?\.py(?:::.*?)?)(?: - .*)?$", re.MULTILINE)
LEFT_OUT = ("tests/house", "tests/meta")         # these read the text of the package
ENDLESS = "the tests do not end"
MOST = 60                                        # failing tests that are asked again, one fault at a time


def main(argv: list[str] | None = None) -> int:
    """Print a line for each fault and return 1 if one survives that is not listed."""
    parser = ArgumentParser(prog="python -m tests.meta.people", description=__doc__.split("\n")[0])
    parser.add_argument("--jobs", type=int, default=2, help="processes at once (default 2)")
    parser.add_argument("--only", default="", metavar="TEXT", help="faults whose file contains this text")
    parser.add_argument("--earlier", action="store_true", help="the faults of earlier_faults.toml")
    parser.add_argument("--mirrored", action="store_true", help="only the mirrored unit tests")
    args = parser.parse_args(argv)
    faults = [fault for fault in people_faults(EARLIER if args.earlier else LISTS) if args.only in fault.file]
    with ThreadPoolExecutor(args.jobs) as pool:
        first = pool.map(lambda fault: failing([fault], mirrored(fault), ("-x",)), faults)
        found = {fault: tests[0] for fault, tests in zip(faults, first, strict=True) if tests}
    left = [fault for fault in faults if fault not in found]
    while left and not args.mirrored:
        new = found_together(left, args.jobs)
        if not new:
            break
        found.update(new)
        left = [fault for fault in left if fault not in new]
    for fault in faults:
        verdict = f"found by {found[fault]}" if fault in found else "SURVIVES"
        print(f"{fault.file}: {fault.name} [{fault.kind}]: {verdict}")
    print(f"{len(found)} of {len(faults)} found")
    return 1 if {fault.name for fault in left} - set(survivors()) else 0


def mirrored(fault: PeopleFault) -> list[str]:
    """Return the folder of the unit tests that mirrors the module of a fault."""
    folder = ROOT / "tests" / "unit" / Path(fault.file).parent
    while not list(folder.glob("test_*.py")) and folder.name != "unit":
        folder = folder.parent
    if folder.name == "unit":
        return [path.relative_to(ROOT).as_posix() for path in sorted(folder.glob("test_*.py"))]
    return [folder.relative_to(ROOT).as_posix()]


def found_together(faults: Sequence[PeopleFault], jobs: int) -> dict[PeopleFault, str]:
    """Plant all the faults at once, and return those that a failing test of the suite finds alone."""
    found: dict[PeopleFault, str] = {}
    for test in failing(faults, ["tests"], ("-n", str(jobs), "--dist", "loadfile"))[:MOST]:
        for fault in faults:
            if fault not in found and failing([fault], [test], ("-x",)):
                found[fault] = test
                break
    return found


def failing(faults: Iterable[PeopleFault], tests: Sequence[str], options: Sequence[str]) -> list[str]:
    """Return the tests that fail in a copy of the checkout with these faults."""
    with tempfile.TemporaryDirectory(prefix="people-") as name:
        copy = Path(name) / "cachesim"
        _copy(copy)
        for fault in faults:
            path = copy / "cachesim" / fault.file
            text = path.read_text("utf-8")
            assert text.count(fault.old) == 1, f"{fault.file} does not contain this text once: {fault.old}"
            path.write_text(text.replace(fault.old, fault.new), "utf-8")
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *options,
                   *(f"--ignore={folder}" for folder in LEFT_OUT), *tests]
        environment = {**os.environ, "PYTHONPATH": str(copy)}
        try:
            done = subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True, timeout=SECONDS,
                                  check=False)
        except subprocess.TimeoutExpired:
            return [ENDLESS]
        return FAILED.findall(done.stdout) or ([ENDLESS] if done.returncode not in (0, 1) else [])


def _copy(folder: Path) -> None:
    """Copy the files of the checkout that git knows, and link the recordings beside it."""
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True,
                            check=True)
    for name in listed.stdout.splitlines():
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, folder / name)
    shared = ROOT.parent / "shared"
    if shared.exists():
        (folder.parent / "shared").symlink_to(shared.resolve())


if __name__ == "__main__":
    sys.exit(main())
