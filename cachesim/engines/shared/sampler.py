"""What does a server sample? The forced token of the request, else one that depends on everything held."""

from __future__ import annotations

import zlib
from array import array
from typing import Callable, Sequence

from cachesim.engines.base import Request
from cachesim.events import Log

Sampler = Callable[[Sequence[int], Request, int], int]
SAMPLED = 1 << 40        # sampled tokens are numbered from here, so that no prompt word contains one by chance
WRONG = 1 << 41          # drafted tokens that are not the right ones are numbered from here


def forced_or_hashed(held: Sequence[int], request: Request, n_gen: int) -> int:
    """The request's forced token number n_gen; where there is none, a token that depends on everything held:
    the same conversation always goes on in the same way."""
    if request.forced is not None and n_gen < len(request.forced):
        return request.forced[n_gen]
    return SAMPLED + zlib.crc32(array("q", held).tobytes())


class Counted:
    """A sampler whose choices are counted in the log; forced tokens are none."""

    def __init__(self, sampler: Sampler, log: Log) -> None:
        self.sampler, self.log = sampler, log

    def __call__(self, held: Sequence[int], request: Request, n_gen: int) -> int:
        """The token of the sampler. Raises BadInput when a run has too many."""
        if n_gen >= len(request.forced or ()):
            self.log.sample()
        return self.sampler(held, request, n_gen)


def forced_draft(
    sampler: Sampler, held: Sequence[int], request: Request, n_gen: int, right: int, drafted: int
) -> list[int]:
    """A draft behind ``held`` (the sampled token included): the first ``right`` tokens are what the sampler will say,
    the others are not."""
    tokens = list(held)
    for k in range(right):
        tokens.append(sampler(tokens, request, n_gen + k))
    return [*tokens[len(held) :], *(WRONG + k for k in range(drafted - right))]
