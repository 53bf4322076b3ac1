"""Numbers that follow from the progress lines of a prompt.

A prompt of ``p`` tokens, ``r`` of them reused, has ``r + d`` tokens in its slot when ``d`` tokens are evaluated. Builds
print one of these counts and a rounded share of ``p``:

    b4384 and before b6900   n_past = r + d,   progress = d / p
    before b9161             n_tokens = r + d, progress = (r + d) / p
    since b9161              n_tokens = d,     progress = (r + d) / p   (only after 3 s)
"""

from __future__ import annotations

from itertools import combinations
from math import ceil, floor
from typing import NamedTuple, Sequence

from cachesim.tools.server_logs.facts.proven_range import FoundNumbers, ProvenRange, share_range
from cachesim.tools.server_logs.lines.read_lines import ReadLine
from cachesim.tools.server_logs.lines.tied_requests import TiedRequest

MOST = 64                    # progress lines of a request that are compared with each other


class _Progress(NamedTuple):
    """Progress line: tokens in the slot and tokens evaluated (None = not printed), and the range of their share."""

    line: ReadLine
    in_slot: int | None
    done: int | None
    low: float
    high: float


def add_progress(request: TiedRequest, found: FoundNumbers) -> None:
    """Add what the progress lines of a request prove about its prompt, its reused tokens and its evaluated tokens."""
    lines = [one for line in request.of("progress") if (one := _read(line)) is not None]
    for one in lines:
        _add_direct(one, found)
    counted = [one for one in lines if one.done is not None and "share" in one.line.read.numbers]
    for one in counted:
        _add_counted(one, found)
    few = counted if len(counted) <= MOST else [*counted[: MOST // 2], *counted[-MOST // 2 :]]
    for first, second in combinations(few, 2):
        _add_pair(first, second, found)
    for one in counted:
        _add_counted(one, found)
    for one in counted[-1:]:
        _add_most_reused(request, one, found)


def _add_most_reused(request: TiedRequest, row: _Progress, found: FoundNumbers) -> None:
    """Add the most tokens that can be reused: those in the slot at the end without those that were evaluated."""
    end = found.get("end")
    if end is None or end.high is None or row.done is None or request.of("ctx_shift") or end.high < row.done:
        return
    how = f"{end} tokens in the slot at the end - {row.done:,} evaluated, at most"
    found.add("cache_n", ProvenRange(0, end.high - row.done, end.lines | {row.line.number}, how))


def add_least_evaluated(request: TiedRequest, found: FoundNumbers) -> None:
    """Add the evaluated tokens of the last progress line as the least number of evaluated tokens."""
    known = found.get("prompt_n")
    for line in request.of("progress")[-1:]:
        done = line.number_of("done")
        if done and (known is None or known.low < done):
            found.add("prompt_n", ProvenRange(done, None, frozenset({line.number}), f"printed in line {line.number}"))


def _read(line: ReadLine) -> _Progress | None:
    name = "share" if "share" in line.read.numbers else "done_share"
    share = share_range(line, name)
    in_slot = line.number_of("n_tokens")
    done = line.number_of("done")
    if share is None or (in_slot is None and done is None):
        return None
    return _Progress(line=line, in_slot=in_slot, done=done, low=max(0.0, share[0]), high=min(1.0, share[1]))


def _add_direct(row: _Progress, found: FoundNumbers) -> None:
    """Add the length of the prompt from the tokens in the slot and their share of it."""
    if row.in_slot is None:
        return
    used = frozenset({row.line.number})
    if "share" not in row.line.read.numbers:
        found.add("n_tokens", ProvenRange(max(1, row.in_slot), None, used, f"{row.in_slot:,} tokens of it in the slot"))
        _add_evaluated_share(row, found)
    elif row.in_slot and row.low > 0:
        how = f"{row.in_slot:,} tokens are {row.line.read.words['share']} of it"
        high = floor(row.in_slot / row.low)
        found.add("n_tokens", ProvenRange(max(row.in_slot, ceil(row.in_slot / row.high)), high, used, how))


def _add_evaluated_share(row: _Progress, found: FoundNumbers) -> None:
    """Add the reused tokens from the tokens in the slot and the evaluated share of a known length."""
    length = found.get("n_tokens")
    if length is None or length.high is None or row.in_slot is None:
        return
    low, high = row.in_slot - floor(row.high * length.high), row.in_slot - ceil(row.low * length.low)
    how = f"{row.in_slot:,} tokens in the slot - {row.line.read.words['done_share']} of {length}"
    if high >= 0:
        found.add("cache_n", ProvenRange(max(0, low), high, length.lines | {row.line.number}, how))


def _add_counted(row: _Progress, found: FoundNumbers) -> None:
    """Add what follows from evaluated tokens, the share of the slot's tokens, and numbers known before."""
    done, share = row.done or 0, row.line.read.words["share"]
    used = frozenset({row.line.number})
    kept, whole = found.get("cache_n"), found.get("prompt_n")
    least = ceil(((0 if kept is None else kept.low) + done) / row.high)
    most = None if kept is None or kept.high is None or row.low <= 0 else floor((kept.high + done) / row.low)
    proof = used if kept is None else used | kept.lines
    how = f"{'reused' if kept is None else str(kept)} + {done:,} tokens are {share} of it"
    found.add("n_tokens", ProvenRange(max(1, least), most, proof, how))
    if whole is not None and whole.is_exact and whole.low > done:
        _add_rest(row, whole, found)
    length = found.get("n_tokens")
    if length is not None and length.high is not None:
        low, high = ceil(row.low * length.low) - done, floor(row.high * length.high) - done
        how = f"{share} of {length} prompt tokens - {done:,} evaluated until then"
        if high >= 0:
            found.add("cache_n", ProvenRange(max(0, low), high, length.lines | used, how))


def _add_rest(row: _Progress, whole: ProvenRange, found: FoundNumbers) -> None:
    """Add the length from the tokens that were not evaluated yet: they are the rest of the prompt."""
    rest = whole.low - (row.done or 0)
    low = ceil(rest / (1 - row.low))
    high = floor(rest / (1 - row.high)) if row.high < 1 else None
    how = f"{rest:,} tokens are the rest after {row.line.read.words['share']} of it"
    found.add("n_tokens", ProvenRange(low, high, whole.lines | {row.line.number}, how))


def _add_pair(first: _Progress, second: _Progress, found: FoundNumbers) -> None:
    """Add the length from the tokens evaluated between two lines and the difference of their shares."""
    between = (second.done or 0) - (first.done or 0)
    most, least = second.high - first.low, second.low - first.high
    if between <= 0 or most <= 0:
        return
    high = floor(between / least) if least > 0 else None
    how = f"{between:,} tokens between {first.line.read.words['share']} and {second.line.read.words['share']} of it"
    used = frozenset({first.line.number, second.line.number})
    found.add("n_tokens", ProvenRange(ceil(between / most), high, used, how))


def shows_whole_prompt(request: TiedRequest, found: FoundNumbers) -> Sequence[ReadLine]:
    """Return the progress lines at which the slot holds the whole prompt."""
    length = found.get("n_tokens")
    if length is None or not length.is_exact:
        return ()
    return [line for line in request.of("progress") if line.number_of("n_tokens") == length.low]


def is_within_longer(line: ReadLine, n_past: int) -> bool:
    """True if a progress line shows that a prompt has more than ``n_past`` tokens, if its memory was restored up
    to there: otherwise its last token alone would be evaluated, or all ``n_past`` tokens."""
    one = _read(line)
    if one is None or one.done is None or one.done < 2 or n_past < 1:
        return False
    return not one.low <= one.done / n_past <= one.high
