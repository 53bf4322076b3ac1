"""Recognition of log lines: kind and engine of a line, or of a whole log."""

from __future__ import annotations

import re
from collections import Counter
from itertools import islice
from pathlib import Path
from typing import Iterable, Mapping, NamedTuple

from cachesim.base.errors import BadInput
from cachesim.base.untrusted_files import open_lines
from cachesim.engines.registry import ENGINES
from cachesim.engines.shared.log_grammar import LogGrammar, Meaning, ParsedLine
from cachesim.tools.server_logs.lines.line_prefixes import LogMessage, message, visible_text

HEAD = 400                   # lines that are read to identify the engine


def unknown_log(path: Path) -> BadInput:
    """Return the error for a file without a known line."""
    name = foreign_software(islice(open_lines(path), HEAD))
    what = f"log of unsupported software: {name}" if name else "not a known server log"
    supported = ", ".join(ENGINES[engine].recorded.name for engine in grammars())
    return BadInput(what, file=str(path), hint=f"supported: {supported}")


FOREIGN: Mapping[str, re.Pattern[str]] = {
    "TensorRT-LLM": re.compile(r"\[TRT-LLM\]|tensorrt_llm", re.I),
    "text-generation-inference": re.compile(r"text_generation_(?:router|launcher)"),
    "LMCache": re.compile(r"\bLMCache\b"),
    "the Go part of Ollama": re.compile(r"source=\w+\.go:\d+|\[GIN\]"),
    "an HTTP server": re.compile(r'"(?:GET|POST|PUT) \S+ HTTP/\d'),
}
"""Software that is not simulated, with a pattern of its log lines."""


class RecognisedLine(NamedTuple):
    """Recognised line, with the meaning that an engine gives it."""

    engine: str
    read: ParsedLine
    meaning: Meaning
    text: str


def grammars() -> Mapping[str, LogGrammar]:
    """Return the log grammars of all engines that have a grammar."""
    return {name: grammar for name, grammar in ENGINES.log_grammars().items() if grammar.lines}


def read_message(grammar: LogGrammar, logged: LogMessage) -> ParsedLine | None:
    """Return the recognised line of a message, with the fields after its bar; None if the grammar does not know it."""
    read = grammar.read(logged.text, logged.slot, logged.task)
    if read is None or (read.line.needs and read.line.needs not in logged.fields):
        return None
    if not logged.fields:
        return read
    return read._replace(numbers={**logged.fields, **read.numbers})


def recognise(line: str, engines: Iterable[str] = ()) -> list[RecognisedLine]:
    """Return the readings of a line by all engines that print it, most likely first; [] if none does. ``engines``
    restricts the engines, [] = all."""
    allowed = set(engines)
    logged = message(line)
    found = []
    for name, grammar in grammars().items():
        if allowed and name not in allowed:
            continue
        if (read := read_message(grammar, logged)) is not None:
            found.append((grammar, RecognisedLine(name, read, grammar.meanings[read.line.ev], logged.text)))
    if not found:
        return []
    clean = visible_text(line)               # takes long for a long line, which no grammar reads
    return [reading for _, reading in sorted(found, key=lambda pair: -_signs(pair[0], clean))]


def engine_of_log(lines: Iterable[str]) -> str | None:
    """Return the engine whose log these lines are, None if no line is known."""
    signs: Counter[str] = Counter()
    known = grammars()
    for line in lines:
        clean, logged = visible_text(line), message(line)
        for name, grammar in known.items():
            signs[name] += 2 * _signs(grammar, clean)
            if read_message(grammar, logged) is not None:
                signs[name] += 1
    best = signs.most_common(1)
    return best[0][0] if best and best[0][1] else None


def foreign_software(lines: Iterable[str]) -> str:
    """Return the name of the other software whose log these lines are, "" if unknown."""
    return next((name for line in lines for name, sign in FOREIGN.items() if sign.search(visible_text(line))), "")


def has_sign(grammar: LogGrammar, line: str) -> bool:
    """True if a line contains a text that occurs only in logs of the engine."""
    return _signs(grammar, line) > 0


def _signs(grammar: LogGrammar, line: str) -> int:
    """Return how many of the engine's typical texts the line contains."""
    return sum(sign in line for sign in grammar.signs)
