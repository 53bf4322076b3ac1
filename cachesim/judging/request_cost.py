"""Cost of a request beside its tokens: decode calls, memory of stored conversations, and counted drafts."""

from __future__ import annotations

from typing import NamedTuple

from cachesim.events import Decoded, PcState
from cachesim.judging.judged_run import Run


class RequestCost(NamedTuple):
    """Cost of a request: its decode calls, the largest size of the prompt cache meanwhile [MiB], tokens drafted, and
    tokens counted as accepted."""

    decodes: int = 0
    stored_mib: float = 0.0
    drafted: int = 0
    accepted: int = 0

    def exceeds(self, cost: RequestCost) -> bool:
        """True if this cost has more decode calls or more memory than ``cost``."""
        return self.decodes > cost.decodes or self.stored_mib > cost.stored_mib


def cost_of(run: Run, number: int) -> RequestCost:
    """Return the cost of a request of a run."""
    events, answer = run.events(number), run.requests[number].answer
    decodes = sum(isinstance(event, Decoded) for event in events)
    stored = max((event.mib for event in events if isinstance(event, PcState)), default=0.0)
    return RequestCost(decodes, stored, answer.draft_n, answer.draft_n_accepted)


def cost_change(old: RequestCost, new: RequestCost) -> str:
    """Return the parts of a cost that differ, in words: ``3 decode calls instead of 5``."""
    words = {"decodes": "decode calls", "stored_mib": "MiB of stored conversations", "drafted": "tokens drafted",
             "accepted": "tokens counted as accepted"}  # fmt: skip
    return ", ".join(f"{getattr(new, name)} {noun} instead of {getattr(old, name)}"
                     for name, noun in words.items() if getattr(new, name) != getattr(old, name))  # fmt: skip
