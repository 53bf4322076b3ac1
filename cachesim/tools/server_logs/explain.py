"""What does a line of a log mean, or every kind of line in one? As data, for JSON and for the eye."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Iterable, Iterator

from cachesim.base.errors import BadInput
from cachesim.base.reading import open_lines
from cachesim.engines.registry import ENGINES
from cachesim.engines.rule import RULES
from cachesim.tools.server_logs.recognise import RecognisedLine, engine_of_log, foreign, grammars, recognise

HEAD = 400                   # lines that are looked at to tell whose log it is


def explain_line(line: str) -> dict[str, Any] | None:
    """What a line says, by the engine that most likely printed it; None for a line that no engine prints. ``also``:
    other engines with the same line. Numbers have the names of their places in the line."""
    found = recognise(line)
    if not found:
        return None
    return {**_explained(found[0]), "also": [one.engine for one in found[1:]]}


def explain_log(path: Path) -> dict[str, Any]:
    """Every kind of line of a log once, in the order in which they come first, with how often and where. Raises
    BadInput for a file that cannot be read, and for one in which no line is known."""
    engine = engine_of_log(_first(open_lines(path), HEAD))
    kinds: dict[str, dict[str, Any]] = {}
    lines = known = 0
    for number, line in enumerate(open_lines(path), 1):
        lines = number
        said = recognise(line, () if engine is None else (engine,))
        if said:
            known += 1
            mine = kinds.setdefault(said[0].read.line.ev, {**_explained(said[0]), "line": number, "times": 0})
            mine["times"] += 1
    if engine is None or not known:
        raise no_log(path)
    return {"file": str(path), "engine": engine, "lines": lines, "known": known, "kinds": list(kinds.values())}


def no_log(path: Path) -> BadInput:
    """The error for a file in which no line is known."""
    name = foreign(_first(open_lines(path), HEAD))
    what = f"this is a log of {name}, which is not simulated" if name else "no line of it is known as a server's log"
    return BadInput(what, file=str(path), hint=f"known: {', '.join(ENGINES[one].recorded.name for one in grammars())}")


def _first(lines: Iterable[str], most: int) -> Iterator[str]:
    for number, line in enumerate(lines):
        if number == most:
            return
        yield line


def _explained(said: RecognisedLine) -> dict[str, Any]:
    engine, meaning, line = ENGINES[said.engine], said.meaning, said.read.line
    return {
        "engine": said.engine,
        "kind": line.ev,
        "text": said.text[:400],
        "says": meaning.says,
        "numbers": dict(said.read.numbers),
        "slot": said.read.slot,
        "task": said.read.task,
        "causes": list(meaning.causes),
        "flags": list(meaning.flags),
        "rules": _rules(engine.newest or engine.line[-1], meaning.rules),
        "since": line.since,
        "until": line.until,
    }


def _rules(profile: str, families: Iterable[str]) -> list[str]:
    """The rules of these families in the newest rule set."""
    table = ENGINES[profile.partition("@")[0]].rules(profile)
    mine = {getattr(value, "rule", "") for value in table.fields().values()}
    wanted = tuple(families)
    return sorted(rule for rule in mine if rule in RULES and rule.startswith(wanted)) if wanted else []
