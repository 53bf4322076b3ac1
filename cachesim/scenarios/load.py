"""Loader of scenario files: finds them in folders, parses them and checks every key."""

from __future__ import annotations

import os.path
import re
import tomllib
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import AbstractSet, Any, Callable, Iterable, Iterator, TypeVar

from cachesim.base.errors import BadInput, nearest, quoted
from cachesim.base.untrusted_files import FOLDER, files_in, kind
from cachesim.scenarios.notation.word_lengths import check_word, read_image
from cachesim.scenarios.option_checks import check_profile, manual_of, model_named
from cachesim.scenarios.request_spec import Words, make_steps, with_words
from cachesim.scenarios.schema import SCHEMA, Allowed, Expect, Lives, Scenario
from cachesim.scenarios.symptoms import SYMPTOMS
from cachesim.scenarios.toml_reports import read_reports
from cachesim.scenarios.toml_requests import TomlTable, read_options, read_steps
from cachesim.scenarios.toml_source import read_toml

T = TypeVar("T")
COUNTS = ("cache_n", "prompt_n", "slots", "status", "entries", "accepted", "stored_bytes", "evaluated")
"""Keys of ``[expect."PROFILE"]`` with a number per step."""

_ENDINGS = ("bin", "csv", "err", "gguf", "gz", "har", "html", "json", "jsonl", "log", "md", "ndjson", "out", "py",
            "svg", "toml", "txt", "xz", "yaml", "yml", "zip", "zst")  # fmt: skip
_WITH_ENDING = re.compile(rf".*\.(?:{'|'.join(_ENDINGS)})(?:\.\d+)?", re.I | re.S)
"""Path with a known ending, also of a rotated file (``.log.1``)."""
_WITH_FOLDER = re.compile(r"(?:~?/|\.{1,2}/|[A-Za-z]:\\).*|(?![A-Za-z_]+\d)[\w.-]{3,}/[\w./ -]*", re.S)
"""Path with a folder. The first word of a line of requests has a length (``A40/A``), the name of a folder has none."""

_KEYS = (*COUNTS, "broken", "died", "undecided", "checkpoints", "why", "completed")


def read_expect(top: TomlTable, requests: int, check: Callable[[str], None]) -> dict[str, Expect]:
    """Return the tables ``[expect."PROFILE"]`` by profile. ``requests``: number of steps. ``check`` raises BadInput for
    an invalid profile name."""
    outer = top.table("expect")
    found: dict[str, Expect] = {}
    for name in outer.raw:
        outer.placed(name, check, name)
        found[name] = _expect(outer.table(name), requests)
    return found


def _expect(table: TomlTable, requests: int) -> Expect:
    def counts(key: str) -> tuple[Allowed, ...] | None:
        return _each(table, key, requests, _allowed)

    table.only(_KEYS)
    return Expect(
        cache_n=counts("cache_n"), prompt_n=counts("prompt_n"), broken=_numbers(table, "broken", requests),
        checkpoints=_each(table, "checkpoints", requests, TomlTable.integers),
        slots=counts("slots"), status=counts("status"), entries=counts("entries"), accepted=counts("accepted"),
        evaluated=counts("evaluated"),
        stored_bytes=counts("stored_bytes"),
        died=_numbers(table, "died", requests) if "died" in table.raw else None,
        undecided=_numbers(table, "undecided", requests),
        why=table.text("why", ""), completed=table.flag("completed", False),
    )


def _each(table: TomlTable, key: str, requests: int, read: Callable[[TomlTable, str, Any], T]) -> tuple[T, ...] | None:
    """Return the list under a key, an entry per request; None if the key is missing."""
    if key not in table.raw:
        return None
    values = table.items(key)
    if len(values) != requests:
        raise table.fault(f"{key} has {len(values)} entries for {requests} requests", key)
    return tuple(read(table, key, value) for value in values)


