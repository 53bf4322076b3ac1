"""Kinds of faults, of undecided verdicts and of properties that do not hold, with the sentence for each kind.

A judge or a check reports a kind and its numbers; the sentence is made when a report needs it. Two verdicts of a kind
differ only in their numbers.
"""

from __future__ import annotations

from collections import defaultdict
from enum import StrEnum
from typing import Any, Mapping

from cachesim.judging.verdict_words import REFUSED


class FaultKind(StrEnum):
    """Kinds of verdicts, by their names in JSON."""

    # A stored copy, or a slot, that differs from a cold run.
    ROW = "row-of-another-token"
    ROW_BITS = "row-of-other-bits"
    ROWS_MISSING = "rows-missing"
    STATE = "state-of-other-tokens"
    STATE_ELSEWHERE = "state-of-another-position"
    TOKENS_MISSING = "longer-than-its-tokens"
    MEMORY_ELSEWHERE = "memory-ends-elsewhere"
    # An answer that differs from a cold run.
    ANSWER = "answer-differs"
    ANSWER_ROWS = "answer-of-other-rows"
    OTHER_TEXT = "slot-holds-another-text"
    WARM_ERROR = "error-where-cold-answers"
    PROCESS_ENDED = "process-ended"
    UNANSWERED = "unanswered"
    # Undecided.
    COLD_ERROR = "error-in-cold-too"
    CROWDED = "needs-more-than-the-context"
    REFUSED = "refused-in-cold-too"
    CLIENT_LEFT = "client-left"
    NEVER_ANSWERED = "never-answered"
    NOTHING_COMPUTED = "nothing-computed"
    NO_PLACE = "no-place-of-answer"
    UNWRITTEN = "depends-on-unwritten-number"
    JUDGE_FAILED = "judge-failed"
    NOT_RUN = "not-run"
    # A property that does not hold.
    CONSUMED = "conversation-consumed"
    WASTED = "restore-point-wasted"
    UNBALANCED = "bill-unbalanced"
    TORN = "removal-torn"
    INCONSISTENT = "memory-inconsistent"
    GAP = "gap-in-positions"
    ERASED = "rows-behind-an-erase"
    LESS = "less-with-more"
    MISCOUNTED = "tokens-miscounted"
    EXCEEDED = "limit-exceeded"
    DIED = "process-died"


_REFUSED = f"{REFUSED.name} ({{status}})"
SENTENCES: Mapping[FaultKind, str] = {
    FaultKind.ROW: "layer {layer}: K/V row {position} differs from a cold run's",
    FaultKind.ROW_BITS: "layer {layer}: a K/V row differs from a cold run's in its bits",
    FaultKind.ROWS_MISSING: "{rows} K/V rows from position {position} on are missing",
    FaultKind.STATE: "layer {layer}: the recurrent state after {tokens} tokens differs from a cold run's",
    FaultKind.STATE_ELSEWHERE: "the recurrent state ends at position {position}, not {wanted}",
    FaultKind.TOKENS_MISSING: "stored as {tokens} tokens, but the state covers {resume}",
    FaultKind.MEMORY_ELSEWHERE: "the memory does not end where the slot's tokens end",
    FaultKind.ANSWER: "logits at position {position} differ from a cold run's",
    FaultKind.ANSWER_ROWS: "logits at position {position} depend on wrong K/V rows or states",
    FaultKind.OTHER_TEXT: "the slot does not hold this prompt and its output",
    FaultKind.WARM_ERROR: "error {status} where a cold run answers: {error}",
    FaultKind.PROCESS_ENDED: "the server stopped: {error}",
    FaultKind.UNANSWERED: "the server goes on and never answers; its last decision: {decision}",
    FaultKind.COLD_ERROR: _REFUSED + ", on an empty server too: {error}",
    FaultKind.CROWDED: _REFUSED + ", requests sent together need {needs} tokens of {room}: {error}",
    FaultKind.REFUSED: _REFUSED + ": {error}",
    FaultKind.CLIENT_LEFT: "the client left before the answer",
    FaultKind.NEVER_ANSWERED: "the request was never answered, because the server had ended",
    FaultKind.NOTHING_COMPUTED: "nothing was computed in this mode",
    FaultKind.NO_PLACE: "the output has no positions to compare",
    FaultKind.UNWRITTEN: "depends on an uninitialised value of the server: {cases}",
    FaultKind.NOT_RUN: "not run: {limit}",
    FaultKind.JUDGE_FAILED: "the judge failed: {exception}: {error}",
    FaultKind.CONSUMED: "{tokens} tokens were removed from the prompt cache on load, at request {at}",
    FaultKind.WASTED: "{tokens} tokens of a usable {point} were {event}",
    FaultKind.UNBALANCED: "{account}",
    FaultKind.LESS: "{some} {option}: {before} reused; {plenty}: {after}",
    FaultKind.TORN: "seq_rm({seq}, {p0}, {p1}) was {answer}: {before} rows before, {after} after",
    FaultKind.INCONSISTENT: "{error}",
    FaultKind.GAP: "positions of sequence {seq} have a gap of {gap}",
    FaultKind.ERASED: "slot {slot} was erased and has {rows} rows",
    FaultKind.MISCOUNTED: "{found} reused and {evaluated} evaluated of {prompt} tokens",
    FaultKind.EXCEEDED: "{holder} {held} {what}, limit {most}",
    FaultKind.DIED: "conversations {first} .. {last} of seed {seed} were not judged: {how}, twice",
}


TOO_LONG = _REFUSED + ": prompt of {tokens:,} tokens exceeds the context of {room:,} (--ctx-size)"


def fault_sentence(kind: FaultKind | None, numbers: Mapping[str, Any]) -> str:
    """Return the sentence for a kind with its numbers; "" for none."""
    if kind in (FaultKind.REFUSED, FaultKind.COLD_ERROR) and {"tokens", "room"} <= numbers.keys():
        return TOO_LONG.format_map(numbers)
    return "" if kind is None else SENTENCES[kind].format_map(numbers)


def pattern(kind: FaultKind) -> str:
    """Return the sentence of a kind with n in place of each number."""
    return fault_sentence(kind, defaultdict(lambda: "n"))
