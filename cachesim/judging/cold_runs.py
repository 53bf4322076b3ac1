"""What would a cold run have computed? Cold runs by token list, each made once for one model.

They depend on neither the engine nor the profile. Provenance of a prefix does not depend on what follows, so a prefix
of a list that was run before needs no run of its own.
"""

from __future__ import annotations

from cachesim.base.tokens import Tokens
from cachesim.model import Model, make_model
from cachesim.oracle.cold_run import ColdRun, cold

AHEAD = 4096                 # tokens of an expected list that are run at the first question about it
RECENT = 16


class Colds:
    """Cold runs of one model."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self._recent: list[tuple[Tokens, ColdRun]] = []
        self._found: tuple[Tokens, ColdRun] | None = None
        self._coming: list[Tokens] = []
        self._exact: dict[Tokens, list[tuple[ColdRun, set[int], set[int]]]] = {}

    def expect(self, tokens: Tokens) -> None:
        """Beginnings of this list will be asked for. Nothing is run yet: the server may refuse it."""
        self._coming = [*self._coming[1 - RECENT :], tokens]

    def covering(self, tokens: Tokens) -> ColdRun:
        """A cold run without numbers that begins with these tokens."""
        if self._found is None or not begins(self._found[0], tokens):
            self._found = next((one for one in reversed(self._recent) if begins(one[0], tokens)), None)
        if self._found is None:
            whole = self._ahead(tokens)
            self._found = whole, self.digests(whole)
            self._recent = [*self._recent[1 - RECENT :], self._found]
        return self._found[1]

    def covers(self, run: ColdRun, tokens: Tokens, same: int) -> bool:
        """Does a recent run, the first ``same`` tokens of which are wanted, go on with these?"""
        if self._found is not None and self._found[1] is run:           # the one that was asked for last
            return self._found[0][same : same + len(tokens)] == tokens
        return any(one is run and known[same : same + len(tokens)] == tokens for known, one in self._recent)

    def _ahead(self, tokens: Tokens) -> Tokens:
        """These tokens and more of what is expected: a long prompt needs few runs, and none that is far longer than
        what the server has evaluated of it."""
        expected = next((known for known in reversed(self._coming) if begins(known, tokens)), tokens)
        return expected[: max(AHEAD, 4 * len(tokens))]

    def digests(self, tokens: Tokens) -> ColdRun:
        """The cold run of just these tokens, without numbers."""
        return cold(make_model(self.model.spec, exact=False, seed=self.model.seed), tokens, speak=())

    def speaking(self, tokens: Tokens, speak: tuple[int, ...] = (), mark: int | None = None) -> ColdRun:
        """A cold run that begins with these tokens, with the numbers if the model has any: what is said after the
        positions ``speak``, the state after ``mark`` tokens."""
        if not self.model.exact:
            return self.covering(tokens)
        for run, spoken, marked in self._exact.get(tokens, ()):
            if set(speak) <= spoken and (mark is None or mark in marked):
                return run
        marks = () if mark is None else (mark,)
        run = cold(self.model, tokens, speak=speak, marks=marks)
        self._exact.setdefault(tokens, []).append((run, set(speak), set(marks)))
        return run


def begins(known: Tokens, tokens: Tokens) -> bool:
    """Does one list begin with the other?"""
    n = len(tokens)
    return n <= len(known) and (not n or known[n - 1] == tokens[-1]) and known[:n] == tokens
