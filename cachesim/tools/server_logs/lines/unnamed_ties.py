"""Ties of mlx_lm.server's lines, which name neither slot nor task.

That server logs prompt cache look-ups, evaluation progress and, at level DEBUG, its answers. Several requests may be
active. Progress belongs to the oldest active request whose numbers fit, an answer to the newest: streams are not logged
and stay open. The numbers of an answer stand in its own lines. What may belong to another request is dropped.
"""

from __future__ import annotations

from cachesim.tools.server_logs.lines.read_lines import ReadLine
from cachesim.tools.server_logs.lines.tied_requests import TiedRequest

KINDS = frozenset({"fetch", "progress_of", "reply", "usage"})
_USAGE = 4                   # lines from the tokens of the prompt to the cached ones in an answer
WAITING = 64                 # active requests without an answer, at most


class UnnamedTies:
    """Active requests without names. ``add`` ties a line and returns the request that the line begins, if any."""

    def __init__(self) -> None:
        self.active: list[TiedRequest] = []
        self._has_lookups = False
        self._reply: list[ReadLine] | None = None                # numbers of the answer being read, None = none

    def add(self, line: ReadLine) -> TiedRequest | None:
        """Tie a line; return the request that it begins, None if it begins none."""
        if line.kind == "fetch":
            self._has_lookups = True
            return self._begin([line])
        if line.kind == "progress_of":
            return self._progress(line)
        if line.kind == "reply":
            self._reply = []                                     # numbers of a client's request are not an answer's
        elif line.kind == "usage" and self._reply is not None:
            self._reply.append(line)
            if line.number_of("cache_n") is not None:
                found, self._reply = self._reply, None
                return self._answered(found)
        return None

    def _begin(self, lines: list[ReadLine]) -> TiedRequest:
        request = TiedRequest(None, None, lines)
        self.active = [*self.active[-WAITING:], request]
        return request

    def _progress(self, line: ReadLine) -> TiedRequest | None:
        """Tie evaluation progress; ``total`` is the number of tokens that the request evaluates. Return the request
        that it begins if no look-ups are logged, as by older servers."""
        done, total = line.number_of("n_tokens"), line.number_of("total")
        if done is None or total is None:
            return None
        known = [one for one in self.active if _total(one) == total and _done(one) < done]
        fresh = [one for one in self.active if _total(one) is None]
        if not known and len({_found_nothing(one) for one in fresh}) > 1:
            for one in fresh:
                one.lines = [held.without("prompts") for held in one.lines]     # whose cache was empty is unknown
        for one in (known or fresh)[:1]:
            one.add(line)
        return None if known or fresh or self._has_lookups else self._begin([line])

    def _answered(self, found: list[ReadLine]) -> TiedRequest | None:
        """Tie the numbers of an answer to the newest active request that they fit, else begin a request with them."""
        numbers = {name: value for line in found for name in ("n_tokens", "cache_n")
                   if (value := line.number_of(name)) is not None}  # fmt: skip
        evaluated = numbers.get("n_tokens", -1) - numbers["cache_n"]
        if evaluated < 0 or found[-1].number - found[0].number != _USAGE:
            return None                                          # lines are missing, or those of another server
        fits = [one for one in self.active if _total(one) is None]
        fits += [one for one in self.active if _total(one) == evaluated]
        request = fits[-1] if fits else TiedRequest(None, None)
        for line in found:
            request.add(line)
        self.active = [one for one in self.active if one is not request]
        return None if fits else request


def _total(request: TiedRequest) -> int | None:
    """Return the tokens that a request evaluates, None if no progress was logged."""
    return next((line.number_of("total") for line in request.of("progress_of")), None)


def _done(request: TiedRequest) -> int:
    """Return the tokens evaluated at the last progress line, of which there is at least one."""
    return max(line.number_of("n_tokens") or 0 for line in request.of("progress_of"))


def _found_nothing(request: TiedRequest) -> bool:
    """True if a request was looked up in an empty cache."""
    return any(line.number_of("prompts") == 0 for line in request.of("fetch"))
