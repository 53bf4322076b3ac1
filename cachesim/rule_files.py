"""``-p my_rules.py`` or ``-p my_rules.py:NAME``: rule sets in a Python file that the user asks to run.

This is the one place that executes a file from elsewhere, and only because its name stands on the command line (or in a
pytest configuration); a scenario that names such a file does not make it run. Whatever the file does while it is run is
its author's business; what it prints goes to stderr, where it spoils no result.
"""

from __future__ import annotations

import hashlib
import inspect
import os.path
import re
import sys
from contextlib import redirect_stdout
from pathlib import Path
from traceback import walk_tb
from types import ModuleType
from typing import Any, Callable, NamedTuple

from cachesim import pool
from cachesim.engines import registry
from cachesim.engines.rule import RULES
from cachesim.engines.shared.rule_set import RuleSet
from cachesim.errors import BadInput, Crash, cut, nearest, quoted
from cachesim.limits import SCENARIO_BYTES
from cachesim.reading import path_of, read_text

_NAMED = re.compile(r"(?P<file>.*\.py)(?::(?P<name>[^:/\\]*))?", re.S)


class RuleFile(NamedTuple):
    """A file that was run: its path as it was given, its text, and its rule sets by the variables that hold them."""

    path: Path
    text: str
    sets: dict[str, RuleSet]


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
    sets = run(file).sets
    chosen = [rules for variable, rules in sets.items() if name in (None, variable, rules.name)]
    if not chosen:
        raise BadInput(f"no rule set {quoted(name)} in it", file=str(file), hint=nearest(name, sets) or ", ".join(sets))
    if len({rules.name for rules in chosen}) > 1:
        raise BadInput(f"{len(sets)} rule sets in it: {', '.join(sets)}", file=str(file), hint=f"name one: {file}:NAME")
    return chosen[0].name


def run(path: Path) -> RuleFile:
    """Execute a file, once; all its rule sets join those that are known, here and in the processes that share the
    work. Raises BadInput with the place in the file."""
    real = os.path.realpath(path)
    if real not in _files:
        before = dict(RULES)
        text = read_text(path, SCENARIO_BYTES, "file of rules")
        try:
            _files[real] = RuleFile(path, text, _sets(path, _executed(path, text, real)))
        except BadInput:
            RULES.clear()
            RULES.update(before)
            raise
        pool.begin_with(run, path)
    return _files[real]


def _executed(path: Path, text: str, real: str) -> ModuleType:
    """The module that the file is. No byte code is written beside it, and no other folder is searched for imports."""
    module = ModuleType(f"cachesim_rules_{len(_files)}")
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
    line = error.lineno if isinstance(error, SyntaxError) and error.filename == real else _line(error, real)
    if isinstance(error, BadInput):
        return BadInput(error.cause, file=str(path), line=line, hint=error.hint)
    if isinstance(error, MemoryError):         # what CPython's parser says of a thousand signs in a row, too
        return BadInput("nested too deep, or too large", file=str(path), line=line)
    told = cut(error.msg if isinstance(error, SyntaxError) else str(error))
    name = "" if isinstance(error, Crash) else type(error).__name__
    return BadInput(": ".join(filter(None, (name, told))), file=str(path), line=line)


def _line(error: BaseException, real: str) -> int | None:
    lines = [number for frame, number in walk_tb(error.__traceback__) if frame.f_code.co_filename == real]
    return lines[-1] if lines else None


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


def file_with(rule: Callable[..., Any]) -> RuleFile | None:
    """The file that a rule is written in, None if it is none of these."""
    return _files.get(inspect.unwrap(rule).__code__.co_filename)


def blamed(error: BaseException) -> BadInput | None:
    """What a rule of such a file raised, with its place; None where none of them was at work."""
    for real, one in _files.items():
        if _line(error, real) is not None:
            return _placed(error, one.path, real)
    return None


def typed(profile: str) -> str:
    """What to type behind ``-p`` for this profile: its name, or the file that brought it."""
    one = file_of(profile)
    if one is None:
        return profile
    names = [name for name, rules in one.sets.items() if rules.name == profile]
    return str(one.path) if len(one.sets) == len(names) else f"{one.path}:{names[0]}"


def digest(profile: str) -> str:
    """The SHA-256 of the file that brought this profile, "" if none did: what was found under it, was so under these
    rules."""
    one = file_of(profile)
    return "" if one is None else hashlib.sha256(one.text.encode()).hexdigest()


def heading(profile: str, folder: Path | None = None) -> dict[str, Any]:
    """What the head of a scenario file in this folder (None = the current one) says of where a profile is from."""
    one = file_of(profile)
    return {} if one is None else {"rules": [Path(os.path.relpath(one.path, folder or os.curdir)).as_posix()]}
