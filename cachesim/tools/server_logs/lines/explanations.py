"""Explanations of log lines and of logs as data, for JSON and for the terminal."""

from __future__ import annotations

import re
from itertools import chain, islice
from pathlib import Path
from typing import Any, Callable, Iterable, Iterator, Mapping, Sequence

from cachesim.base.errors import BadInput
from cachesim.base.untrusted_files import open_lines
from cachesim.engines.registry import ENGINES
from cachesim.engines.rule import RULES
from cachesim.engines.shared.log_grammar import LogGrammar, Meaning, ParsedLine
from cachesim.tools.server_logs.lines.line_prefixes import message, visible_text
from cachesim.tools.server_logs.lines.logical_lines import LineCounter, LogicalLine, logical_lines
from cachesim.tools.server_logs.lines.recognise import (
    HEAD,
    RecognisedLine,
    engine_of_log,
    foreign_software,
    grammars,
    recognise,
    unknown_log,
)

LONGEST, STARTS = 2_000, 20  # characters of a line without a known prefix, and starts of messages in it, at most
MAX_VERDICTS = 200           # verdicts of a log, at most
ORDINARY: Mapping[str, re.Pattern[str]] = {
    "HTTP access line": re.compile(r'"?(?:GET|POST|PUT|DELETE|OPTIONS|HEAD) /\S* HTTP/\d|\[GIN\]', re.I),
    "traceback": re.compile(r'^\s*(?:Traceback \(most recent call last\)|File "[^"]+", line \d+)'),
    "progress bar": re.compile(r"\d%\|[^|]*\|\s*\d+/\d+"),
}
"""Names of kinds of line of any server that are not about the cache, with their patterns."""


def explain_line(line: str) -> dict[str, Any] | None:
    """Return the explanation of a line by the engine that most likely printed it; None for an unknown line. ``also``:
    other engines that print this line. Numbers are keyed by the names of their fields."""
    return _of_readings(recognise(line) or _without_context(line, _read_whole) or _without_context(line, _read_part))


def _of_readings(found: Sequence[RecognisedLine]) -> dict[str, Any] | None:
    """Return the explanation of the first reading, with the engines of the others; None if there is none."""
    return {**_explained(found[0]), "also": [reading.engine for reading in found[1:]]} if found else None


Reader = Callable[[LogGrammar, str], ParsedLine | None]


def _read_whole(grammar: LogGrammar, text: str) -> ParsedLine | None:
    """Return a whole message: the text, the text as an entry of a list, or the text from known words on."""
    whole = grammar.read(text) or grammar.read(f"- {text}")
    if whole is not None:
        return whole
    starts = islice(grammar.beginnings(text), STARTS)
    return next((read for at in starts if (read := grammar.read(text[at:])) is not None), None)


def _read_part(grammar: LogGrammar, text: str) -> ParsedLine | None:
    """Return the message of which the text is a part."""
    return grammar.part(text) or grammar.part(f"- {text}")


def _without_context(line: str, reader: Reader) -> list[RecognisedLine]:
    """Return the readings of a line by all engines with another reader, those whose signs it has first."""
    clean, logged = visible_text(line)[:LONGEST], message(line)
    found = []
    for name, grammar in grammars().items():
        read = next((read for text in dict.fromkeys((logged.text[:LONGEST], clean))
                     if (read := reader(grammar, text)) is not None), None)  # fmt: skip
        if read is not None and not read.line.needs:
            read = read._replace(slot=logged.slot if read.slot is None else read.slot,
                                 task=logged.task if read.task is None else read.task)  # fmt: skip
            found.append(RecognisedLine(name, read, grammar.meanings[read.line.ev], logged.text))
    return found


def explain_beginning(text: str) -> dict[str, Any] | None:
    """Return the explanation of the kind of line that begins with this text, like ``explain_line`` but without numbers;
    None if it begins no kind of line, or several."""
    found = []
    logged = message(text)
    for name, grammar in grammars().items():
        for line in grammar.begun(logged.text) or grammar.begun(f"- {logged.text}"):
            read = ParsedLine(line, logged.slot, logged.task, {})
            found.append(RecognisedLine(name, read, grammar.meanings[line.ev], line.template))
    if len({reading.read.line.ev for reading in found}) > 1:
        return None
    return _of_readings(list({reading.engine: reading for reading in reversed(found)}.values())[::-1])


def explain_ordinary(line: str) -> dict[str, Any] | None:
    """Return the name of a kind of line that is not about the cache, with the engine that prints it ("" = any server);
    None if the line is unknown."""
    clean = visible_text(line)
    for name, grammar in grammars().items():
        for found in _ordinary(_own(grammar), clean):
            return {"engine": name, "is": found, "text": clean[:400]}
    return next(({"engine": "", "is": name, "text": clean[:400]} for name in _ordinary(ORDINARY, clean)), None)


def ordinary_name(grammar: LogGrammar, clean: str) -> str:
    """Return the name of the kind of a line that is not about the cache, "" if it is unknown."""
    return next(chain(_ordinary(_own(grammar), clean), _ordinary(ORDINARY, clean)), "")


