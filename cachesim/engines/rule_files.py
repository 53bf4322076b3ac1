"""Rule sets in a Python file that the user names: ``-p my_rules.py`` or ``-p my_rules.py:NAME``.

This module alone executes user-supplied Python files, and only if the command line (or a pytest configuration) names
the file; a scenario that names such a file does not execute it. The file runs without restrictions. Its output to
stdout is redirected to stderr, so that it cannot corrupt results. While it runs it can import files from its own
folder, like a script.
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
from types import FrameType, ModuleType
from typing import Any, Callable, Iterator, Mapping, NamedTuple, Sequence

from cachesim.base import pool
from cachesim.base.errors import BadInput, Crash, cut, first_of, nearest, quoted
from cachesim.base.limits import RULE_LINE, SCENARIO_BYTES
from cachesim.base.untrusted_files import path_of, read_text
from cachesim.engines import registry
from cachesim.engines.rule import RULES, Decision
from cachesim.engines.shared.rule_set import RuleSet

_MODULE = "cachesim_rules_"
PACKAGE = __name__.partition(".")[0]
"""Package whose rules stay known if a rule file fails."""
_UNEXPECTED = re.compile(r"unexpected keyword argument '(\w+)'")
_NAMED = re.compile(r"(?P<file>.*\.py)(?::(?P<name>[^:/\\]*))?", re.S)


class RuleFile(NamedTuple):
    """An executed rule file: its path as given, its text, its rule sets by variable name, and the texts of the files
    from its folder that it imported, by real path."""

    path: Path
    text: str
    sets: dict[str, RuleSet]
    beside: Mapping[str, str]

    def place(self, file: str) -> Path | None:
        """Return the path of an imported file, given its real path, as messages print it; None for any other file."""
        return self.path.parent / os.path.relpath(file, _folder(self.path)) if file in self.beside else None


_files: dict[str, RuleFile] = {}              # by real path


def is_rule_file(text: str) -> bool:
    """True if a profile argument names a rule file."""
    return _NAMED.fullmatch(text) is not None


def profile_of(text: str) -> str:
    """Run the rule file that an argument names, unless it was already run, and return the name of the selected profile.
    Raise BadInput."""
    found = _NAMED.fullmatch(text)
    if found is None:
        raise BadInput(f"not a rule file: {quoted(text)}", hint="FILE.py or FILE.py:NAME")
    file, name = path_of(found["file"]), found["name"]
    sets = run_rule_file(file).sets
    chosen = [rules for variable, rules in sets.items() if name in (None, variable, rules.name)]
    if not chosen:
        hint = nearest(name, sets) or first_of(list(sets))
        raise BadInput(f"no rule set {quoted(name)} in the file", file=str(file), hint=hint)
    if len({rules.name for rules in chosen}) > 1:
        raise BadInput(f"{len(sets)} rule sets in the file: {', '.join(sets)}", file=str(file), hint=f"use {file}:NAME")
    return chosen[0].name


def run_rule_file(path: Path) -> RuleFile:
    """Execute a file once and register its rule sets, in this process and in the worker processes. Raise BadInput with
    the position in the file."""
    real = os.path.realpath(path)
    if real not in _files:
        before = dict(RULES)
        text = read_text(path, SCENARIO_BYTES, "rule file")
        for number, line in enumerate(text.split("\n"), 1):     # Python needs memory quadratic in a long dotted name
            RULE_LINE.check(len(line), "line", file=str(path), line=number)
        beside: dict[str, str] = {}
        try:
            with _importing(_folder(path), beside):
                module = _executed(path, text, real)
            _files[real] = RuleFile(path, text, _sets(path, module), beside)
        except BadInput:
            shipped = {name: fn for name, fn in RULES.items() if fn.__module__.partition(".")[0] == PACKAGE}
            RULES.clear()
            RULES.update({**shipped, **before})          # keep rules of engines imported meanwhile
            raise
        pool.begin_with(run_rule_file, path)
    return _files[real]


def _folder(path: Path) -> str:
    return os.path.dirname(os.path.realpath(path))


@contextmanager
def _importing(folder: str, beside: dict[str, str]) -> Iterator[None]:
    """Make the files of this folder importable by name, as for a script; store the texts of the imported files in
    ``beside``. Afterwards remove these modules, because another folder may have files with equal names."""
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
                beside[file] = read_text(Path(file), SCENARIO_BYTES, "rule file")
                del sys.modules[name]


def _executed(path: Path, text: str, real: str) -> ModuleType:
    """Execute the file as a module and return it. Writes no byte code."""
    module = ModuleType(f"{_MODULE}{len(_files)}")
    module.__file__ = real
    sys.modules[module.__name__] = module      # dataclasses and `inspect` look modules up here
    try:
        with redirect_stdout(sys.stderr):
            exec(compile(text, real, "exec", dont_inherit=True), module.__dict__)
    except (Exception, SystemExit) as error:
        raise _placed(error, path, real) from error
    return module


def _placed(error: BaseException, path: Path, real: str) -> BadInput:
    """Convert an exception to BadInput with the innermost line of this file on the stack."""
    lines = [number for frame, number in walk_tb(error.__traceback__) if frame.f_code.co_filename == real]
    line = lines[-1] if lines else None
    if isinstance(error, SyntaxError) and error.filename == real:
        line = error.lineno
    if isinstance(error, BadInput):
        return BadInput(error.cause, file=str(path), line=line, hint=error.hint)
    if isinstance(error, MemoryError):         # CPython's parser raises it for deep nesting, too
        return BadInput("nested too deeply or too large", file=str(path), line=line)
    text = cut(error.msg if isinstance(error, SyntaxError) else str(error))
    name = "" if isinstance(error, Crash) else type(error).__name__
    return BadInput(": ".join(filter(None, (name, text))), file=str(path), line=line, hint=_meant(error))


def _meant(error: BaseException) -> str:
    """Return a hint for a misspelled attribute, variable or field of a rule set, "" for any other error."""
    frames = [frame for frame, _ in walk_tb(error.__traceback__)]
    if isinstance(error, AttributeError) and isinstance(error.name, str):
        return nearest(error.name, [name for name in dir(error.obj) if not name.startswith("_")])
    if isinstance(error, NameError) and isinstance(error.name, str) and frames:
        return nearest(error.name, {**frames[-1].f_globals, **frames[-1].f_locals})
    field = _UNEXPECTED.search(str(error)) if isinstance(error, TypeError) else None
    tables = (value for frame in reversed(frames) for value in frame.f_locals.values() if isinstance(value, RuleSet))
    table = next(tables, None) if field else None
    return nearest(field[1], table.fields()) if field and table else ""


def _sets(path: Path, module: ModuleType) -> dict[str, RuleSet]:
    try:
        found = registry.rule_sets(module)
        for rules in found:
            registry.add(rules, f"from {path}")
    except BadInput as bad:
        raise bad.at(str(path)) from None
    own = {id(rules) for rules in found}
    return {name: value for name, value in vars(module).items() if id(value) in own and not name.startswith("_")}


def file_of(profile: str) -> RuleFile | None:
    """Return the rule file that defines this profile, None if no file does."""
    return next((file for file in _files.values() if any(r.name == profile for r in file.sets.values())), None)


def file_with(rule: Callable[..., Any]) -> Path | None:
    """Return the path of the file that contains a rule, None if the file was neither loaded as a rule file nor imported
    by a rule file."""
    return _path(inspect.unwrap(rule).__code__.co_filename)


def locate_fault(error: BaseException) -> BadInput | None:
    """Return the error that a rule of such a file, or of a file imported by it, raised or returned, or that a
    driver raised under its rule set, with its position; None if no such rule was involved."""
    frames = [frame for frame, _ in reversed([*walk_tb(error.__traceback__)])]
    for frame in frames:
        real = frame.f_code.co_filename
        if (path := _path(real)) is not None:
            return _placed(error, path, real)
    if isinstance(error, BadInput):
        path = _path(error.file)
        return None if path is None else BadInput(error.cause, file=str(path), line=error.line, hint=error.hint)
    return _answer_in(frames, error) or _rule_set_in(frames, error)


OTHER_KIND = ("a rule answers with the kind of value of the rule that it replaces; if yours does, this is a fault of "
              "cachesim")  # fmt: skip
"""Hint for an error in a driver, which may follow from an answer that the driver cannot use."""


def _named(error: BaseException) -> str:
    return f"{type(error).__name__}: {cut(str(error))}"


def _answer_in(frames: Sequence[FrameType], error: BaseException) -> BadInput | None:
    """Return the error with the last answer of such a rule that a function on the stack holds, None if none does."""
    for frame in frames:
        for value in frame.f_locals.values():
            fn = RULES.get(value.rule) if isinstance(value, Decision) else None
            if fn is None or (path := file_with(fn)) is None:
                continue
            what = f"{_named(error)} after rule {value.rule} returned {quoted(value.value)}"
            line = inspect.unwrap(fn).__code__.co_firstlineno
            return BadInput(what, file=str(path), line=line, hint=OTHER_KIND)
    return None


def _rule_set_in(frames: Sequence[FrameType], error: BaseException) -> BadInput | None:
    """Return the error of a server under a rule set of such a file, None if no object on the stack has one."""
    for frame in frames:
        for value in frame.f_locals.values():
            rules = getattr(value, "__dict__", {}).get("rules")       # a property could raise an error of its own
            if isinstance(rules, RuleSet) and (file := file_of(rules.name)) is not None:
                return BadInput(f"{_named(error)} in a run under {rules.name}", file=str(file.path), hint=OTHER_KIND)
    return None


def _path(real: str) -> Path | None:
    """Return the path of a rule file, or of a file imported by it, as messages print it; None for any other file."""
    if real in _files:
        return _files[real].path
    return next(filter(None, (file.place(real) for file in _files.values())), None)


def profile_argument(profile: str) -> str:
    """Return the argument of ``-p`` that selects this profile: its name, or the file that defines it."""
    file = file_of(profile)
    if file is None:
        return profile
    names = [name for name, rules in file.sets.items() if rules.name == profile]
    return str(file.path) if len(file.sets) == len(names) else f"{file.path}:{names[0]}"


def rule_file_digest(profile: str) -> str:
    """Return the SHA-256 of the file that defines this profile and of the files that it imported, "" if no file does.
    It identifies the rules under which a result was found."""
    found = file_of(profile)
    if found is None:
        return ""
    texts = [found.text, *(found.beside[file] for file in sorted(found.beside))]
    return hashlib.sha256("".join(texts).encode()).hexdigest()


def file_header(profile: str, folder: Path | None) -> dict[str, Any]:
    """Return the header fields that a scenario file in ``folder`` (None = the current folder) needs for a profile:
    ``rules`` with the path of the Python file that defines it, or {} for a built-in profile."""
    file = file_of(profile)
    return {} if file is None else {"rules": [Path(os.path.relpath(file.path, folder or os.curdir)).as_posix()]}
