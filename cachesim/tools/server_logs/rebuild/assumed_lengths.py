"""Lengths of prompts that a simulation assumes: a log may bound a length, or not even that.

An assumed length is a candidate of the reconstruction and is printed with its result. It is not a number of the report.
"""

from __future__ import annotations

from math import ceil, floor
from typing import NamedTuple, Sequence

from cachesim.tools.server_logs.facts.logged_requests import LoggedRequest
from cachesim.tools.server_logs.facts.proven_range import ProvenRange, share_range
from cachesim.tools.server_logs.rebuild.before_the_log import listed_checkpoints
from cachesim.tools.server_logs.rebuild.request_order import ChainedRequest
from cachesim.tools.server_logs.rebuild.slot_contents import END

ENDS = "prompt length assumed: the last position in the log"
MOST_ASSUMED = 300_000       # tokens of a prompt whose length the log does not bound: longer ones take too much memory
MARKED = "prompt length assumed: its last checkpoint in the log"
GOES_ON = "prompt assumed to extend the longest prompt before it"


class AssumedLength(NamedTuple):
    """Length of a prompt [tokens]. ``why``: the assumption, "" = known from the log. ``is_bounded``: the log bounds it
    from above."""

    n_tokens: int
    why: str = ""
    is_bounded: bool = True


def assumed_lengths(chain: Sequence[ChainedRequest], tail: int = END) -> list[tuple[AssumedLength, ...]]:
    """Return the possible lengths of each prompt, most likely first; () if the log shows nothing about it. ``tail``:
    tokens of a prompt after its last checkpoint."""
    found: list[tuple[AssumedLength, ...]] = []
    longest = 0
    for link in chain:
        request = link.logged
        lengths = _lengths(link, longest, tail)
        if lengths and lengths[0].why == ENDS and not request.is_whole and request.end is not None:
            lengths = (*_by_checkpoints(request.end, listed_checkpoints(link), tail), *lengths)
        longest = max([longest, *(length.n_tokens for length in lengths[:1])])
        found.append(lengths)
    return found


def has_length(request: LoggedRequest) -> bool:
    """True if the log determines or bounds the length of a prompt."""
    return request.n_tokens is not None or request.range_of("n_tokens") is not None


def _lengths(link: ChainedRequest, longest: int, tail: int) -> tuple[AssumedLength, ...]:
    """Return the possible lengths of a prompt. ``longest``: the longest prompt before it."""
    request = link.logged
    if request.is_cancelled and request.end:
        why = f"cancelled: simulated with the {request.end:,} tokens that the slot held at the end"
        whole = AssumedLength(request.end, why, is_bounded=False)
        return (*_by_resumption(link, request.end, tail), whole)
    if request.n_tokens is not None:
        return (AssumedLength(request.n_tokens),)
    known = _known_range(request, link.held)
    if known is not None and known.high is not None:
        middle = (known.low + known.high) // 2
        why = f"prompt length assumed: {{:,}}, the log shows {known}"
        return tuple(AssumedLength(size, why.format(size)) for size in dict.fromkeys((middle, known.low, known.high)))
    if not request.is_named:
        evaluated = request.prompt_n
        return () if evaluated is None else (AssumedLength(longest + evaluated, GOES_ON, is_bounded=False),)
    least = _least(request)
    if least and link.following is not None and request.end is None:
        least = max(least, link.following.logged.least("cache_n"))      # the next request reused so many tokens
    if not 0 < least <= MOST_ASSUMED:
        return ()
    return (AssumedLength(least, ENDS, is_bounded=False), *_by_last_batch(request, least, tail))


def _known_range(request: LoggedRequest, held: ProvenRange | None) -> ProvenRange | None:
    """Return the lengths of a prompt that its lines and the shares of its slot allow, None if nothing bounds them.
    ``held``: tokens that the previous request left in the slot."""
    printed, shared = request.range_of("n_tokens"), _by_shares(request, held)
    if printed is None or shared is None:
        return printed or shared
    return printed.within(shared) if printed.meets(shared) else printed


def _by_checkpoints(end: int, listed: Sequence[int], tail: int) -> tuple[AssumedLength, ...]:
    """Return the length of a prompt that leaves the last of these checkpoints, () without one. ``end``: tokens in its
    slot at the end; ``listed``: tokens of checkpoints that later lines show, and no line creates."""
    last = max((at for at in listed if at + tail <= end), default=0)
    return (AssumedLength(last + tail, MARKED, is_bounded=False),) if last else ()


def _by_last_batch(request: LoggedRequest, least: int, tail: int) -> tuple[AssumedLength, ...]:
    """Return the length of a prompt whose last batch has its last ``tail`` tokens, () unless the log shows a batch that
    begins at the last checkpoint. ``least``: the minimum length."""
    last = max(request.created, default=0)
    begun = [] if request.tied is None else [line.number_of("p0") for line in request.tied.of("batch")]
    is_last = bool(begun) and begun[-1] == last and least < last + tail
    return (AssumedLength(last + tail, MARKED, is_bounded=False),) if is_last else ()


def _by_resumption(link: ChainedRequest, end: int, tail: int) -> tuple[AssumedLength, ...]:
    """Return the length of a cancelled prompt after whose last checkpoint the next request of its slot resumes, () if
    that one shows no checkpoint. ``end``: tokens in the slot when the client hung up."""
    step = next(link.walk_later(), None)
    at = step.logged.cache_n if step is not None and step.is_resumed_within else None
    if at is None or not link.logged.least("cache_n") < at <= end - tail:
        return ()
    why = f"cancelled after its prompt, assumed to end {tail} tokens after the checkpoint at which the next one resumes"
    return (AssumedLength(at + tail, why, is_bounded=False),)


def _by_shares(request: LoggedRequest, held: ProvenRange | None) -> ProvenRange | None:
    """Return the lengths of a prompt for which its slot prints these shares: held x f_keep = length x f_sim."""
    choice = None if request.tied is None or request.tied.similar else request.tied.choice    # else it is printed
    if choice is None or choice.kind != "slot_by_lcp" or request.is_loaded or held is None or held.high is None:
        return None
    keep, similar = share_range(choice, "f_keep"), share_range(choice, "f_sim")
    if keep is None or similar is None or similar[0] <= 0:
        return None
    low, high = ceil(keep[0] * held.low / similar[1]), floor(min(keep[1], 1) * held.high / similar[0])
    return ProvenRange(max(low, request.least("n_tokens")), high) if request.least("n_tokens") <= high else None


def _least(request: LoggedRequest) -> int:
    """Return the minimum length of a prompt that fits its lines; 0 = unknown."""
    if request.end is not None and request.predicted_n is None and not request.truncated:
        return max(1, request.end, request.least("n_tokens"))
    seen = max([*request.created, request.least("cache_n"), request.restored or 0, request.least("lcp"),
                *(thold for _, _, thold in request.checked)])  # fmt: skip
    return max(seen + 1 if seen or request.is_whole or request.full else 0, request.least("n_tokens"))
