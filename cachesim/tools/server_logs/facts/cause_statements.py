"""Causes of lost tokens that a log shows: signatures of the engine whose proof holds for a request."""

from __future__ import annotations

import re
from typing import Any, Container, Iterable, Iterator, Mapping

from cachesim.base.escaping import printable_line
from cachesim.engines.shared.log_grammar import LogGrammar
from cachesim.engines.shared.log_signatures import LogEvidence, Signature, Span
from cachesim.tools.server_logs.facts.logged_requests import checked_checkpoints
from cachesim.tools.server_logs.facts.request_numbers import DerivedNumbers
from cachesim.tools.server_logs.facts.statements import Statement, conclusion
from cachesim.tools.server_logs.lines.read_lines import ReadLine

_FIELD = re.compile(r"\{(\w+)\}")
_DIGITS = re.compile(r"\d+")


def cause_statements(derived: DerivedNumbers, grammar: LogGrammar) -> Iterator[Statement]:
    """Yield the causes of a request whose deciding line and numbers are in the excerpt."""
    request, seen = derived.request, set[str]()
    if request.is_doubtful or derived.clashes:
        return
    for signature in grammar.signatures:
        lines = request.of(*signature.kinds) or [one for kind in signature.kinds for one in request.of_cache(kind)]
        lines = lines[:1]
        if signature.proof is None or signature.key in seen or (signature.kinds and not lines):
            continue
        found = _evidence(derived, lines)
        lost = signature.proof(found)
        if lost is None:
            continue
        seen.add(signature.key)
        numbers: dict[str, Any] = {"cause": signature.key}
        if lost != (0, 0):
            numbers["lost"] = lost[0] if lost[0] == lost[1] else list(lost)
        says = _sentence(signature, found, lost)
        yield conclusion("cause", _proof_lines(derived, lines, found), numbers, says, about=request)


def quoted_warnings(lines: Iterable[ReadLine], grammar: LogGrammar, cited: Container[int]) -> Iterator[Statement]:
    """Yield the warnings that the server prints, each with its text. A text that differs in its numbers alone is quoted
    once for each slot; lines that prove another cause (``cited``) are not quoted."""
    kinds = {kind for signature in grammar.signatures if signature.is_quoted for kind in signature.kinds}
    seen = set[tuple[int | None, str]]()
    for line in lines:
        key = line.slot, _DIGITS.sub("#", line.text)
        if line.kind in kinds and line.number not in cited and key not in seen:
            seen.add(key)
            says = f'the server warns: "{printable_line(line.text)}"'
            yield conclusion("cause", [line.number], {"cause": "server-warning"}, says, about=line)


def _evidence(derived: DerivedNumbers, lines: list[ReadLine]) -> LogEvidence:
    """Return the numbers of a request, with those of the deciding line."""
    numbers = {name: value for line in lines for name in line.read.numbers
               if (value := line.number_of(name)) is not None}  # fmt: skip
    spans: dict[str, Span] = {name: (value.low, value.high) for name, value in derived.numbers.items()}
    kinds = frozenset(line.kind for line in derived.request.lines)
    return LogEvidence(numbers, spans, checked_checkpoints(derived.request), kinds)


def _proof_lines(derived: DerivedNumbers, lines: list[ReadLine], found: LogEvidence) -> list[int]:
    """Return the numbers of the lines that prove a cause: the deciding line, the checks, and those of the lengths."""
    used = {line.number for line in lines}
    if lines and found.checks:
        used |= {line.number for line in derived.request.of("ckpt_check")}
    for name in ("lcp", *(() if lines else ("n_tokens", "held", "lost"))):
        if name in derived.numbers:
            used |= derived.numbers[name].lines
    return sorted(used)


def _sentence(signature: Signature, found: LogEvidence, lost: Span) -> str:
    """Return the most specific sentence of a signature whose numbers are all known."""
    known = _known(found)
    says = next((text for text in signature.says if set(_FIELD.findall(text)) <= set(known)), signature.key)
    return says.format_map(known) + (f" ({_amount(lost)} lost)" if lost not in ((0, 0), (0, None)) else "")


def _known(found: LogEvidence) -> Mapping[str, str]:
    """Return the numbers that a sentence may show."""
    known = {name: f"{value:,}" for name, value in found.line.items()}
    known |= {name: _amount(span) for name, span in found.numbers.items()}
    if "pos_max" in found.line:
        known["restored"] = f"{found.line.get('n_past', found.line['pos_max'] + 1):,}"
    if found.checks and _are_refused_by_start(found):
        low, _, thold = min(found.checks)
        known |= {"nearest": f"{low:,}", "thold": f"{thold:,}"}
    return known


def _are_refused_by_start(found: LogEvidence) -> bool:
    """True if the first positions of all examined checkpoints refuse them. Builds since b9593 also compare the
    last position, and forks compare the end of the common prefix instead."""
    return "pos_end" not in found.line and all(low >= thold > 0 for low, _, thold in found.checks)


def _amount(span: Span) -> str:
    low, high = span
    return f"{low:,}" if low == high else f"at least {low:,}" if high is None else f"{low:,} to {high:,}"