def _allowed(table: TomlTable, key: str, value: Any) -> Allowed:
    """Read a number, or ``{ either = [...] }`` if the engine's behaviour is not determined, which needs a reason."""
    if type(value) is int and value >= 0:
        return (value,)
    if not isinstance(value, dict) or list(value) != ["either"]:
        raise table.fault(f"{key}: {quoted(value)} must be a count or {{ either = [...] }}", key)
    if not table.text("why", "").strip():
        raise table.fault(f"{key} has several values, so the table needs a reason (why)", key)
    allowed = table.integers(key, value["either"])
    if not allowed:
        raise table.fault(f"{key}: either is empty", key)
    return allowed


def _numbers(table: TomlTable, key: str, requests: int) -> tuple[int, ...]:
    """Read a sorted list of step numbers."""
    values = table.integers(key, table.raw.get(key, []))
    if list(values) != sorted(set(values)):
        raise table.fault(f"{key} must be in ascending order, without duplicates", key)
    if values and values[-1] >= requests:
        raise table.fault(f"{key} names request {values[-1]}, there are {requests} (from 0)", key)
    return values


KNOWN_FAILURES = "KNOWN.toml"          # list of accepted failures in the folder of the scenarios; not a scenario
TITLE = 24                             # characters of the title of a word
_TOP = ("schema", "id", "title", "symptom", "source", "why", "engine", "model", "profiles", "server", "lives", "words",
        "titles", "request", "expect", "rules", "report")  # fmt: skip


def find(paths: Iterable[Path]) -> list[Path]:
    """Return the scenario files of paths, each once, sorted within a path. Folders are searched recursively. May be
    empty. Raise BadInput for a missing path."""
    found: dict[str, Path] = {}
    folders: dict[str, str] = {}             # real paths: to follow every part for every file takes five times as long
    for path in paths:
        for file in inside(path):
            folder, name = os.path.split(file)
            if folder not in folders:
                folders[folder] = os.path.realpath(folder)
            real = os.path.join(folders[folder], name)
            found.setdefault(os.path.realpath(real) if os.path.islink(real) else real, file)    # never raises
    return list(found.values())


def inside(path: Path) -> list[Path]:
    """Return the scenario files of a file or folder, sorted. Raise BadInput if the path does not exist."""
    there = kind(path)
    if not there:
        raise BadInput("no such file or directory", file=str(path), hint=neighbour(path))
    if there == FOLDER:
        return [file for file in files_in(path, ".toml") if file.name != KNOWN_FAILURES]
    return [path]


def has_form_of_path(text: str) -> bool:
    """True if a text that is not a line of requests has the form of a path: a known ending, or a folder."""
    forms = (_WITH_ENDING, _WITH_FOLDER)
    return any(form.fullmatch(text) for form in forms) or os.path.isdir(os.path.dirname(text))


def neighbour(path: Path) -> str:
    """Return a hint with the most similar file name in the folder of ``path``, or the empty string."""
    try:
        return nearest(path.name, sorted(entry.name for entry in path.parent.iterdir()))
    except (OSError, ValueError):
        return ""


def load_each(paths: Iterable[Path], known: AbstractSet[str] | None = None) -> Iterator[Scenario | BadInput]:
    """Yield the scenario of each file, or its error. A duplicate of an earlier id is an error."""
    seen: dict[str, str] = {}
    for path in paths:
        try:
            scenario = load(path, known)
            if scenario.id in seen:
                raise BadInput(f"duplicate id {quoted(scenario.id)}: also in {seen[scenario.id]}", file=str(path))
        except BadInput as bad:
            yield bad
            continue
        seen[scenario.id] = str(path)
        yield scenario


