"""Which kind of line is it, of which engine's log? One line, or a whole log."""

from __future__ import annotations

import re
from collections import Counter
from typing import Iterable, Mapping, NamedTuple

from cachesim.engines.registry import ENGINES
from cachesim.engines.shared.log_grammar import LogGrammar, Meaning, Read
from cachesim.tools.server_logs.message import LogMessage, message, plain

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
        read = read_by(grammar, said)
        if read is not None:
            found.append(
                (_signs(grammar, clean), RecognisedLine(name, read, grammar.meanings[read.line.ev], said.text))
            )
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
