"""How long is the common prefix, and what was in a slot before, after what a log prints of them?"""

from __future__ import annotations

from typing import Iterable

from cachesim.tools.server_logs.contents import SlotText
from cachesim.tools.server_logs.session import Logged

END = 4                      # tokens between the last checkpoint of a prompt and its end, in most engines
ANSWER = 2048                # tokens of an answer before the log begins, at most
BATCHES = (64, 128, 256, 512, 1024, 2048, 4096)    # usual micro-batches
LADDER = 12                  # prompts before the log begins, at most
MOST = 64                    # values of a free variable that are tried


def ladder(logged: Logged, needed: int, end: int = END) -> tuple[list[int], int]:
    """Prompts, each the next one's beginning, that leave checkpoints where the log saw some, and the length of the last
    answer: a server makes a checkpoint a few tokens before the end of a prompt (``end``), and one a micro-batch before
    that."""
    marks = sorted({hi + 1 for _, hi, _ in logged.checked} | ({logged.restored} if logged.restored else set()))
    ends = [one + end for one in marks if not {one + size for size in BATCHES} & set(marks)][-LADDER:]
    if not ends:
        return [needed], 1
    answer = needed - ends[-1] + 1
    return (ends, max(1, answer)) if answer <= ANSWER else ([*ends, needed], 1)


def thold(logged: Logged, n_swa: int = 0) -> tuple[int, ...]:
    """What the number behind `against` says of the common prefix: a memory with a window needs so much less."""
    return tuple(dict.fromkeys(int(at) + n_swa + more for _, _, at in logged.checked[:1] for more in (0, 1)))


def held_by_shares(logged: Logged) -> int | None:
    """Tokens in the slot: f_sim / f_keep of the prompt's, to the rounding of both."""
    if not logged.f_keep or logged.f_sim is None or logged.n_tokens is None:
        return None
    return round(logged.f_sim * logged.n_tokens / logged.f_keep)


def prefix_by_shares(logged: Logged, mine: SlotText, n_tokens: int) -> Iterable[tuple[int, str]]:
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
    likely = (*thold(logged), logged.cache_n, mine.prompt, held, (low + high) // 2)
    wanted = [one for one in likely if one is not None and one in fits]
    order = dict.fromkeys([*wanted, *fits][:MOST])
    return [(lcp, f"a common prefix of {lcp} tokens ({low} to {high} print the same shares)") for lcp in order]


def _least(share: float, whole: int) -> int:
    """Smallest count whose share of ``whole`` prints as this with three decimals."""
    return max(0, -(-int((share * 1000 - 0.5) * whole) // 1000))


def _most(share: float, whole: int) -> int:
    return int((share * 1000 + 0.5) * whole) // 1000