def load(path: Path, known: AbstractSet[str] | None = None) -> Scenario:
    """Return the scenario in a file. ``known``: existing profiles, None accepts any name. A file that names files of
    rules may use their profiles (see ``corpus.own_profiles``).

    Raise BadInput with file, line, cause and the nearest valid word.
    """
    raw, source = read_toml(path)
    top = TomlTable(raw, source)
    top.only(_TOP)
    engine, model = top.text("engine"), top.text("model")
    top.placed("engine", manual_of, engine)
    named = top.placed("model", model_named, model, engine)
    words = _words(top.table("words"), engine, model)
    schema = top.integer("schema", SCHEMA, low=1)
    if schema != SCHEMA:
        raise top.fault(f"schema is {schema}, this cachesim reads {SCHEMA}", "schema")
    server = with_words(named.server(read_options(top.table("server"), engine)), words)
    tables = top.tables("request")
    asked_steps = read_steps(tables, words, engine)
    reasons = [table.text("why", "") for table in tables]
    steps = top.placed("request", make_steps, asked_steps, words, server, reasons)
    rules = top.texts("rules") if "rules" in raw else ()
    existing = None if rules else known
    names = _profiles(top, engine, existing)
    expect = read_expect(top, len(steps), lambda name: check_profile(name, engine, existing))
    return Scenario(
        id=_id(top, path), title=top.text("title"), source=top.texts("source"), why=top.text("why"), file=str(path),
        engine=engine, model=named.model, model_note="" if named.model == model else named.note,
        profiles=names,
        server=server, words=words, steps=steps, rules=rules,
        expect=expect,
        lives=_lives(top, len(steps), engine, known) if "lives" in raw else (),
        symptom=_symptom(top), titles=_titles(top.table("titles"), words),
        reports=read_reports(top, names, len(steps), engine),
    )


def load_text(text: str, known: AbstractSet[str] | None = None) -> Scenario:
    """Return the scenario in the text of a file; see ``load``. Raise BadInput."""
    name = tomllib.loads(text)["id"]
    with TemporaryDirectory(prefix="cachesim-") as folder:
        file = Path(folder) / f"{name}.toml"
        file.write_text(text, "utf-8")
        return load(file, known)


def _id(top: TomlTable, path: Path) -> str:
    """Return the id, by which the corpus finds a ``.toml`` file; a file with another ending may have any name."""
    name = top.text("id")
    if path.suffix == ".toml" and name != path.stem:
        raise top.fault(f"id is {quoted(name)}, but the file name is {quoted(path.name)}", "id")
    return name


def _symptom(top: TomlTable) -> str:
    name = top.text("symptom", "")
    if name not in ("", *SYMPTOMS):
        raise top.fault(f"unknown symptom {quoted(name)}", "symptom", nearest(name, SYMPTOMS) or ", ".join(SYMPTOMS))
    return name


def _profiles(top: TomlTable, engine: str, known: AbstractSet[str] | None) -> tuple[str, ...]:
    names = top.texts("profiles")
    for name in names:
        top.placed("profiles", check_profile, name, engine, known)
    if len(set(names)) != len(names):
        raise top.fault("profiles contains a duplicate", "profiles")
    return names


def _lives(top: TomlTable, n_steps: int, engine: str, known: AbstractSet[str] | None) -> tuple[Lives, ...]:
    found = []
    for table in top.tables("lives"):
        table.only(("request", "from", "to"))
        number = table.integer("request", None, low=0)
        first = table.text("from", "")
        last = table.text("to", "")
        if number >= n_steps:
            raise table.fault(f"unknown request {number}", "request", f"0 to {n_steps - 1}")
        for key, name in (("from", first), ("to", last)):
            if name:
                table.placed(key, check_profile, name, engine, known)
        found.append(Lives(number, first, last))
    return tuple(found)


def _words(table: TomlTable, engine: str, model: str) -> Words:
    words, known = Words(), manual_of(engine).with_text
    for name, given in table.raw.items():
        if isinstance(given, list):
            if model not in known:
                raise table.fault(f"model {model} has no vocabulary to spell words in", name, ", ".join(known))
            table.placed(name, words.spell, name, given)
        elif isinstance(given, str):
            words[name] = table.placed(name, read_image, name, given)
        else:
            words[name] = table.integer(name, None, low=1)
        table.placed(name, check_word, name, words[name])
    return words


def _titles(table: TomlTable, words: Words) -> dict[str, str]:
    """Return the titles of words: single lines of at most ``TITLE`` characters."""
    for name in table.raw:
        if name not in words:
            raise table.fault(f"title of an unknown word {quoted(name)}", name, nearest(name, words))
        if len(title := table.text(name)) > TITLE or not title.isprintable():
            raise table.fault(f"the title of {name} must be a line of at most {TITLE} characters", name)
    return {name: table.text(name) for name in words if name in table.raw}
