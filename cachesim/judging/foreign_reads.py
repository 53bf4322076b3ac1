"""Contents that a wrong answer read in place of its own rows and states, found by their provenance in the cold runs of
every request."""

from __future__ import annotations

from typing import Iterator, NamedTuple, Sequence

import numpy as np

from cachesim.base.errors import counted
from cachesim.base.tokens import Tokens, common_prefix
from cachesim.engines.base import Answer, Request, prompt_of, with_identities
from cachesim.engines.inspection import RowsPart, StatePart, StoredObject
from cachesim.judging.compare_answer import ColdRunCache
from cachesim.judging.compare_stored import digests_only
from cachesim.judging.judgement import Judgement
from cachesim.model import LayerState, same_state
from cachesim.model.store import layer_of

MOST = 4             # contents listed of an object


class ForeignContent(NamedTuple):
    """Content that differs from a cold run. ``what``: "state" after ``stop`` tokens of the layer, "rows" (or "missing"
    rows) at positions ``start`` .. ``stop - 1``, or a whole "text" of ``stop`` tokens; "during": the ``stop`` reused
    tokens were correct and the fault occurred later. ``request`` is the origin: the state after ``theirs`` tokens of
    it, or its rows from position ``theirs`` on; -1 = no request as sent has this content, because it was computed
    from wrong content itself. ``under``: what the content was computed under, if that is another key. ``kind``: of the
    rows: "K/V", "index" or "compressed"."""

    what: str
    layer: int
    start: int
    stop: int
    request: int = -1
    theirs: int = -1
    under: str = ""
    kind: str = "K/V"


def sentence_of(content: ForeignContent) -> str:
    """Return what was read, as a sentence without a subject."""
    match content.what:
        case "text":
            return f"holds the conversation of request {content.request}, loaded over its own"
        case "during" if not content.stop:
            return "reuses nothing: its memory went wrong while it was evaluated"
        case "during":
            kept = counted(content.stop, "token")
            return f"reuses {kept} that are right: its memory went wrong while it was evaluated"
        case "missing":
            return f"finds {content_name(content)}"
    differs = content.what == "state" and content.theirs != content.stop
    own = f" after {counted(content.stop, 'token')}" if differs else ""
    under = f", computed under {content.under}," if content.under else ""
    return f"reads {content_name(content)}{under}" + (f" in place of its own{own}" if content.request >= 0 else "")


def content_name(content: ForeignContent) -> str:
    """Return the content as a noun phrase."""
    n, rows = content.stop - content.start, f"{content.kind} {_span('row', content.start, content.stop)}"
    match content.what:
        case "missing":
            return f"no {rows}"
        case "state" if not content.theirs:
            return f"an empty recurrent state (after {counted(content.stop, 'token')})"
        case "state" if content.request < 0:
            return f"a recurrent state computed from a wrong one (after {counted(content.stop, 'token')})"
        case "state":
            return f"the recurrent state after {counted(content.theirs, 'token')} of request {content.request}"
        case _ if content.request < 0:
            return f"{rows} computed from wrong ones"
    return f"{rows} of {_span('token', content.theirs, content.theirs + n)} of request {content.request}"


def _span(what: str, start: int, stop: int) -> str:
    return f"{what} {start}" if stop - start == 1 else f"{what}s {start}..{stop - 1}"


def evaluated(request: Request, answer: Answer) -> Tokens:
    """Return the tokens that were evaluated in place, from the first on; up to the first context shift."""
    if not answer.shifts:
        return answer.slot_tokens
    return (*prompt_of(request, answer), *answer.tokens)[: answer.shifts[0][0]]


