"""Ties of lines that name their request by a word, such as a UUID, of software that is not simulated.

Some lines about the stored state of a request are printed while it is looked up, and name no request. They belong to
the next line of a lookup.
"""

from __future__ import annotations

from cachesim.tools.server_logs.lines.read_lines import ReadLine
from cachesim.tools.server_logs.lines.tied_requests import TiedRequest

NAMED = frozenset({"omlx_added", "omlx_matched", "omlx_restored", "omlx_differs"})
"""Kinds of lines of a lookup, which name the request."""
REASONS = frozenset({"omlx_cut", "omlx_rejected", "omlx_no_state"})
"""Kinds of lines about a lookup that name no request."""
KINDS = NAMED | REASONS
OPEN = 256                   # requests that may get more lines, at most


class WordTies:
    """Requests by their names. ``add`` ties a line and returns the request that the line begins, if any."""

    def __init__(self) -> None:
        self._requests: dict[str, TiedRequest] = {}
        self._reasons: list[ReadLine] = []                       # of the lookup whose request is named next

    def add(self, line: ReadLine) -> TiedRequest | None:
        """Tie a line; return the request that it begins, None if it begins none."""
        if line.kind in REASONS:
            self._reasons.append(line)
            return None
        name = str(line.read.numbers.get("request", ""))
        known = self._requests.get(name)
        request = TiedRequest(None, None) if known is None else known
        reasons, self._reasons = self._reasons, []
        for found in (*reasons, line):
            request.add(found)
        self._requests[name] = request
        for oldest in list(self._requests)[:-OPEN]:
            del self._requests[oldest]
        return request if known is None else None
