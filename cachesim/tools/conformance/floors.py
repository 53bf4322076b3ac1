"""Is anything reused where a client expects it? One history for each floor; its last request has to reuse something.

A missed floor is no wrong answer: a cache may be small, or only able to append. So it fails only if ``strict``.
"""

from __future__ import annotations

from cachesim.tools.conformance.history import of_line
from cachesim.tools.conformance.history_draw import Space
from cachesim.tools.conformance.history_player import PlayedHistory
from cachesim.tools.conformance.properties import PROPERTIES
from cachesim.tools.conformance.protocol import Reply
from cachesim.tools.conformance.report import Finding, Result, floor_lines
from cachesim.tools.conformance.search import HistorySearch


def look_at_floors(search: HistorySearch, space: Space) -> dict[str, Result]:
    """Property -> its result, where its history could be played and the reply says what was reused."""
    found = {}
    for name, line in floor_lines(space).items():
        if search.patience.low or search.patience.spent:
            break
        played = search.play(of_line(line))
        cached = _cached(played)
        if cached is not None:
            found[name] = _result(name, line, played, cached)
    return found


def _cached(played: PlayedHistory) -> int | None:
    """Tokens that the last request reused, None if that is not known."""
    number = len(played.asks) - 1
    warm = played.warm[number] if 0 <= number < len(played.warm) else None
    if not isinstance(warm, Reply) or warm.refused:
        return None
    if warm.cached is not None:
        return warm.cached
    return None if warm.evaluated is None else len(played.asks[number].prompt) - warm.evaluated


def _result(name: str, line: str, played: PlayedHistory, cached: int) -> Result:
    if cached > 0:
        return Result(name, "reuse", PROPERTIES[name], "ok", 1, 1)
    size = len(played.asks[-1].prompt)
    finding = Finding(line, len(played.asks) - 1, "at least 1 token cached", f"0 of {size} tokens cached",
                      tuple(ask.prompt for ask in played.asks))  # fmt: skip
    return Result(name, "reuse", PROPERTIES[name], "missed", 1, finding=finding)
