"""What did a wrong answer read in place of its own rows and states? Looks their provenance up in the cold runs of every
request of the run."""

from __future__ import annotations

from typing import Iterator, NamedTuple, Sequence

import numpy as np

from cachesim.base.errors import counted
from cachesim.base.tokens import Tokens, common_prefix
from cachesim.engines.base import Answer, Request, prompt_of
from cachesim.engines.inspection import RowsPart, StatePart, Stored
from cachesim.judging.compare_answer import ColdRuns
from cachesim.judging.compare_stored import digests_only
from cachesim.judging.judgement import Judgement
from cachesim.model import LayerState, same_state

MOST = 4             # things that are listed of one object


class ForeignContent(NamedTuple):
    """Something that is not a cold run's. ``what``: "state" after ``stop`` tokens of the layer, "rows" (or "missing"
    ones) at positions ``start`` .. ``stop - 1``, or a whole "text" of ``stop`` tokens; "during": the ``stop`` tokens
    that were reused were right, and nothing is known of what came then. It is that of request
    ``request``: the state after ``theirs`` tokens, the rows from position ``theirs`` on; -1 = of no request as it was
    sent, so that it was computed from something wrong itself."""

    what: str
    layer: int
    start: int
    stop: int
    request: int = -1
    theirs: int = -1


def sentence_of(one: ForeignContent) -> str:
    """What was read, in one sentence without its subject."""
    match one.what:
        case "text":
            return f"holds the conversation of request {one.request}, loaded over its own"
        case "during" if not one.stop:
            return "reuses nothing: its memory went wrong while it was evaluated"
        case "during":
            return f"reuses {counted(one.stop, 'token')} that are right: its memory went wrong while it was evaluated"
        case "missing":
            return f"finds {content_name(one)}"
    own = f" after {counted(one.stop, 'token')}" if one.what == "state" and one.theirs != one.stop else ""
    return f"reads {content_name(one)}" + (f" in place of its own{own}" if one.request >= 0 else "")


def content_name(one: ForeignContent) -> str:
    """The same as a thing."""
    n, rows = one.stop - one.start, f"K/V {_span('row', one.start, one.stop)}"
    match one.what:
        case "missing":
            return f"no {rows}"
        case "state" if one.request < 0:
            return f"a recurrent state computed from a wrong one (after {counted(one.stop, 'token')})"
        case "state" if not one.theirs:
            return f"an empty recurrent state (after {counted(one.stop, 'token')})"
        case "state":
            return f"the recurrent state after {counted(one.theirs, 'token')} of request {one.request}"
        case _ if one.request < 0:
            return f"{rows} computed from wrong ones"
    return f"{rows} of {_span('token', one.theirs, one.theirs + n)} of request {one.request}"


def _span(what: str, start: int, stop: int) -> str:
    return f"{what} {start}" if stop - start == 1 else f"{what}s {start}..{stop - 1}"


def evaluated(request: Request, answer: Answer) -> Tokens:
    """What was evaluated in place, from the first token on: with a context shift inside, what stood before it."""
    if not answer.shifts:
        return answer.slot_tokens
    return (*prompt_of(request, answer), *answer.tokens)[: answer.shifts[0][0]]


