"""Which kind of line is it, of which engine's log? One line, or a whole log."""

from __future__ import annotations

import re
from collections import Counter
from itertools import islice
from pathlib import Path
from typing import Any, Iterable, Mapping, NamedTuple

from cachesim.base.errors import BadInput
from cachesim.base.untrusted_files import open_lines
from cachesim.engines.registry import ENGINES
from cachesim.engines.rule import RULES
from cachesim.engines.shared.log_grammar import LogGrammar, Meaning, Read
from cachesim.tools.server_logs.line_prefixes import LogMessage, message, plain

# What does a line of a log mean, or every kind of line in one? As data, for JSON and for the eye.

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
    engine = engine_of_log(islice(open_lines(path), HEAD))
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
    name = foreign(islice(open_lines(path), HEAD))
    what = f"this is a log of {name}, which is not simulated" if name else "no line of it is known as a server's log"
    return BadInput(what, file=str(path), hint=f"known: {', '.join(ENGINES[one].recorded.name for one in grammars())}")


def _explained(said: RecognisedLine) -> dict[str, Any]:
    engine, meaning, line = ENGINES[said.engine], said.meaning, said.read.line
    return {
        "engine": said.engine, "kind": line.ev, "text": said.text[:400], "says": meaning.says,
        "numbers": dict(said.read.numbers), "slot": said.read.slot, "task": said.read.task,
        "causes": list(meaning.causes), "flags": list(meaning.flags),
        "rules": _rules(engine.newest or engine.line[-1], meaning.rules), "since": line.since, "until": line.until,
    }  # fmt: skip


def _rules(profile: str, families: Iterable[str]) -> list[str]:
    """The rules of these families in the newest rule set."""
    table = ENGINES[profile.partition("@")[0]].rules(profile)
    mine = {getattr(value, "rule", "") for value in table.fields().values()}
    wanted = tuple(families)
    return sorted(rule for rule in mine if rule in RULES and rule.startswith(wanted)) if wanted else []


FOREIGN: Mapping[str, re.Pattern[str]] = {
    "vLLM": re.compile(r"\bvllm\b|\[(?:core|loggers|async_llm|launcher)\.py:\d+\]", re.I),
    "SGLang": re.compile(r"\bsglang\b|#cached-token:", re.I),
    "TensorRT-LLM": re.compile(r"\[TRT-LLM\]|tensorrt_llm", re.I),
    "text-generation-inference": re.compile(r"text_generation_(?:router|launcher)"),
    "LMCache": re.compile(r"\bLMCache\b"),
    "the Go part of Ollama": re.compile(r"source=\w+\.go:\d+|\[GIN\]"),
    "an HTTP server": re.compile(r'"(?:GET|POST|PUT) \S+ HTTP/\d'),
}
"""Whose log it is, if it is none of ours."""


class RecognisedLine(NamedTuple):
    """A line that was recognised, in one engine's words."""

    engine: str
    read: Read
    meaning: Meaning
    text: str


def grammars() -> Mapping[str, LogGrammar]:
    """The engines whose logs are known."""
    found = {name: engine.log() for name, engine in ENGINES.items()}
    return {name: grammar for name, grammar in found.items() if grammar.lines}


def read_by(grammar: LogGrammar, said: LogMessage) -> Read | None:
    """The kind of a message, with what stood behind its bar."""
    slot = said.slot if said.slot is not None and said.slot >= 0 else None
    task = said.task if said.task is not None and said.task >= 0 else None
    read = grammar.read(said.text, slot, task)
    if read is None or not said.fields:
        return read
    return read._replace(numbers={**said.fields, **read.numbers})


def recognise(line: str, engines: Iterable[str] = ()) -> list[RecognisedLine]:
    """What a line says, in the words of every engine that prints it, the likeliest first; [] for a line that none does.
    ``engines``: only these."""
    asked = set(engines)
    said, clean = message(line), plain(line)
    found = []
    for name, grammar in grammars().items():
        if asked and name not in asked:
            continue
        if (read := read_by(grammar, said)) is not None:
            line_of = RecognisedLine(name, read, grammar.meanings[read.line.ev], said.text)
            found.append((_signs(grammar, clean), line_of))
    return [one for _, one in sorted(found, key=lambda pair: -pair[0])]


def engine_of_log(lines: Iterable[str]) -> str | None:
    """The engine whose log these lines are, None if none of them is known."""
    signs: Counter[str] = Counter()
    known = grammars()
    for line in lines:
        clean, said = plain(line), message(line)
        for name, grammar in known.items():
            signs[name] += 2 * _signs(grammar, clean) + (read_by(grammar, said) is not None)
    best = signs.most_common(1)
    return best[0][0] if best and best[0][1] else None


def foreign(lines: Iterable[str]) -> str:
    """Whose log these lines are, if they are of something else that is known by name; "" otherwise."""
    return next((name for line in lines for name, sign in FOREIGN.items() if sign.search(plain(line))), "")


def _signs(grammar: LogGrammar, line: str) -> int:
    return sum(sign in line for sign in grammar.signs)
