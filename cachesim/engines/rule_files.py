"""``-p my_rules.py`` or ``-p my_rules.py:NAME``: rule sets in a Python file that the user asks to run.

This is the one place that executes a file from elsewhere, and only because its name stands on the command line (or in a
pytest configuration); a scenario that names such a file does not make it run. Whatever the file does while it is run is
its author's business; what it prints goes to stderr, where it spoils no result. While it is run it may import files
that lie beside it, as a script may.
"""

from __future__ import annotations

import hashlib
import inspect
import os.path
import re
import sys
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from traceback import walk_tb
from types import ModuleType
from typing import Any, Callable, Iterator, Mapping, NamedTuple

from cachesim.base import pool
from cachesim.base.errors import BadInput, Crash, cut, nearest, quoted
from cachesim.base.limits import SCENARIO_BYTES
from cachesim.base.untrusted_files import path_of, read_text
from cachesim.engines import registry
from cachesim.engines.rule import RULES
from cachesim.engines.shared.rule_set import RuleSet

_MODULE = "cachesim_rules_"
_NAMED = re.compile(r"(?P<file>.*\.py)(?::(?P<name>[^:/\\]*))?", re.S)


class RuleFile(NamedTuple):
    """A file that was run: its path as it was given, its text, its rule sets by the variables that hold them, and the
    texts of the files beside it that it imported, by real path."""

    path: Path
    text: str
    sets: dict[str, RuleSet]
    beside: Mapping[str, str]

    def place(self, file: str) -> Path | None:
        """The path of one of its files, given the real one, as a message names it; None for any other file."""
        return self.path.parent / os.path.relpath(file, _folder(self.path)) if file in self.beside else None


_files: dict[str, RuleFile] = {}              # by real path


def is_rule_file(text: str) -> bool:
    """Does an argument name a file of rules, where a profile is wanted?"""
    return _NAMED.fullmatch(text) is not None


def profile_of(text: str) -> str:
    """Run the file that an argument names, unless that was done, and return the name of the profile that is meant.
    Raises BadInput."""
    found = _NAMED.fullmatch(text)
    if found is None:
        raise BadInput(f"{quoted(text)} is no file of rules", hint="FILE.py or FILE.py:NAME")
    file, name = path_of(found["file"]), found["name"]
    sets = run_rule_file(file).sets
    chosen = [rules for variable, rules in sets.items() if name in (None, variable, rules.name)]
    if not chosen:
        raise BadInput(f"no rule set {quoted(name)} in it", file=str(file), hint=nearest(name, sets) or ", ".join(sets))
    if len({rules.name for rules in chosen}) > 1:
        raise BadInput(f"{len(sets)} rule sets in it: {', '.join(sets)}", file=str(file), hint=f"name one: {file}:NAME")
    return chosen[0].name


def run_rule_file(path: Path) -> RuleFile:
    """Execute a file, once; all its rule sets join those that are known, here and in the processes that share the
    work. Raises BadInput with the place in the file."""
    real = os.path.realpath(path)
    if real not in _files:
        before = dict(RULES)
        text = read_text(path, SCENARIO_BYTES, "file of rules")
        beside: dict[str, str] = {}
        try:
            with _importing(_folder(path), beside):
                module = _executed(path, text, real)
            _files[real] = RuleFile(path, text, _sets(path, module), beside)
        except BadInput:
            shipped = {name: fn for name, fn in RULES.items() if fn.__module__.partition(".")[0] == __package__}
            RULES.clear()
            RULES.update({**shipped, **before})          # an engine may have been imported meanwhile
            raise
        pool.begin_with(run_rule_file, path)
    return _files[real]


def _folder(path: Path) -> str:
    return os.path.dirname(os.path.realpath(path))


@contextmanager
def _importing(folder: str, beside: dict[str, str]) -> Iterator[None]:
    """Files of this folder can be imported by name, as for a script; ``beside`` gets the texts of those that were.
    Afterwards they are as unknown as before: another folder may have files of the same names."""
    before, written = set(sys.modules), sys.dont_write_bytecode
    sys.path.insert(0, folder)
    sys.dont_write_bytecode = True
    try:
        yield
    finally:
        sys.dont_write_bytecode = written
        sys.path.remove(folder)
        known = {name.partition(".")[0] for name in before}
        for name in set(sys.modules) - before:
            file, top = getattr(sys.modules[name], "__file__", None) or "", name.partition(".")[0]
            if top not in known and file.startswith((os.path.join(folder, f"{top}.py"), os.path.join(folder, top, ""))):
                beside[file] = read_text(Path(file), SCENARIO_BYTES, "file of rules")
                del sys.modules[name]


