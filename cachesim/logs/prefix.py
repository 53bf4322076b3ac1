"""How long is the common prefix, and what was in a slot before, after what a log prints of them?"""

from __future__ import annotations

from typing import Iterable

from cachesim.logs.contents import Text
from cachesim.logs.session import Logged

END = 4                      # tokens between the last checkpoint of a prompt and its end
LADDER = 12                  # prompts before the log begins, at most
MOST = 64                    # values of a free variable that are tried


def ladder(logged: Logged, needed: int) -> list[int]:
    """Prompts, each the next one's beginning, that leave checkpoints where the log saw some: a server makes one a few
    tokens before the end of a prompt, and one a micro-batch before that."""
    marks = sorted({hi + 1 for _, hi, _ in logged.checked} | ({logged.restored} if logged.restored else set()))
    ends = [one + END for one in marks if one + END < needed and not any(one < other <= one + 2048 for other in marks)]
    return [*ends[-LADDER:], needed]


def thold(logged: Logged) -> tuple[int, ...]:
    """What the number behind `against` says of the common prefix: a memory without a window needs just this."""
    return tuple(dict.fromkeys(int(at) + more for _, _, at in logged.checked[:1] for more in (0, 1)))


def held_by_shares(logged: Logged) -> int | None:
    """Tokens in the slot: f_sim / f_keep of the prompt's, to the rounding of both."""
    if not logged.f_keep or logged.f_sim is None or logged.n_tokens is None:
        return None
    return round(logged.f_sim * logged.n_tokens / logged.f_keep)


def prefix_by_shares(logged: Logged, mine: Text, n_tokens: int) -> Iterable[tuple[int, str]]:
    """Lengths of the common prefix that print as these shares; with what they assume, "" if there is one only."""
    assert logged.f_keep is not None
    held = mine.size
    low, high = 0, min(held, n_tokens)
    for share, whole in ((logged.f_keep, held), (logged.f_sim, n_tokens)):
        if share is not None:
            low, high = max(low, _least(share, whole)), min(high, _most(share, whole))
    fits = range(low, high + 1)
    if len(fits) <= 1:
        return [(max(0, low), "")]
    wanted = [one for one in (logged.cache_n, mine.prompt, held, (low + high) // 2) if one is not None and one in fits]
    order = dict.fromkeys([*wanted, *fits][:MOST])
    return [(lcp, f"a common prefix of {lcp} tokens ({low} to {high} print the same shares)") for lcp in order]


def _least(share: float, whole: int) -> int:
    """Smallest count whose share of ``whole`` prints as this with three decimals."""
    return max(0, -(-int((share * 1000 - 0.5) * whole) // 1000))


def _most(share: float, whole: int) -> int:
    return int((share * 1000 + 0.5) * whole) // 1000
