"""Did the cache hand back what a cold run would have computed? Judges every answer and every stored object."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Mapping, NamedTuple, Sequence

import numpy as np

from cachesim.base.errors import Crash
from cachesim.base.tokens import Tokens
from cachesim.engines.base import Answer, Output, Request, prompt_of
from cachesim.engines.inspection import Key, Stored
from cachesim.judging.compare_stored import compare_stored
from cachesim.judging.fault_kinds import Kind
from cachesim.judging.verdict import HOLDS, Verdict, broken, undecided, worst
from cachesim.model import Model, make_model
from cachesim.oracle.cold_run import ColdRun, cold
from cachesim.oracle.shifted_run import CutAt, cold_shifted

# What would a cold run have computed? Cold runs by token list, each made once for one model.
#
# They depend on neither the engine nor the profile. Provenance of a prefix does not depend on what follows, so a prefix
# of a list that was run before needs no run of its own.

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

    def speaking(self, tokens: Tokens, speak: tuple[int, ...] = (), marks: tuple[int, ...] = ()) -> ColdRun:
        """A cold run that begins with these tokens, with the numbers if the model has any: what is said after the
        positions ``speak``, the states after each of ``marks`` tokens."""
        if not self.model.exact:
            return self.covering(tokens)
        for run, spoken, marked in self._exact.get(tokens, ()):
            if set(speak) <= spoken and set(marks) <= marked:
                return run
        run = cold(self.model, tokens, speak=speak, marks=marks)
        self._exact.setdefault(tokens, []).append((run, set(speak), set(marks)))
        return run


def begins(known: Tokens, tokens: Tokens) -> bool:
    """Does one list begin with the other?"""
    n = len(tokens)
    return n <= len(known) and (not n or known[n - 1] == tokens[-1]) and known[:n] == tokens


NOTHING_COMPUTED = undecided(Kind.NOTHING_COMPUTED)
NO_PLACE = undecided(Kind.NO_PLACE)
OTHER_TEXT = broken("provenance", Kind.OTHER_TEXT)


@dataclass(slots=True)
class Judged:
    """The verdicts about one request: its answer, the slot it left behind, and stored objects that are not what the
    engine believes them to be (``armed``: a wrong answer that waits for its request). ``refused``: it ended with an
    error that a cold run ends with too, so that there is nothing to compare. ``window``: positions lo .. hi-1 of which
    the slot still had rows in its window layers, None = there are no such layers, or nothing was left."""

    answer: Verdict
    state: Verdict
    armed: list[tuple[Stored, Verdict]] = field(default_factory=list)
    refused: bool = False
    window: tuple[int, int] | None = None

    @property
    def wrong(self) -> Verdict | None:
        """The first of the two that is broken."""
        return next((v for v in (self.answer, self.state) if v.holds is False), None)

    @property
    def doubt(self) -> Verdict:
        """What is wrong, or why nothing is known."""
        return self.wrong or self.answer

    @property
    def fault(self) -> str:
        """The same in one sentence; "" where all is well."""
        return self.doubt.why

    @property
    def equal_cold(self) -> bool | None:
        """Was the answer, and what the next token reads, exactly a cold run's?"""
        if self.wrong:
            return False
        return None if self.answer.holds is None or self.state.holds is None else True