class ForeignReadFinder:
    """Looks up foreign content in the conversations that a run has evaluated, by number of the request."""

    def __init__(self, requests: Sequence[Judgement], cold_runs: ColdRuns) -> None:
        self.cold_runs = cold_runs
        self.known = [(i, tokens) for i, one in enumerate(requests) for mine in (one.answer, *one.answer.children)
                      if (tokens := evaluated(one.request, mine))]  # fmt: skip

    def within(self, stored: Stored, n: int) -> list[ForeignContent]:
        """What is wrong with the first ``n`` tokens of an object, recurrent layers first, then attention."""
        n = min(n, stored.resume, len(stored.tokens))
        found = [] if stored.state is None else list(self._states(stored, stored.state, n))
        for part in stored.rows:
            found += self._rows(stored, part, n)
        return found[:MOST]

    def _states(self, stored: Stored, state: StatePart, n: int) -> Iterator[ForeignContent]:
        cold = self.cold_runs.covering(stored.tokens[:n])
        for layer, held in state.rows.items():
            if not same_state(digests_only(held), digests_only(cold.state_at(layer, n))):
                yield ForeignContent("state", layer, n, n, *self._state(layer, held))
                return              # the layers behind it have read it

    def _state(self, layer: int, held: LayerState | None) -> tuple[int, int]:
        for number, tokens in self.known:
            if lengths := [n for n in self.cold_runs.covering(tokens).lengths_with(layer, held) if n <= len(tokens)]:
                return number, lengths[0]
        return -1, -1

    def _rows(self, stored: Stored, part: RowsPart, n: int) -> Iterator[ForeignContent]:
        """The wrong rows of the first layer that has any, as stretches of consecutive ones."""
        cold = self.cold_runs.covering(stored.tokens[:n])
        first = max(stored.start, n - part.window + 1) if part.window else stored.start
        mine = {int(q): i for i, q in enumerate(part.pos) if first <= q < n}
        for layer, rows in part.rows.items():
            want = cold.rows(layer).digest
            wrong = [(q, self._row(layer, rows.digest[i])) for q, i in mine.items() if rows.digest[i] != want[q]]
            missing = [(q, (-2, -1)) for q in range(first, n) if q not in mine]
            if found := sorted(wrong + missing):
                yield from _stretches(layer, found)
                return

    def _row(self, layer: int, digest: np.uint64) -> tuple[int, int]:
        for number, tokens in self.known:
            at = np.flatnonzero(self.cold_runs.covering(tokens).rows(layer).digest[: len(tokens)] == digest)
            if len(at):
                return number, int(at[0])
        return -1, -1

    def whose(self, tokens: Tokens) -> int:
        """The request whose conversation begins with these tokens, -1 = none."""
        return next((number for number, known in self.known if known[: len(tokens)] == tokens), -1)

    def text(self, answer: Answer) -> list[ForeignContent]:
        """Whose conversation is in the slot of an answer that has lost its own?"""
        others = [(common_prefix(tokens, answer.slot_tokens), -number) for number, tokens in self.known
                  if number != answer.request]  # fmt: skip
        n, number = max(others, default=(0, 0))
        return [ForeignContent("text", -1, 0, n, -number, 0)] if n else []


def _stretches(layer: int, found: Sequence[tuple[int, tuple[int, int]]]) -> Iterator[ForeignContent]:
    """Neighbouring rows of one origin as one thing."""
    start = 0
    for i in range(1, len(found) + 1):
        if i == len(found) or not _goes_on(found[i - 1], found[i]):
            (first, (whose, theirs)), last = found[start], found[i - 1][0]
            yield ForeignContent("missing" if whose == -2 else "rows", layer, first, last + 1, max(whose, -1), theirs)
            start = i


def _goes_on(one: tuple[int, tuple[int, int]], after: tuple[int, tuple[int, int]]) -> bool:
    (a, (whose, theirs)), (b, (whose_b, theirs_b)) = one, after
    return b == a + 1 and whose == whose_b and (whose < 0 or theirs_b == theirs + 1)


def read_instead(requests: Sequence[Judgement], number: int, reader: ForeignReadFinder) -> list[ForeignContent]:
    """What request ``number``, whose answer is wrong, found where its evaluation began; else in the object that it
    came from; [] = all of that was right, or it is not known."""
    one = requests[number]
    if one.answer.died:
        return []
    n = one.answer.cache_n
    if one.began is not None and n and (found := reader.within(one.began, n)):
        return found
    prompt = prompt_of(one.request, one.answer)[:n]
    for stored, _ in requests[number - 1].judged.armed if number and n else ():
        same = common_prefix(stored.tokens, prompt) == min(n, len(stored.tokens))
        if same and (found := reader.within(stored, len(stored.tokens))):
            return found
    own = tuple(prompt_of(one.request, one.answer))
    held = one.answer.slot_tokens[: len(own)]
    if held != own[: len(held)]:
        return reader.text(one.answer)
    known = one.answer.status == 200 and one.judged.answer.holds is False and (not n or one.began is not None)
    return [ForeignContent("during", -1, 0, n)] if known else []
