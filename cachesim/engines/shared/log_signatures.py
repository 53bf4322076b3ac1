"""Signatures: lines of a log that show why a request evaluated tokens of a common prefix again.

A signature belongs to the rules that can refuse, erase, evict, consume or not create a restore point. It names the
lines that log such a decision. Its proof takes the numbers of that line and of the request and returns how many tokens
were lost. Without a proof the log shows the decision but not whose prefix it concerned.
"""

from __future__ import annotations

from typing import Any, Callable, Mapping, NamedTuple

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
        before. The last token of a prompt, which every server evaluates for its logits, does not belong to it; a prompt
        of unknown length may be as short as its prefix."""
        least = max((thold for *_, thold in self.checks), default=0)
        low, high = self.numbers.get("lcp", (0, None))
        if high is None or high >= least:
            low = max(low, least)
        shortest, longest = self.numbers.get("n_tokens", (0, None))
        low = min(low, max(0, low - 1, shortest - 1))
        if longest is not None:
            high = longest - 1 if high is None else min(high, longest - 1)
        return low, high


Proof = Callable[[LogEvidence], Span | None]
"""Function that returns how many tokens were lost, (0, 0) for a cause that is stated without a number."""
FEW = 10                     # a prompt lost its beginning if it shares less than one in so many tokens with the slot


class RemovedPoint(NamedTuple):
    """Restore point that a line reports as removed: its first and last position, and the tokens after which a request
    that restores it continues (range)."""

    first: int
    last: int
    low: int
    high: int


def removed_checkpoint(line: Mapping[str, Any]) -> RemovedPoint | None:
    """Return the checkpoint with these printed numbers. Its state holds a window, whose last token is evaluated again,
    or only the last position."""
    first, last = line.get("pos_min"), line.get("pos_max")
    if not isinstance(first, int) or not isinstance(last, int) or not 0 <= first <= last or line.get("yes"):
        return None
    end = line.get("n_tokens", last + 1)
    return RemovedPoint(first, last, max(first + 1, last), end) if end in (last, last + 1) else None


NO_TEXT = "a log contains no text, so it does not show that a later prompt begins with what was lost"
NO_STATE = "the log prints neither the saved state's tokens nor how many of them the prompt has in common"
SAME_TOKENS = "the checkpoint that replaces it holds the same tokens"
"""Reasons why a signature has no proof."""


class Signature(NamedTuple):
    """Signature of a cause. ``rules``: beginnings of the ids of the rules that decide it; ``kinds``: kinds of lines
    that log the decision, () = the numbers of the request alone show it; ``says``: sentences, the first of which all
    fields are known is used; ``flags``: options that may cure it; ``removed``: the restore point that such a line
    removes from later requests; ``unproved``: why no printed number shows whose prefix the decision concerned;
    ``is_quoted``: the line itself is the statement."""

    key: str
    kinds: tuple[str, ...]
    rules: tuple[str, ...]
    says: tuple[str, ...]
    proof: Proof | None = None
    flags: tuple[str, ...] = ()
    removed: Callable[[Mapping[str, Any]], RemovedPoint | None] | None = None
    unproved: str = ""
    is_quoted: bool = False


def whole_prefix(found: LogEvidence) -> Span | None:
    """Return the tokens of the common prefix that were not reused: no checkpoint was restored."""
    (low, high), (least, most) = found.prefix, found.numbers.get("cache_n", (0, 0))
    if (high is not None and high <= least) or (most and low <= most):
        return None
    return max(0, low - (low if most is None else most)), None if high is None else high - least


def behind_restored(found: LogEvidence) -> Span | None:
    """Return the tokens between the end of the restored checkpoint and the end of the common prefix. Builds that do not
    print where they continue do so at the checkpoint's last position or up to two tokens later."""
    last, (low, high) = found.line.get("pos_max", -1), found.prefix
    least, most = found.numbers.get("cache_n", (max(0, last), last + 2))
    if "n_past" in found.line:
        least = most = found.line["n_past"]
    if last < 0 or most is None or not most < low:
        return None
    return low - most, None if high is None else high - least


def when_measured(proof: Proof) -> Proof:
    """Return a proof that holds only if the number of reused tokens is known, for servers that may reuse others than
    they report."""

    def measured(found: LogEvidence) -> Span | None:
        kept, restored = found.numbers.get("cache_n"), found.line.get("n_past")
        return proof(found) if kept is not None and restored in (None, kept[0]) else None

    return measured


def cleared_prefix(found: LogEvidence) -> Span | None:
    """Return the tokens of the common prefix of a slot that was cleared before its prompt, if it held any."""
    return whole_prefix(found) if found.line.get("n_slot") and found.prefix[0] else None


def behind_refused(found: LogEvidence) -> Span | None:
    """Return the tokens before the position from which a removal was refused: the slot was cleared."""
    kept, (low, high) = found.line.get("p0", 0), found.prefix
    return (max(kept, low), high) if kept > 0 and "reuse_chunk" not in found.kinds else None


def held_prompt(found: LogEvidence) -> Span | None:
    """Return the lost tokens of a prompt that was in the slot, None if the log proves none: the last token, which every
    server evaluates, is not lost. Moved chunks may stand for a part of the prompt."""
    lost = found.numbers.get("lost", (0, None))
    return lost if lost[0] and not found.kinds & {"reuse_chunk", "reuse_result"} else None


SEARCHES = frozenset({"n_past", "ckpt_check", "ckpt_restore", "full_reprocess", "trim_failed"})
"""Kinds of lines that a request has only if the memory could not be cut where its prompt leaves the slot's contents."""


def _reuses(found: LogEvidence) -> bool:
    """True if the client allowed reuse: the server searched a checkpoint, or reused tokens."""
    return bool(found.kinds & SEARCHES) or found.numbers.get("cache_n", (0, None))[0] > 0


def same_prompt(found: LogEvidence) -> Span | None:
    """Return the lost tokens of a prompt that the slot holds completely."""
    lost, lcp, length = (found.numbers.get(name) for name in ("lost", "lcp", "n_tokens"))
    if not lost or lost[0] < 1 or not lcp or not length or not lcp[0] == length[1] == length[0]:
        return None
    return lost if _reuses(found) else None


def changed_prompt(found: LogEvidence) -> Span | None:
    """Return the lost tokens of a prompt that differs from the slot's contents before the end of both."""
    lost, lcp, length, held = (found.numbers.get(name) for name in ("lost", "lcp", "n_tokens", "held"))
    if not lost or lost[0] < 1 or lcp is None or lcp[1] is None or length is None or held is None:
        return None
    if not _reuses(found):
        return None
    return lost if lcp[0] > 0 and lcp[1] < min(length[0], held[0]) else None


def lost_beginning(found: LogEvidence) -> Span | None:
    """Return (0, 0) if the prompt shares hardly any of its tokens with the contents of a slot."""
    lcp, length, held = (found.numbers.get(name) for name in ("lcp", "n_tokens", "held"))
    if lcp is None or lcp[1] is None or length is None or held is None:
        return None
    return (0, 0) if lcp[1] * FEW < min(length[0], held[0]) else None