class Judge:
    """A judge for one model; ``model`` None = nothing was computed, so everything is undecided."""

    def __init__(self, model: Model | None) -> None:
        self.model = model
        self._colds = None if model is None else Colds(model)

    def judge(self, request: Request, answer: Answer, slot: Stored | None) -> Judged:
        """Judge one answered request. ``slot`` is what it left behind."""
        try:
            return Judged(*self._whole(request, answer, slot))
        except Exception as error:      # a checker that raises has decided nothing
            return unknown(error)

    def _whole(self, request: Request, answer: Answer, slot: Stored | None) -> tuple[Verdict, Verdict]:
        if answer.died:
            return broken("aborted", Kind.PROCESS_ENDED, error=answer.error), HOLDS
        if self.model is None:
            return NOTHING_COMPUTED, NOTHING_COMPUTED
        if answer.shifts:
            return self._shifted(self.model, request, answer, slot)
        said = worst([self.answer(request, one) for one in (answer, *answer.children)])
        return said, HOLDS if slot is None else self.stored(slot)

    def answer(self, request: Request, answer: Answer) -> Verdict:
        """What was said after every token, against the cold run of the tokens that the slot held. Where another text
        was loaded into the slot meanwhile, against that of the tokens that were asked for: it may be out of reach."""
        prompt = prompt_of(request, answer)
        if answer.status != 200 or not (prompt or answer.tokens):
            return HOLDS
        held, wanted = answer.slot_tokens, (*prompt, *answer.tokens)
        n = min(len(held), len(wanted))
        other = held[:n] != wanted[:n]
        if other and len(held) > n:
            return OTHER_TEXT
        speak = tuple(range(len(prompt) - 1, len(held)))
        if not answer.cancelled and [said.pos for said in answer.outputs] != list(speak):
            return OTHER_TEXT if other else NO_PLACE
        run = self.colds.speaking(wanted[:n] if other else held, speak, (len(held),))
        wants = [Want(said.pos, int(run.digests[said.pos]), run.logits.get(said.pos)) for said in answer.outputs]
        found = compare_outputs(answer.outputs, wants)
        return OTHER_TEXT if other and not found.holds else found

    def _shifted(
        self, model: Model, request: Request, answer: Answer, slot: Stored | None
    ) -> tuple[Verdict, Verdict]:
        """An answer with a context shift inside, against a cold run that shifts at the same tokens."""
        cuts = [CutAt(*shift) for shift in answer.shifts]
        said, store = cold_shifted(model, prompt_of(request, answer), evaluated(answer), cuts)
        if len(said) != len(answer.outputs):
            return NO_PLACE, HOLDS
        wants = [Want(mine.pos, cold.digest, cold.logits) for mine, cold in zip(answer.outputs, said, strict=True)]
        state = HOLDS if slot is None else compare_stored(slot, store)
        return compare_outputs(answer.outputs, wants), state

    def stored(self, stored: Stored, cold: ColdRun | None = None) -> Verdict:
        """A stored object, against the cold run of the tokens that it is believed to hold."""
        if self.model is None:
            return NOTHING_COMPUTED
        if stored.resume > len(stored.tokens):
            return broken("provenance", Kind.TOKENS_MISSING, resume=stored.resume, tokens=len(stored.tokens))
        if not stored.resume:
            return HOLDS
        return compare_stored(stored, cold or self.colds.speaking(stored.tokens, (), (stored.resume,)))

    def each_stored(self, objects: Mapping[Key, Stored]) -> dict[Key, Verdict]:
        """The verdicts about several objects. Those of one conversation are compared with one cold run."""
        usable = [one for one in objects.values() if self.model is not None and 0 < one.resume <= len(one.tokens)]
        texts = {id(one.tokens): one.tokens for one in usable}
        whole, marks = dict[int, Tokens](), dict[int, set[int]]()
        longest: Tokens = ()
        for tokens in sorted(texts.values(), reverse=True):       # beginnings of a list come right behind it
            longest = whole[id(tokens)] = longest if begins(longest, tokens) else tokens
        for one in usable:
            marks.setdefault(id(whole[id(one.tokens)]), set()).add(one.resume)
        runs = {id(text): self.colds.speaking(text, (), tuple(sorted(marks[id(text)]))) for text in whole.values()}
        return {key: self.stored(one, runs[id(whole[id(one.tokens)])] if id(one.tokens) in whole else None)
                for key, one in objects.items()}  # fmt: skip

    @property
    def colds(self) -> Colds:
        """The cold runs of this model. Raises Crash where nothing is computed."""
        if self._colds is None:
            raise Crash("no cold run without a model")
        return self._colds


def unknown(error: Exception) -> Judged:
    """Nothing was decided, because of this."""
    failed = undecided(Kind.JUDGE_FAILED, exception=type(error).__name__, error=str(error))
    return Judged(failed, failed)


def evaluated(answer: Answer) -> Tokens:
    """The generated tokens that were evaluated: all but the last one, and what a draft has put into the slot behind the
    end of the answer."""
    behind = len(answer.outputs) - len(answer.tokens)
    return (*answer.tokens[:-1], *(answer.slot_tokens[-behind:] if behind > 0 else ()))


class Want(NamedTuple):
    """What a cold run says after one token."""

    pos: int
    digest: int
    logits: np.ndarray | None


def compare_outputs(outputs: Sequence[Output], wants: Sequence[Want]) -> Verdict:
    """Provenance and logits wherever the model spoke; the first difference of the highest rung."""
    return worst(_compare_output(said, want) for said, want in zip(outputs, wants, strict=True))


def _compare_output(said: Output, want: Want) -> Verdict:
    if said.logits is not None and want.logits is not None and not np.array_equal(said.logits, want.logits):
        rung = "bits" if int(np.argmax(said.logits)) == int(np.argmax(want.logits)) else "argmax"
        return broken(rung, Kind.ANSWER, said.pos, position=said.pos)
    if said.digest != want.digest:
        return broken("provenance", Kind.ANSWER_ROWS, said.pos, position=said.pos)
    return HOLDS
