"""Ties of the lines of mlx_lm.server of 2025, which keeps one prompt and answers one request after another.

A request's lines are those up to the number of tokens that it evaluates."""

from __future__ import annotations

from cachesim.tools.server_logs.lines.read_lines import ReadLine
from cachesim.tools.server_logs.lines.tied_requests import TiedRequest

KINDS = frozenset({"kept_prefix", "kept_part", "kept_trim", "kept_untrimmed", "kept_reset", "kept_evaluated"})
_LAST = "kept_evaluated"
_FIRST = frozenset({"kept_prefix", "kept_part"})


class KeptPromptTies:
    """The request whose prompt is compared with the kept one. ``add`` ties a line and returns the request that the line
    begins, if any."""

    def __init__(self) -> None:
        self._request: TiedRequest | None = None

    def add(self, line: ReadLine) -> TiedRequest | None:
        """Tie a line; return the request that it begins, None if it begins none."""
        request = None if line.kind in _FIRST else self._request
        begun = None
        if request is None:
            request = begun = TiedRequest(None, None)
        request.add(line)
        self._request = None if line.kind == _LAST else request
        return begun
