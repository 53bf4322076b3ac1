"""Load of the requests of a scenario on a server, from their tokens."""

from __future__ import annotations

from typing import Sequence

from cachesim.base.tokens import common_prefix
from cachesim.engines.capabilities import ServerLoad
from cachesim.scenarios.schema import Step


def load_of_steps(steps: Sequence[Step]) -> ServerLoad:
    """Return the load of requests. A request continues the conversation whose prompt it begins with, else it begins
    one."""
    last: list[Sequence[int]] = []             # latest prompt of each conversation
    lengths: list[int] = []
    for step in steps:
        prompt = step.request.prompt
        if not prompt:
            continue
        length = len(prompt) + max(0, step.request.n_predict)
        whole = (i for i, told in enumerate(last) if common_prefix(told, prompt) == len(told))
        found = max(whole, key=lambda i: len(last[i]), default=None)
        if found is None:
            last.append(prompt)
            lengths.append(length)
        else:
            last[found] = prompt
            lengths[found] = max(lengths[found], length)
    return ServerLoad(max(lengths, default=0), sum(lengths), len(lengths))
