"""Did the cache hand back what a cold run would have computed? Judges every answer and every stored object.

Cold runs are kept per token list: they depend on neither the engine nor the profile.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Sequence

import numpy as np

from cachesim.engines.base import Answer, Output, Request
from cachesim.engines.view import Stored
from cachesim.judge.compare import compare_stored
from cachesim.judge.verdict import HOLDS, Verdict
from cachesim.model import Model, make_model
from cachesim.oracle import ColdRun, cold
from cachesim.tokens import Tokens


@dataclass(slots=True)
class Judged:
    """The verdicts about one request: its answer, the slot it left behind, and stored objects that are not what the
    engine believes them to be (``armed``: a wrong answer that waits for its request)."""

    answer: Verdict
    state: Verdict
    armed: list[tuple[Stored, Verdict]] = field(default_factory=list)

    @property
    def equal_cold(self) -> bool | None:
        """Was the answer, and what the next token reads, exactly a cold run's?"""
        if self.answer.holds is False or self.state.holds is False:
            return False
        return None if self.answer.holds is None or self.state.holds is None else True


class Judge:
    """A judge for one model; ``model`` None = nothing was computed, so everything is undecided."""

    def __init__(self, model: Model | None) -> None:
        self.model = model
        self._cold: dict[Tokens, list[tuple[ColdRun, set[int], set[int]]]] = {}

    def judge(self, request: Request, answer: Answer, slot: Stored | None, stored: Sequence[Stored] = ()) -> Judged:
        """Judge one answered request. ``slot`` is what it left behind, ``stored`` everything else kept."""
        try:
            said = self.answer(request, answer)
            state = HOLDS if slot is None or answer.died else self.stored(slot)
            armed = [(s, v) for s in stored if not (v := self.stored(s)).holds]
            return Judged(said, state, armed)
        except Exception as error:      # a checker that raises has decided nothing
            undecided = Verdict(None, why=f"the judge failed: {type(error).__name__}: {error}")
            return Judged(undecided, undecided)

    def answer(self, request: Request, answer: Answer) -> Verdict:
        """What was said after every token, against the cold run of the same tokens."""
        if answer.died:
            return Verdict(False, "aborted", f"the server process ended: {answer.error}")
        if self.model is None:
            return Verdict(None, why="nothing was computed in this mode")
        if answer.status != 200:
            return HOLDS
        tokens = (*request.prompt, *answer.tokens[:-1])
        speak = tuple(range(len(request.prompt) - 1, len(tokens)))
        if [said.pos for said in answer.outputs] != list(speak):
            return Verdict(None, why="the answer does not say where it spoke")
        return compare_outputs(answer.outputs, self.cold(tokens, speak, len(tokens)))

    def stored(self, stored: Stored) -> Verdict:
        """A stored object, against the cold run of the tokens that it is believed to hold."""
        if self.model is None:
            return Verdict(None, why="nothing was computed in this mode")
        if stored.resume > len(stored.tokens):
            return Verdict(False, "provenance", f"{stored.resume} tokens of a list of {len(stored.tokens)}")
        if not stored.resume:
            return HOLDS
        return compare_stored(stored, self.cold(stored.tokens, (), stored.resume))

    def digests(self, tokens: Tokens) -> ColdRun:
        """The provenance of a cold run, without numbers."""
        assert self.model is not None
        return cold(make_model(self.model.spec, exact=False, seed=self.model.seed), tokens, speak=())

    def cold(self, tokens: Tokens, speak: tuple[int, ...] = (), mark: int | None = None) -> ColdRun:
        """The cold run of the tokens, from memory if it was made before in this run."""
        assert self.model is not None
        for run, spoken, marked in self._cold.get(tokens, ()):
            if not self.model.exact or (set(speak) <= spoken and (mark is None or mark in marked)):
                return run
        marks = () if mark is None else (mark,)
        run = cold(self.model, tokens, speak=speak, marks=marks)
        self._cold.setdefault(tokens, []).append((run, set(speak), set(marks)))
        return run


def compare_outputs(outputs: Sequence[Output], run: ColdRun) -> Verdict:
    """Provenance and logits at every position where the model spoke; the first difference of the highest rung."""
    found = HOLDS
    for said in outputs:
        verdict = _compare_output(said, run)
        if not verdict.holds and (found.holds or (found.rung, verdict.rung) == ("bits", "argmax")):
            found = verdict
    return found


def _compare_output(said: Output, run: ColdRun) -> Verdict:
    clean = int(run.digests[said.pos]) == said.digest
    want = run.logits.get(said.pos)
    if said.logits is not None and want is not None and not np.array_equal(said.logits, want):
        rung = "bits" if int(np.argmax(said.logits)) == int(np.argmax(want)) else "argmax"
        return Verdict(False, rung, f"the answer at position {said.pos} differs from a cold run's", said.pos)
    if not clean:
        return Verdict(False, "provenance", f"the answer at position {said.pos} was computed from other rows", said.pos)
    return HOLDS
