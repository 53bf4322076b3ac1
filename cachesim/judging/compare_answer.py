"""Judge that compares every answer and every stored object with a cold run.

Cold runs are kept by token list, each made once for a model. They depend on neither the engine nor the profile.
Provenance of a prefix does not depend on later tokens, so a prefix of an earlier list needs no run of its own.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Mapping, NamedTuple, Sequence

import numpy as np

from cachesim.base.brief_repr import brief_repr
from cachesim.base.errors import Crash, OverLimit
from cachesim.base.limits import EXACT_WORK
from cachesim.base.tokens import Tokens
from cachesim.engines.base import Answer, Output, Request, prompt_of, with_identities
from cachesim.engines.inspection import Key, StoredObject
from cachesim.engines.shared.evaluation_cost import cost_of
from cachesim.judging.compare_stored import compare_stored
from cachesim.judging.fault_kinds import FaultKind
from cachesim.judging.verdict import CORRECT, Verdict, undecided, worst, wrong
from cachesim.model import Model, make_model
from cachesim.oracle.cold_run import ColdRun, cold
from cachesim.oracle.shifted_run import CutAt, cold_shifted

AHEAD = 4096                 # tokens of an expected list that its first cold run covers
RECENT = 16                  # cold runs, and expected lists, that are kept


class ColdRunCache:
    """Cold runs of a model."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self._recent: list[tuple[Tokens, ColdRun]] = []
        self._found: tuple[Tokens, ColdRun] | None = None
        self._prefix: Tokens = ()                      # the latest list that ``_found`` begins with
        self._coming: list[Tokens] = []
        self._exact: dict[Tokens, list[tuple[ColdRun, set[int], set[int]]]] = {}
        self.work = 0                                  # arithmetic of the cold runs of a run [work units]

    def expect(self, tokens: Tokens) -> None:
        """Announce a list whose prefixes will be requested. Nothing is run yet, because the server may refuse it."""
        self._coming = [*self._coming[1 - RECENT :], tokens]

    def covering(self, tokens: Tokens) -> ColdRun:
        """Return a cold run without numbers that begins with these tokens."""
        if self._found is not None and tokens is self._prefix:
            return self._found[1]
        if self._found is None or not begins(self._found[0], tokens):
            self._found = next((recent for recent in reversed(self._recent) if begins(recent[0], tokens)), None)
        if self._found is None:
            whole = self._ahead(tokens)
            self._found = whole, self.digests(whole)
            self._recent = [*self._recent[1 - RECENT :], self._found]
        self._prefix = tokens
        return self._found[1]

    def covers(self, run: ColdRun, tokens: Tokens, same: int) -> bool:
        """True if ``run``, a recent run that begins with the first ``same`` wanted tokens, continues with
        ``tokens``."""
        return any(recent is run and known[same : same + len(tokens)] == tokens for known, recent in self._recent)

    def _ahead(self, tokens: Tokens) -> Tokens:
        """Return these tokens and more of an expected list, so that a long prompt needs few runs and no run is much
        longer than the evaluated part."""
        expected = next((known for known in reversed(self._coming) if begins(known, tokens)), tokens)
        return expected[: max(AHEAD, 4 * len(tokens))]

    def digests(self, tokens: Tokens) -> ColdRun:
        """Return the cold run of exactly these tokens, without numbers."""
        return cold(make_model(self.model.spec, exact=False, seed=self.model.seed), tokens, logits_at=())

    def speaking(self, tokens: Tokens, logits_at: tuple[int, ...] = (), marks: tuple[int, ...] = ()) -> ColdRun:
        """Return a cold run that begins with these tokens, with numbers if the model has them: the outputs after the
        positions ``logits_at`` and the states after each of ``marks`` tokens."""
        if not self.model.exact:
            return self.covering(tokens)
        for run, spoken, marked in self._exact.get(tokens, ()):
            if set(logits_at) <= spoken and set(marks) <= marked:
                return run
        self.spend(len(tokens))
        run = cold(self.model, tokens, logits_at=logits_at, marks=marks)
        self._exact.setdefault(tokens, []).append((run, set(logits_at), set(marks)))
        return run

    def spend(self, tokens: int) -> None:
        """Count the arithmetic of a cold run of so many tokens. Raise OverLimit if it is more than all may do."""
        self.work += cost_of(self.model, tokens, max(1, tokens), tokens * (tokens - 1) // 2)[2]
        if self.work > EXACT_WORK.now:
            raise EXACT_WORK.exceeded("the cold runs do more exact arithmetic than they may")


def begins(known: Tokens, tokens: Tokens) -> bool:
    """True if ``known`` begins with ``tokens``."""
    n = len(tokens)
    return n <= len(known) and (not n or known[n - 1] == tokens[-1]) and known[:n] == tokens


NOTHING_COMPUTED = undecided(FaultKind.NOTHING_COMPUTED)
NO_PLACE = undecided(FaultKind.NO_PLACE)
OTHER_TEXT = wrong("provenance", FaultKind.OTHER_TEXT)


@dataclass(slots=True, repr=False)
class RequestVerdict:
    """The verdicts about a request: its answer, the slot it left behind, and stored objects that differ from a cold
    run of their tokens (``armed``: a later request would be answered wrongly from them). ``is_refused``: a cold run
    ends with an error too, so nothing was compared. ``window``: positions lo .. hi-1 that the slot's window layers
    still hold; None without such layers, or if nothing was left."""

    answer: Verdict
    state: Verdict
    armed: list[tuple[StoredObject, Verdict]] = field(default_factory=list)
    is_refused: bool = False
    window: tuple[int, int] | None = None

    def __repr__(self) -> str:
        return brief_repr(self)

    @property
    def wrong(self) -> Verdict | None:
        """Return the broken verdict, that of the answer first; None if neither is broken."""
        return next((v for v in (self.answer, self.state) if v.equal_cold is False), None)

    @property
    def doubt(self) -> Verdict:
        """Return the broken verdict, else that of the answer, which may be undecided."""
        return self.wrong or self.answer

    @property
    def fault(self) -> str:
        """Return the fault, or the reason of an undecided verdict, in a sentence; "" for a correct answer."""
        return self.doubt.why

    @property
    def equal_cold(self) -> bool | None:
        """True if the answer, and the state that the next token reads, equal a cold run's; None if undecided."""
        if self.wrong:
            return False
        return None if self.answer.equal_cold is None or self.state.equal_cold is None else True


class Judge:
    """Judge for a model; with ``model`` None nothing was computed, so every verdict is undecided."""

    def __init__(self, model: Model | None) -> None:
        self.model = model
        self._colds = None if model is None else ColdRunCache(model)

    def judge(self, request: Request, answer: Answer, slot: StoredObject | None) -> RequestVerdict:
        """Judge an answered request and ``slot``, the state that it left behind. Raise OverLimit."""
        try:
            return RequestVerdict(*self._whole(*with_identities(request, answer), slot))
        except OverLimit:
            raise
        except Exception as error:      # a check that raises leaves the verdict undecided
            return undecided_by(error)

    def _whole(self, request: Request, answer: Answer, slot: StoredObject | None) -> tuple[Verdict, Verdict]:
        if answer.died:
            return wrong("aborted", FaultKind.PROCESS_ENDED, error=answer.error), CORRECT
        if self.model is None:
            return NOTHING_COMPUTED, NOTHING_COMPUTED
        if answer.shifts:
            return self._shifted(self.model, request, answer, slot)
        output = worst([self.answer(request, completion) for completion in (answer, *answer.children)])
        return output, CORRECT if slot is None else self.stored(slot)

    def answer(self, request: Request, answer: Answer) -> Verdict:
        """Compare the output after every token with the cold run of the tokens that the slot held. If another text was
        loaded into the slot meanwhile, compare with the requested tokens, which may be unreachable."""
        prompt = prompt_of(request, answer)
        if answer.status != 200 or not (prompt or answer.tokens):
            return CORRECT
        held, wanted = answer.slot_tokens, (*prompt, *answer.tokens)
        n = min(len(held), len(wanted))
        foreign = held[:n] != wanted[:n]
        if foreign and len(held) > n:
            return OTHER_TEXT
        logits_at = tuple(range(len(prompt) - 1, len(held)))
        if not answer.cancelled and [output.pos for output in answer.outputs] != list(logits_at):
            return OTHER_TEXT if foreign else NO_PLACE
        run = self.cold_runs.speaking(wanted[:n] if foreign else held, logits_at, (len(held),))
        expected = [ExpectedOutput(output.pos, int(run.digests[output.pos]), run.logits.get(output.pos))
                    for output in answer.outputs]  # fmt: skip
        found = compare_outputs(answer.outputs, expected)
        return OTHER_TEXT if foreign and not found.equal_cold else found

    def _shifted(
        self, model: Model, request: Request, answer: Answer, slot: StoredObject | None
    ) -> tuple[Verdict, Verdict]:
        """Compare an answer that contains a context shift with a cold run that shifts at the same tokens."""
        cuts = [CutAt(*shift) for shift in answer.shifts]
        prompt, later = prompt_of(request, answer), evaluated(answer)
        self.cold_runs.spend(len(prompt) + len(later))
        outputs, store = cold_shifted(model, prompt, later, cuts)
        if len(outputs) != len(answer.outputs):
            return NO_PLACE, CORRECT
        expected = [ExpectedOutput(output.pos, cold.digest, cold.logits)
                    for output, cold in zip(answer.outputs, outputs, strict=True)]  # fmt: skip
        state = CORRECT if slot is None else compare_stored(slot, store)
        return compare_outputs(answer.outputs, expected), state

    def stored(self, stored: StoredObject, cold: ColdRun | None = None) -> Verdict:
        """Compare a stored object with the cold run of the tokens that the server records for it."""
        if self.model is None:
            return NOTHING_COMPUTED
        if stored.resume > len(stored.tokens):
            return wrong("provenance", FaultKind.TOKENS_MISSING, resume=stored.resume, tokens=len(stored.tokens))
        if not stored.resume:
            return CORRECT
        return compare_stored(stored, cold or self.cold_runs.speaking(stored.tokens, (), (stored.resume,)))

    def each_stored(self, objects: Mapping[Key, StoredObject]) -> dict[Key, Verdict]:
        """Return the verdicts about several objects. Objects of a conversation share a cold run."""
        usable = [stored for stored in objects.values()
                  if self.model is not None and 0 < stored.resume <= len(stored.tokens)]  # fmt: skip
        texts = {id(stored.tokens): stored.tokens for stored in usable}
        whole, marks = dict[int, Tokens](), dict[int, set[int]]()
        longest: list[Tokens] = []                                # lists that are prefixes of no other list
        for tokens in sorted(texts.values(), key=len, reverse=True):
            found = next((known for known in longest if begins(known, tokens)), None)
            whole[id(tokens)] = tokens if found is None else found
            if found is None:
                longest.append(tokens)
        for stored in usable:
            marks.setdefault(id(whole[id(stored.tokens)]), set()).add(stored.resume)
        runs = {id(text): self.cold_runs.speaking(text, (), tuple(sorted(marks[id(text)]))) for text in longest}
        return {key: self.stored(stored, runs[id(whole[id(stored.tokens)])] if id(stored.tokens) in whole else None)
                for key, stored in objects.items()}  # fmt: skip

    @property
    def cold_runs(self) -> ColdRunCache:
        """Return the cold runs of this model. Raise Crash if nothing is computed."""
        if self._colds is None:
            raise Crash("no cold run without a model")
        return self._colds


def undecided_by(error: Exception) -> RequestVerdict:
    """Return undecided verdicts because the judge raised an exception."""
    failed = undecided(FaultKind.JUDGE_FAILED, exception=type(error).__name__, error=str(error))
    return RequestVerdict(failed, failed)


def evaluated(answer: Answer) -> Tokens:
    """Return the generated tokens that were evaluated: all but the last, and the draft tokens that stayed in the slot
    after the end of the answer."""
    beyond = len(answer.outputs) - len(answer.tokens)
    return (*answer.tokens[:-1], *(answer.slot_tokens[-beyond:] if beyond > 0 else ()))


class ExpectedOutput(NamedTuple):
    """Output of a cold run after a token."""

    pos: int
    digest: int
    logits: np.ndarray | None


def compare_outputs(outputs: Sequence[Output], expected: Sequence[ExpectedOutput]) -> Verdict:
    """Compare provenance and logits at every output; return the first difference of the most visible level."""
    return worst(_compare_output(output, want) for output, want in zip(outputs, expected, strict=True))


def _compare_output(output: Output, want: ExpectedOutput) -> Verdict:
    if output.logits is not None and want.logits is not None and not np.array_equal(output.logits, want.logits):
        rung = "bits" if int(np.argmax(output.logits)) == int(np.argmax(want.logits)) else "argmax"
        return wrong(rung, FaultKind.ANSWER, output.pos, position=output.pos)
    if output.digest != want.digest:
        return wrong("provenance", FaultKind.ANSWER_ROWS, output.pos, position=output.pos)
    return CORRECT
