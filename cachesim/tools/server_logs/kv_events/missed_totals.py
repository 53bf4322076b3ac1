"""Totals of the blocks that were stored again, of all and by the requests whose prompts have them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from cachesim.tools.server_logs.kv_events.block_history import Missed

MOST_REQUESTS = 10_000          # requests with totals of their own


@dataclass(slots=True)
class RequestMissed:
    """Blocks in the prompt of a request that were stored again. ``alone``: those that no other known prompt has."""

    blocks: int = 0
    tokens: int = 0
    alone: int = 0


@dataclass
class MissedTotals:
    """Totals of all rows."""

    rows: int = 0
    blocks: int = 0
    tokens: int = 0
    by_request: dict[int, RequestMissed] = field(default_factory=dict)

    def add(self, missed: Missed) -> None:
        """Add a row."""
        self.rows += 1
        self.blocks += missed.blocks
        self.tokens += missed.tokens
        for request in missed.requests or ():
            if request in self.by_request or len(self.by_request) < MOST_REQUESTS:
                found = self.by_request.setdefault(request, RequestMissed())
                found.blocks += missed.blocks
                found.tokens += missed.tokens
                found.alone += missed.blocks if len(missed.requests or ()) == 1 else 0

    def data(self) -> dict[str, Any]:
        """Return the totals as data."""
        return {
            "missed_blocks": self.blocks,
            "missed_tokens": self.tokens,
            "requests": [
                {"request": number, "blocks": one.blocks, "tokens": one.tokens, "alone": one.alone}
                for number, one in sorted(self.by_request.items())
            ],
        }
