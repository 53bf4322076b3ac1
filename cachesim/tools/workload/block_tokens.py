"""Conversion of block ids to tokens. A block of ``block_size`` tokens becomes ``block_size / scale`` unique tokens.

Tokens without a recorded id are inferred from the follow-up request: the first later request whose prompt begins with
all blocks of this request. If there is a follow-up, the tokens after the last full block are those that its prompt has
there, and so is the answer if the prompt has room for it. Otherwise they are new tokens: an answer that does not fit
was not sent back unchanged (for example, its reasoning was removed). A user message or a tool's result begins where
such an answer ends, and where a prompt diverges from the prompt that it continues.
"""

from __future__ import annotations

from typing import Iterator, NamedTuple, Sequence

from cachesim.base.errors import BadInput
from cachesim.base.tokens import Tokens
from cachesim.tools.workload.recorded_session import RecordedRequest, WorkloadSession, overlapping

TEXTLESS = 1 << 20        # smaller tokens are reserved: some engines inspect the text of a token


class SessionRequest(NamedTuple):
    """A request in tokens. ``starts``: positions where user messages begin. ``together``: True if it is sent while the
    previous request is in progress."""

    prompt: Tokens
    answer: Tokens
    starts: tuple[int, ...]
    together: bool


def played(session: WorkloadSession, scale: int = 1) -> list[SessionRequest]:
    """Convert the requests of a session to tokens. Raise BadInput for a scale that does not divide the block size."""
    size = session.block_size
    if scale < 1 or size % scale:
        largest = next(n for n in (64, 32, 16, 8, 4, 2, 1) if size % n == 0)
        raise BadInput(f"a scale of {scale} does not divide blocks of {size} tokens",
                       hint=f"a divisor of {size}, such as {largest}")  # fmt: skip
    return list(_TokenConverter(session, scale).all())


class _TokenConverter:
    """Converter of a session. ``number``: consecutive numbers of the blocks, {} if the ids themselves are small."""

    def __init__(self, session: WorkloadSession, scale: int) -> None:
        self.requests = session.requests
        self.scale = scale
        self.width = session.block_size // scale
        top = max((max(one.blocks, default=0) for one in self.requests), default=0) + 1
        ids = (block for one in self.requests for block in one.blocks)
        self.number = {} if top < 1 << 32 else {block: number for number, block in enumerate(dict.fromkeys(ids))}
        self.fresh = TEXTLESS + (len(self.number) or top) * self.width
        self.made: dict[int, Tokens] = {}
        self.after = follow_ups(self.requests)
        self.lengths = self._lengths()

    def all(self) -> Iterator[SessionRequest]:
        """Yield every request. A follow-up's tokens are computed before those of the request that it follows."""
        prompts: dict[int, Tokens] = {}
        answers: dict[int, Tokens] = {}
        for i in reversed(range(len(self.requests))):
            prompts[i], answers[i] = self._texts(i, prompts)
        for i, (starts, together) in enumerate(zip(self._starts(), overlapping(self.requests), strict=True)):
            yield SessionRequest(prompts[i], answers[i], starts, together)

    def _texts(self, i: int, prompts: dict[int, Tokens]) -> tuple[Tokens, Tokens]:
        one, n = self.requests[i], self.lengths[i]
        known = tuple(token for block in one.blocks for token in self._block(block))[:n]
        stop = n + self._answer(i)
        after = self.after[i]
        kept = () if after is None else prompts[after][len(known) : stop if self._fits(i) else n]
        rest = (*kept, *self._new(stop - len(known) - len(kept)))
        whole = (*known, *rest)
        return whole[:n], whole[n:]

    def _block(self, block: int) -> Tokens:
        if block not in self.made:
            first = TEXTLESS + self.number.get(block, block) * self.width
            self.made[block] = tuple(range(first, first + self.width))
        return self.made[block]

    def _new(self, n: int) -> Tokens:
        self.fresh += max(0, n)
        return tuple(range(self.fresh - max(0, n), self.fresh))

    def _scaled(self, n: int) -> int:
        """Return the scaled length, rounded up, so that a non-empty tail stays non-empty: many prompts differ from the
        next only in their last full block, and their tail must not become part of it."""
        return -(-n // self.scale)

    def _answer(self, i: int) -> int:
        """Return the scaled tokens of the answer. All but the last are evaluated and count for the scaled length."""
        one = self.requests[i]
        return self._scaled(one.n_prompt + one.n_answer - 1) - self._scaled(one.n_prompt) + 1

    def _lengths(self) -> list[int]:
        """Return the lengths of the prompts. A follow-up with room for the answer is at least one token longer, even if
        the recorded counts leave no room: every turn ends with a user message or a tool's result."""
        out = [self._scaled(one.n_prompt) for one in self.requests]
        for i, after in enumerate(self.after):
            if after is not None and self._fits(i):
                out[after] = max(out[after], out[i] + self._answer(i) + 1)
        return out

    def _fits(self, i: int) -> bool:
        """True if the follow-up has room for the answer."""
        one, after = self.requests[i], self.after[i]
        return after is not None and self.requests[after].n_prompt >= one.n_prompt + one.n_answer

    def _starts(self) -> list[tuple[int, ...]]:
        """Return the starts of user messages: those of the continued request within the common blocks, and the
        beginning of the new part."""
        out: list[tuple[int, ...]] = []
        for i, (parent, shared) in enumerate(parents(self.requests)):
            if parent is None:
                first = self.requests[i].first_user // self.scale
                out.append((first,) if 0 < first < self.lengths[i] else ())
                continue
            begin = shared * self.width
            if self.after[parent] is not None and shared == len(self.requests[parent].blocks) and self._fits(parent):
                begin = self.lengths[parent] + self._answer(parent)
            kept = tuple(at for at in out[parent] if at < min(begin, self.lengths[i]))
            out.append((*kept, begin) if begin < self.lengths[i] else kept)
        return out


def parents(requests: Sequence[RecordedRequest]) -> Iterator[tuple[int | None, int]]:
    """Yield for each request the last earlier request with the most shared blocks, or None, and their number."""
    last: dict[int, int] = {}
    for i, one in enumerate(requests):
        shared = next((n for n in range(len(one.blocks), 0, -1) if one.blocks[n - 1] in last), 0)
        yield (last[one.blocks[shared - 1]] if shared else None), shared
        last.update(dict.fromkeys(one.blocks, i))


def follow_ups(requests: Sequence[RecordedRequest]) -> list[int | None]:
    """Return for each request the first later, longer request whose prompt begins with all of its blocks, or None. A
    block is a group of tokens of fixed size, which the trace names by a hash."""
    nearest: dict[int, int] = {}
    out: list[int | None] = [None] * len(requests)
    for i in reversed(range(len(requests))):
        one = requests[i]
        found = nearest.get(one.blocks[-1]) if one.blocks else None
        while found is not None and requests[found].n_prompt <= one.n_prompt:
            found = out[found]
        out[i] = found
        nearest.update(dict.fromkeys(one.blocks, i))
    return out
