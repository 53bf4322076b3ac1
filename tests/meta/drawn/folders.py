"""Folders of the package by which faults are counted, and the unit tests that mirror a module."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

TOP = "(top level)"


def folder_of(file: str) -> str:
    """Return the folder that a module (path below ``cachesim``) is counted in: each engine and each tool is one, what
    several engines share is ``engines``."""
    *folders, _ = PurePosixPath(file).parts
    if not folders:
        return TOP
    if folders[0] == "engines" and folders[1:2] != ["shared"]:
        return "/".join(folders[:2])
    return "/".join(folders[:2]) if folders[0] == "tools" else folders[0]


def own(root: Path, file: str) -> list[str]:
    """Return the tests of the mirroring folder that are named after a module."""
    stem = PurePosixPath(file).stem
    return [test for test in mirror(root, file) if PurePosixPath(test).stem.startswith(f"test_{stem}")]


def mirror(root: Path, file: str) -> list[str]:
    """Return the unit tests of the folder that mirrors a module's, as paths below ``root``: of the nearest folder above
    if it has none. Those of deeper folders belong to other modules."""
    unit = root / "tests" / "unit"
    folder = (unit / file).parent
    while not (tests := sorted(folder.glob("test_*.py"))) and folder != unit:
        folder = folder.parent
    return [test.relative_to(root).as_posix() for test in tests]
