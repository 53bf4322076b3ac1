"""Signatures: lines of a log that show why a request evaluated tokens of a common prefix again.

A signature belongs to the rules that can refuse, erase, evict, consume or not create a restore point. It names the
lines that log such a decision. Its proof takes the numbers of that line and of the request and returns how many tokens
were lost. Without a proof the log shows the decision but not whose prefix it concerned.
"""

from __future__ import annotations

from typing import Callable, Mapping, NamedTuple

Span = tuple[int, int | None]
"""Range of an integer; None = no upper end."""


class LogEvidence(NamedTuple):
    """Numbers of a request. ``line``: those of the deciding line; ``numbers``: derived ranges by name; ``checks``: the
    checkpoints that were examined, each with its first and last position and the position it must begin before.
    ``kinds``: kinds of the request's lines."""

    line: Mapping[str, int]
    numbers: Mapping[str, Span]
    checks: tuple[tuple[int, int, int], ...] = ()
    kinds: frozenset[str] = frozenset()

    @property
    def prefix(self) -> Span:
        """Common prefix of prompt and slot: as derived, else at least the position that a checkpoint must begin
        before."""
        least = max((thold for *_, thold in self.checks), default=0)
        low, high = self.numbers.get("lcp", (0, None))
        return (max(low, least), high) if high is None or high >= least else (low, high)


Proof = Callable[[LogEvidence], Span | None]


class Signature(NamedTuple):
    """Signature of a cause. ``rules``: beginnings of the ids of the rules that decide it; ``kinds``: kinds of lines
    that log the decision, () = the numbers of the request alone show it; ``says``: sentences, the first of which all
    fields are known is used; ``flags``: options that may cure it."""

    key: str
    kinds: tuple[str, ...]
    rules: tuple[str, ...]
    says: tuple[str, ...]
    proof: Proof | None = None
    flags: tuple[str, ...] = ()


def whole_prefix(found: LogEvidence) -> Span | None:
    """Return the common prefix: nothing of it was reused."""
    low, high = found.prefix
    return None if high == 0 else (max(1, low), high)


def behind_restored(found: LogEvidence) -> Span | None:
    """Return the tokens between the end of the restored checkpoint and the end of the common prefix."""
    restored = found.line.get("n_past", found.line.get("pos_max", -2) + 1)
    low, high = found.prefix
    return (low - restored, None if high is None else high - restored) if 0 <= restored < low else None


def behind_refused(found: LogEvidence) -> Span | None:
    """Return the tokens before the position from which a removal was refused: the slot was cleared."""
    kept, (low, high) = found.line.get("p0", 0), found.prefix
    return (max(kept, low), high) if kept > 0 and "reuse_chunk" not in found.kinds else None


def last_token(found: LogEvidence) -> Span | None:
    """Return at least 1 if the whole prompt was in the slot. Moved chunks may stand for a part of it."""
    return None if found.kinds & {"reuse_chunk", "reuse_result"} else found.numbers.get("lost", (1, None))


def same_prompt(found: LogEvidence) -> Span | None:
    """Return the lost tokens of a prompt that the slot holds completely."""
    lost, lcp, length = (found.numbers.get(name) for name in ("lost", "lcp", "n_tokens"))
    return lost if lost and lost[0] > 0 and lcp and length and lcp[0] == length[1] == length[0] else None


def changed_prompt(found: LogEvidence) -> Span | None:
    """Return the lost tokens of a prompt that differs from the slot's contents before the end of both."""
    lost, lcp, length, held = (found.numbers.get(name) for name in ("lost", "lcp", "n_tokens", "held"))
    if not lost or lost[0] < 1 or lcp is None or lcp[1] is None or length is None or held is None:
        return None
    return lost if lcp[0] > 0 and lcp[1] < min(length[0], held[0]) else None