class ForeignReadFinder:
    """Search for foreign content in the conversations that a run evaluated, by number of the request."""

    def __init__(self, requests: Sequence[Judgement], cold_runs: ColdRunCache) -> None:
        self.cold_runs = cold_runs
        self.known = [(i, tokens) for i, one in enumerate(requests)
                      for request, answer in [with_identities(one.request, one.answer)]
                      for mine in (answer, *answer.children) if (tokens := evaluated(request, mine))]  # fmt: skip

    def within(self, stored: StoredObject, n: int) -> list[ForeignContent]:
        """Return the wrong contents in the first ``n`` tokens of an object, recurrent layers first, then attention."""
        n = min(n, stored.resume, len(stored.tokens))
        found = [] if stored.state is None else list(self._states(stored, stored.state, n))
        for part in stored.rows:
            found += self._rows(stored, part, n)
        return found[:MOST]

    def _states(self, stored: StoredObject, state: StatePart, n: int) -> Iterator[ForeignContent]:
        if state.pos < 0 < n:
            yield ForeignContent("state", -1, n, n, theirs=0)
        cold = self.cold_runs.covering(stored.tokens[:n])
        for layer, held in state.rows.items():
            if not same_state(digests_only(held), digests_only(cold.state_at(layer, n))):
                yield ForeignContent("state", layer, n, n, *self._state(layer, held))
                return              # later layers have read it

    def _state(self, layer: int, held: LayerState | None) -> tuple[int, int]:
        for number, tokens in self.known:
            if lengths := [n for n in self.cold_runs.covering(tokens).lengths_with(layer, held) if n <= len(tokens)]:
                return number, lengths[0]
        return -1, -1

    def _rows(self, stored: StoredObject, part: RowsPart, n: int) -> Iterator[ForeignContent]:
        """Yield the wrong rows of the first layer that has some, as ranges of consecutive rows."""
        cold = self.cold_runs.covering(stored.tokens[:n])
        n, first = n // part.every, stored.start // part.every
        first = max(first, n - part.window + 1) if part.window else first
        mine = {int(q): i for i, q in enumerate(part.pos) if first <= q < n}
        for layer, rows in part.rows.items():
            want = cold.rows(layer).digest
            wrong = [(q, self._row(layer, rows.digest[i])) for q, i in mine.items() if rows.digest[i] != want[q]]
            missing = [(q, (-2, -1)) for q in range(first, n) if q not in mine]
            if found := sorted(wrong + missing):
                kind = "K/V" if layer >= 0 else "index" if part.every == 1 else "compressed"
                yield from (one._replace(kind=kind) for one in _stretches(layer_of(layer), found, part.every))
                return

    def _row(self, layer: int, digest: np.uint64) -> tuple[int, int]:
        for number, tokens in self.known:
            at = np.flatnonzero(self.cold_runs.covering(tokens).rows(layer).digest[: len(tokens)] == digest)
            if len(at):
                return number, int(at[0])
        return -1, -1

    def whose(self, tokens: Tokens) -> int:
        """Return the request whose conversation begins with these tokens, -1 = none."""
        return next((number for number, known in self.known if known[: len(tokens)] == tokens), -1)

    def text(self, answer: Answer) -> list[ForeignContent]:
        """Return the conversation in the slot of an answer that has lost its own."""
        others = [(common_prefix(tokens, answer.slot_tokens), -number) for number, tokens in self.known
                  if number != answer.request]  # fmt: skip
        n, number = max(others, default=(0, 0))
        return [ForeignContent("text", -1, 0, n, -number, 0)] if n else []


def _stretches(layer: int, found: Sequence[tuple[int, tuple[int, int]]], every: int) -> Iterator[ForeignContent]:
    """Yield neighbouring rows of a origin as a range of tokens. ``every``: tokens for which a row stands."""
    start = 0
    for i in range(1, len(found) + 1):
        if i == len(found) or not _continues(found[i - 1], found[i]):
            (first, (whose, theirs)), last = found[start], found[i - 1][0]
            what, origin = "missing" if whose == -2 else "rows", theirs if theirs < 0 else theirs * every
            yield ForeignContent(what, layer, first * every, (last + 1) * every, max(whose, -1), origin)
            start = i


def _continues(before: tuple[int, tuple[int, int]], after: tuple[int, tuple[int, int]]) -> bool:
    (a, (whose, theirs)), (b, (whose_b, theirs_b)) = before, after
    return b == a + 1 and whose == whose_b and (whose < 0 or theirs_b == theirs + 1)


def read_instead(requests: Sequence[Judgement], number: int, reader: ForeignReadFinder) -> list[ForeignContent]:
    """Return the foreign content that request ``number``, whose answer is wrong, read at the start of its evaluation,
    else that of the object it was restored from; [] if all of that was correct or unknown."""
    one = requests[number]
    if one.answer.died or one.judged.answer.rung == "unanswered":
        return []
    n = one.answer.first_evaluated
    if one.began is not None and n:
        found = reader.within(one.began, n)
    else:
        found = _in_object(requests, number, reader)
    if found:
        return [_with_key(content, requests, one.answer.under) for content in found]
    request, answer = with_identities(one.request, one.answer)
    own = tuple(prompt_of(request, answer))
    held = answer.slot_tokens[: len(own)]
    if held != own[: len(held)]:
        return reader.text(answer)
    known = one.answer.status == 200 and one.judged.answer.equal_cold is False and (not n or one.began is not None)
    return [ForeignContent("during", -1, 0, n)] if known else []


def _with_key(content: ForeignContent, requests: Sequence[Judgement], under: str) -> ForeignContent:
    """Return the content with the key of the request that it is from, if that is not ``under``."""
    theirs = requests[content.request].answer.under if content.request >= 0 else under
    return content if theirs == under else content._replace(under=theirs)


def _in_object(requests: Sequence[Judgement], number: int, reader: ForeignReadFinder) -> list[ForeignContent]:
    """Return the foreign content of the corrupt object that a request was restored from: of those with its reused
    tokens the one whose length is nearest; [] if there is none."""
    one = requests[number]
    n = one.answer.first_evaluated
    prompt = prompt_of(*with_identities(one.request, one.answer))[:n]
    armed = [stored for stored, _ in requests[number - 1].judged.armed] if number and n else []
    same = [stored for stored in armed
            if common_prefix(stored.tokens[: stored.length], prompt) == min(n, stored.length)]  # fmt: skip
    for stored in sorted(same, key=lambda stored: abs(stored.length - n)):
        if found := reader.within(stored, len(stored.tokens)):
            return found
    return []
