"""Records of the log reader, made of the numbers that a test is about."""

from __future__ import annotations

from typing import Any, Mapping

from cachesim.engines.shared.log_grammar import Line, ParsedLine
from cachesim.tools.server_logs.facts.logged_requests import LoggedRequest
from cachesim.tools.server_logs.facts.proven_range import ProvenRange
from cachesim.tools.server_logs.lines.read_lines import ReadLine
from cachesim.tools.server_logs.lines.tied_requests import TiedRequest

COUNTS = ("n_tokens", "cache_n", "prompt_n", "predicted_n", "lcp", "held", "end")


def read_line(kind: str, number: int = 1, slot: int | None = 0, task: int | None = 7, **printed: Any) -> ReadLine:
    """Return a line of a kind with these numbers. A text such as "0.50" is a share, with its digits as printed."""
    numbers = {name: float(value) if isinstance(value, str) else value for name, value in printed.items()}
    words = {name: value for name, value in printed.items() if isinstance(value, str)}
    return ReadLine(number, ParsedLine(Line(kind, kind), slot, task, numbers, words), kind)


def tied_lines(*lines: ReadLine, **more: Any) -> TiedRequest:
    """Return the request with these lines."""
    return TiedRequest(0, 7, list(lines), **more)


def logged(*place: Any, numbers: Mapping[str, ProvenRange] | None = None, **fields: Any) -> LoggedRequest:
    """Return a request with these fields. A count is proved; a pair of counts is its range. ``place``: slot, task and
    lines; ``numbers``: further ranges."""
    counts = {name: fields[name] for name in COUNTS if fields.get(name) is not None}
    ranges = {name: ProvenRange(*value) if isinstance(value, tuple) else ProvenRange(value, value)
              for name, value in counts.items()}  # fmt: skip
    others = {name: value for name, value in fields.items() if name not in COUNTS}
    return LoggedRequest(*place, **others, numbers={**ranges, **(numbers or {})})
