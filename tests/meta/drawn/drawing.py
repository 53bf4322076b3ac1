"""Faults drawn over the whole package by a seed, in proportion to the code of its folders.

Every line that can be changed has a number, derived from the seed, its module, its function and its own text; so has
every kind of change of it, and every change. A folder's faults are those with the smallest numbers, at most one in a
function: the draw is the same on every machine, and a change of a module hardly affects the others.
"""

from __future__ import annotations

import ast
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Container, Iterable, Iterator, Mapping, NamedTuple

from tests.meta.drawn.changes import Change, Source, changes, functions, is_fault
from tests.meta.drawn.folders import folder_of

FEWEST = 3             # faults of a folder
WIDTH = 60             # characters of the line in a name


class DrawnFault(NamedTuple):
    """Change of a function of a module. ``file`` is a path below ``cachesim``."""

    file: str
    function: str            # qualified name
    line: str                # text of the line in which it begins, without its indentation
    column: int              # of that line
    nth: int                 # of equal changes in equal lines of the function, from 0
    change: Change

    @property
    def name(self) -> str:
        """Name that stays the same while other lines change."""
        again = f", line {self.nth + 1} of its kind" if self.nth else ""
        return f"{self.file}, {self.function}: {self.change.how} at {self.column} of {self.line[:WIDTH]}{again}"

    @property
    def folder(self) -> str:
        """Folder of the package that the fault is counted in."""
        return folder_of(self.file)

    def number(self, seed: int) -> tuple[str, str, str]:
        """Return digests that order the faults: of the line, of the kind of the change, and of the change."""
        line = f"{seed} {self.file} {self.function} {self.line} {self.nth}"
        kind = f"{line} {self.change.kind}"
        return _digest(line), _digest(kind), _digest(f"{kind} {self.column} {self.change.how} {self.change.new}")

    def is_default(self, text: str) -> bool:
        """True if the change is one of a default argument: it is evaluated when the module is imported."""
        source = Source(text)
        for name, function in functions(ast.parse(text)):
            if name == self.function and source.start(function) <= self.change.start < source.stop(function):
                return self.change.start < source.start(function.body[0])
        return False

    def statement_line(self, text: str) -> int:
        """Return the number of the first line of the innermost statement that the change is part of."""
        source = Source(text)
        nodes = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.stmt))
        starts = [source.start(node) for node in nodes
                  if source.start(node) <= self.change.start < source.stop(node)]  # fmt: skip
        return source.line(max(starts)) + 1

    def planted(self, text: str) -> str:
        """Return the text of the module with the fault."""
        return Source(text).changed(self.change)


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()


def drawn(package: Path, number: int, seed: int, folders: Container[str] = ()) -> list[DrawnFault]:
    """Return so many faults of a package, those of a folder together, in the order of the folders: of them only those
    in the given ``folders``, () = all."""
    every = all_faults(package)
    shares = allotted({folder: len(_lines(faults)) for folder, faults in every.items()}, number)
    return [fault for folder, faults in every.items() if not folders or folder in folders
            for fault in _first(faults, shares[folder], seed, package)]  # fmt: skip


def all_faults(package: Path) -> dict[str, list[DrawnFault]]:
    """Return every possible fault by folder; some of them may turn out to be no program (see ``is_fault``)."""
    every: dict[str, list[DrawnFault]] = {}
    for path in sorted(package.rglob("*.py")):
        faults = faults_of(path.relative_to(package).as_posix(), path.read_text("utf-8"))
        if faults:
            every.setdefault(folder_of(path.relative_to(package).as_posix()), []).extend(faults)
    return dict(sorted(every.items()))


@cache
def faults_of(file: str, text: str) -> tuple[DrawnFault, ...]:
    """Return every possible fault of a module."""
    return tuple(_faults(file, text))


def _faults(file: str, text: str) -> Iterator[DrawnFault]:
    source = Source(text)
    met: dict[tuple[object, ...], int] = {}
    for name, function in functions(ast.parse(text)):
        for change in changes(function, source):
            line = source.lines[source.line(change.start)].decode().strip()
            column = source.column(change.start)
            key = name, line, column, change.how, change.new
            nth = met[key] = met.get(key, -1) + 1
            yield DrawnFault(file, name, line, column, nth, change)


def _lines(faults: Iterable[DrawnFault]) -> set[tuple[object, ...]]:
    """Return the lines that can be changed."""
    return {(fault.file, fault.function, fault.line, fault.nth) for fault in faults}


def _first(faults: Iterable[DrawnFault], number: int, seed: int, package: Path) -> Iterator[DrawnFault]:
    """Yield the faults with the smallest numbers, at most one in a function."""
    taken: set[tuple[str, str]] = set()
    for fault in sorted(faults, key=lambda fault: fault.number(seed)):
        if len(taken) == number:
            return
        where = fault.file, fault.function
        if where not in taken and is_fault(Source((package / fault.file).read_text("utf-8")), fault.change):
            taken.add(where)
            yield fault


def allotted(sizes: Mapping[str, int], number: int) -> dict[str, int]:
    """Return the number of faults of each folder: in proportion to its size, at least ``FEWEST``, together ``number``
    (or ``FEWEST`` for each)."""
    shares = dict.fromkeys(sizes, FEWEST)
    left = max(0, number - sum(shares.values()))
    large = {folder: size for folder, size in sizes.items() if size * number > FEWEST * sum(sizes.values())}
    ideal = {folder: size * number / sum(sizes.values()) - FEWEST for folder, size in large.items()}
    scale = left / sum(ideal.values()) if ideal else 0
    exact = {folder: share * scale for folder, share in ideal.items()}
    for folder, share in exact.items():
        shares[folder] += int(share)
    rest = left - sum(int(share) for share in exact.values())
    by_rest = sorted(exact, key=lambda folder: (int(exact[folder]) - exact[folder], folder))
    for folder in by_rest[: rest if exact else 0]:
        shares[folder] += 1
    return shares