def _executed(path: Path, text: str, real: str) -> ModuleType:
    """The module that the file is. No byte code is written beside it."""
    module = ModuleType(f"{_MODULE}{len(_files)}")
    module.__file__ = real
    sys.modules[module.__name__] = module      # where dataclasses and `inspect` look
    try:
        with redirect_stdout(sys.stderr):
            exec(compile(text, real, "exec", dont_inherit=True), module.__dict__)
    except (Exception, SystemExit) as error:
        raise _placed(error, path, real) from error
    return module


def _placed(error: BaseException, path: Path, real: str) -> BadInput:
    """What went wrong, with the last line of this file that had a part in it."""
    lines = [number for frame, number in walk_tb(error.__traceback__) if frame.f_code.co_filename == real]
    line = lines[-1] if lines else None
    if isinstance(error, SyntaxError) and error.filename == real:
        line = error.lineno
    if isinstance(error, BadInput):
        return BadInput(error.cause, file=str(path), line=line, hint=error.hint)
    if isinstance(error, MemoryError):         # what CPython's parser says of a thousand signs in a row, too
        return BadInput("nested too deep, or too large", file=str(path), line=line)
    told = cut(error.msg if isinstance(error, SyntaxError) else str(error))
    name = "" if isinstance(error, Crash) else type(error).__name__
    return BadInput(": ".join(filter(None, (name, told))), file=str(path), line=line)


def _sets(path: Path, module: ModuleType) -> dict[str, RuleSet]:
    try:
        found = registry.rule_sets(module)
        for rules in found:
            registry.add(rules, f"from {path}")
    except BadInput as bad:
        raise bad.at(str(path)) from None
    mine = {id(rules) for rules in found}
    return {name: value for name, value in vars(module).items() if id(value) in mine and not name.startswith("_")}


def file_of(profile: str) -> RuleFile | None:
    """The file that brought this profile, None if none did."""
    return next((one for one in _files.values() if any(r.name == profile for r in one.sets.values())), None)


def file_with(rule: Callable[..., Any]) -> Path | None:
    """The path of the file that a rule is written in, None if it is none of these and none that they imported."""
    return _path(inspect.unwrap(rule).__code__.co_filename)


def locate_fault(error: BaseException) -> BadInput | None:
    """What a rule of such a file, or of one beside it, raised or returned, with its place; None where none of them was
    at work."""
    for frame, _ in reversed([*walk_tb(error.__traceback__)]):
        real = frame.f_code.co_filename
        if (path := _path(real)) is not None:
            return _placed(error, path, real)
    if isinstance(error, BadInput) and (path := _path(error.file)) is not None:
        return BadInput(error.cause, file=str(path), line=error.line, hint=error.hint)
    return None


def _path(real: str) -> Path | None:
    """How a message names one of these files, or of those beside them; None for any other file."""
    if real in _files:
        return _files[real].path
    return next(filter(None, (one.place(real) for one in _files.values())), None)


def profile_argument(profile: str) -> str:
    """What to type behind ``-p`` for this profile: its name, or the file that brought it."""
    one = file_of(profile)
    if one is None:
        return profile
    names = [name for name, rules in one.sets.items() if rules.name == profile]
    return str(one.path) if len(one.sets) == len(names) else f"{one.path}:{names[0]}"


def rule_file_digest(profile: str) -> str:
    """The SHA-256 of the file that brought this profile and of those that it imported, "" if none did: what was found
    under it, was so under these rules."""
    one = file_of(profile)
    if one is None:
        return ""
    return hashlib.sha256("".join([one.text, *(one.beside[file] for file in sorted(one.beside))]).encode()).hexdigest()


def file_header(profile: str, folder: Path | None = None) -> dict[str, Any]:
    """What the head of a scenario file in this folder (None = the current one) says of where a profile is from."""
    one = file_of(profile)
    return {} if one is None else {"rules": [Path(os.path.relpath(one.path, folder or os.curdir)).as_posix()]}
