"""Exported tests on the released classes of SGLang: ``python -m tests.peers.sglang_exported FOLDER``.

FOLDER: an unpacked wheel of sglang 0.5.23 (or of ``--release V``), beside torch, numpy and msgspec. The bundled
scenarios are exported with the numbers of the release, of other ones and of the repaired rules. A test must pass if the
release reuses the same tokens and answers correctly, and fail otherwise. With the edits of sglang_repairs.toml, which
fit 0.5.23, those with the numbers of the repaired rules must all pass. Exit code 1 if an outcome differs.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import torch  # noqa: F401  (before the forks: its import takes longer than a test)

from cachesim.base.errors import BadInput
from cachesim.engines.registry import ENGINES
from cachesim.judging.judged_run import run_judged
from cachesim.scenarios.corpus import corpus_files
from cachesim.scenarios.load import load
from cachesim.scenarios.schema import Scenario
from cachesim.tools.live.class_export import class_program

NEWEST = "0.5.23"
REPAIRED = f"sglang@{NEWEST}-repaired"
EDITS = Path(__file__).with_name("sglang_repairs.toml")


class Outcome(NamedTuple):
    """A test that was run, what it must do, and its last line."""

    name: str
    must_pass: bool
    passed: bool
    said: str


def repair(folder: Path, into: Path) -> Path:
    """Write a copy of a release with all edits; return its folder."""
    source, made = folder / "sglang", into / "sglang"
    shutil.copytree(source, made, ignore=shutil.ignore_patterns("*.so", "*.json", "*.cu", "*.cuh", "*.h", "*.pyc"))
    for edit in tomllib.loads(EDITS.read_text("utf-8"))["edit"]:
        file = made / "srt" / edit["file"]
        text = file.read_text("utf-8")
        if text.count(edit["at"]) != 1:
            raise SystemExit(f"{edit['file']}: the text of {edit['rule']} does not stand there once")
        file.write_text(text.replace(edit["at"], edit["by"]), "utf-8")
    return into


def passes(folder: Path, program: str) -> tuple[bool, str]:
    """Run a test in a process of its own, on the classes of a folder; return whether it passes, and what it says."""
    reader, writer = os.pipe()
    pid = os.fork()
    if not pid:
        os.environ["SGLANG"] = str(folder)
        said, code = "", 0
        try:
            names: dict[str, object] = {"__name__": "exported"}
            exec(compile(program, "exported", "exec"), names)
            (test,) = (value for name, value in names.items() if name.startswith("test_"))
            with contextlib.redirect_stderr(None):
                test()  # type: ignore[operator]
        except BaseException as error:
            said, code = f"{type(error).__name__}: {error}".partition("\n")[0], 1
        os.write(writer, said.encode()[:1000])
        os._exit(code)
    os.close(writer)
    with open(reader, "rb") as pipe:
        text = pipe.read().decode(errors="replace")
    _, status = os.waitpid(pid, 0)
    return not status, text


def exported(scenario: Scenario, profile: str) -> str:
    """Return the test of a scenario with the numbers of a rule set, "" if it cannot be exported."""
    test = ENGINES["sglang"].class_test()
    try:
        return class_program(scenario, profile, test)
    except BadInput:
        return ""


def parts(program: str) -> tuple[str, str]:
    """Return the options and the requests of a program."""
    before, _, after = program.partition("OPTIONS = ")[2].partition("REQUESTS = [")
    return before.partition("\n}\n")[0], after.partition("\n]\n")[0]


def is_wrong(scenario: Scenario, profile: str) -> bool:
    """True if a request has no correct answer under a rule set, False also for a rule set that refuses the options."""
    server = {**scenario.server, **ENGINES["sglang"].class_test().options}
    try:
        return bool(run_judged(replace(scenario, server=server, expect={}, lives=()), profile, "provenance").broken)
    except BadInput:
        return False


def cases(words: list[str], release: str) -> Iterator[tuple[str, str, str, dict[str, str]]]:
    """Yield name, test of the release ("" = it answers wrongly), of the repaired rules, and of other rule sets with the
    same options and other numbers."""
    for name in sorted(corpus_files()):
        scenario = load(corpus_files()[name]) if name.startswith("sglang-") and (not words or name in words) else None
        if scenario is None or f"sglang@{NEWEST}" not in scenario.profiles:
            continue
        repaired = exported(scenario, REPAIRED)
        if not repaired:
            continue
        released, others = exported(scenario, release), {}
        if not released and not is_wrong(scenario, release):
            continue
        for profile in scenario.profiles:
            text = exported(scenario, profile)
            if text and released and parts(text)[0] == parts(released)[0] and parts(text)[1] != parts(released)[1]:
                others[profile] = text
        yield name, released, repaired, others


def main(argv: list[str]) -> int:
    """Export and run the tests; print and return what differs."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("scenario", nargs="*", help="scenarios (default: all of SGLang)")
    parser.add_argument("--release", metavar="V", default=NEWEST, help=f"release of the folder (default: {NEWEST})")
    parser.add_argument("-v", action="store_true", dest="shows", help="print each test")
    args = parser.parse_args(argv)
    found: list[Outcome] = []

    def run(folder: Path, name: str, program: str, must_pass: bool) -> None:
        passed, said = passes(folder, program)
        found.append(Outcome(name, must_pass, passed, said))
        if args.shows or passed is not must_pass:
            print(f"{name}: {'passes' if passed else said}{'' if passed is must_pass else '  NOT AS EXPECTED'}",
                  flush=True)  # fmt: skip

    with TemporaryDirectory() as place:
        edited = repair(args.folder, Path(place)) if args.release == NEWEST else None
        for name, released, repaired, others in cases(args.scenario, f"sglang@{args.release}"):
            if released:
                run(args.folder, f"{name}, numbers of the release", released, must_pass=True)
            else:
                run(args.folder, f"{name}, repaired numbers on the release", repaired, must_pass=False)
            if edited:
                run(edited, f"{name}, repaired numbers on the repaired release", repaired, must_pass=True)
            for profile, text in others.items():
                run(args.folder, f"{name}, numbers of {profile}", text, must_pass=False)
    wrong = sum(one.passed is not one.must_pass for one in found)
    failing = sum(not one.must_pass for one in found)
    print(f"sglang {args.release}: {len(found)} exported tests, {failing} must fail, {wrong} wrong outcomes")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