def _own(grammar: LogGrammar) -> Mapping[str, re.Pattern[str]]:
    """Return the patterns of an engine's lines that are not about the cache."""
    return {name: re.compile(pattern, re.I) for name, pattern in grammar.ordinary.items()}


def _ordinary(table: Mapping[str, re.Pattern[str]], clean: str) -> Iterator[str]:
    return (name for name, pattern in table.items() if pattern.search(clean))


def explain_log(path: Path) -> dict[str, Any]:
    """Return the explanation of every kind of line in a log, in order of first occurrence, with its number of
    occurrences and first line. Raise BadInput for an unreadable file, and for a file without a known line."""
    data = explain_lines(lambda: open_lines(path), str(path))
    if data is None:
        raise unknown_log(path)
    return data


def explain_text(text: str) -> dict[str, Any]:
    """Return the explanation of several lines of a log, like ``explain_log``. Raise BadInput if none is known."""
    lines = text.splitlines()
    data = explain_lines(lambda: iter(lines), "")
    if data is None:
        name = foreign_software(lines)
        raise BadInput(f"log of unsupported software: {name}" if name else "none of these lines is known")
    return data


def explain_joined(line: str) -> dict[str, Any] | None:
    """Return the explanation of several messages whose line ends were lost, like ``explain_log``; None for one
    message."""
    data = explain_lines(lambda: iter([line]), "")
    return data if data is not None and data["known"] > 1 else None


def explain_lines(open_again: Callable[[], Iterable[str]], name: str) -> dict[str, Any] | None:
    """Return the explanation of lines that ``open_again`` returns anew at each call; None if none of them is known."""
    engine = engine_of_log(islice(iter(open_again()), HEAD))
    if engine is None:
        return None
    grammar = grammars()[engine]
    kinds: dict[str, dict[str, Any]] = {}
    ordinary: dict[str, int] = {}
    verdicts: list[dict[str, Any]] = []
    known = 0
    counted = LineCounter(open_again())
    for line in logical_lines(grammar, counted):
        if line.read is None:
            if what := ordinary_name(grammar, line.text):
                ordinary[what] = ordinary.get(what, 0) + 1
            continue
        known += 1
        kind = kinds.get(line.read.line.ev)
        if kind is None:
            kind = kinds[line.read.line.ev] = {**_of_line(engine, grammar, line), "line": line.number, "times": 0}
        kind["times"] += 1
        if (verdict := _verdict(grammar, line.read)) and len(verdicts) < MAX_VERDICTS:
            verdicts.append({"line": line.number, "text": line.logged.text[:400], "verdict": verdict})
    return {
        "file": name, "engine": engine, "lines": counted.number, "known": known, "kinds": list(kinds.values()),
        "verdicts": verdicts, "ordinary": [{"is": what, "times": times} for what, times in ordinary.items()],
    } if known else None  # fmt: skip


def _of_line(engine: str, grammar: LogGrammar, line: LogicalLine) -> dict[str, Any]:
    """Return the explanation of a line of a log."""
    assert line.read is not None
    return _explained(RecognisedLine(engine, line.read, grammar.meanings[line.read.line.ev], line.logged.text))


def _explained(recognised: RecognisedLine) -> dict[str, Any]:
    """Return the explanation of a recognised line as data."""
    engine = ENGINES[recognised.engine]
    meaning = recognised.meaning
    line = recognised.read.line
    causes = () if _is_harmless(engine.log(), recognised.read) else meaning.causes
    return {
        "engine": recognised.engine, "kind": line.ev, "text": recognised.text[:400], "says": meaning.says,
        "verdict": _verdict(engine.log(), recognised.read),
        "numbers": dict(recognised.read.numbers), "slot": recognised.read.slot, "task": recognised.read.task,
        "causes": list(causes), "flags": list(meaning.flags),
        "rules": _rules(engine.newest or engine.line[-1], meaning), "since": line.since, "until": line.until,
    }  # fmt: skip


def _verdict(grammar: LogGrammar, read: ParsedLine) -> str:
    """Return the verdict on the numbers of a line, "" if there is none."""
    verdict = grammar.verdicts.get(read.line.ev)
    return verdict(read.numbers) if verdict is not None else ""


def _is_harmless(grammar: LogGrammar, read: ParsedLine) -> bool:
    """True if the numbers of a line show that nothing is lost."""
    is_harmless = grammar.harmless.get(read.line.ev)
    return is_harmless is not None and is_harmless(read.numbers)


def _rules(profile: str, meaning: Meaning) -> list[str]:
    """Return the rules of the families of a meaning in a rule set."""
    if not meaning.rules:
        return []
    table = ENGINES[profile.partition("@")[0]].rules(profile)
    rules = {getattr(value, "rule", "") for value in table.fields().values()}
    return sorted(rule for rule in rules if rule in RULES and rule.startswith(meaning.rules))
