"""Histories whose requests arrive together: identical prompts, and conversations that clients interrupt.

Four conversations take turns. In each round all of them send a request at once; some clients disconnect and send their
turn again, or another one. A number determines a history on every machine.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Iterator, NamedTuple, Sequence

from cachesim.model.hash_mixing import Rng
from cachesim.tools.conformance.http_check.dialect import ServerFacts

CONVERSATIONS = 4
STOPS = (15, 50, 0)          # chance of a disconnect in each round [percent]
FEWEST, MOST = 2, 16         # requests at once
FIRST, LATER = 40, 12        # usual lengths of a first prompt and of a later message [tokens]
ANSWER = 6                   # longest answer of a conversation [tokens]
LONG = 300                   # longest prompt that fills a context, or keeps a slot busy [tokens]
ROOM = 64                    # tokens that answers and later messages need beside a first prompt
LONGEST = 1_100              # longest prompt [tokens] of a history that needs much of a context
RINGS = ((266, 300), (522, 812))
"""For window caches of 256 and 512 cells: a prompt that exceeds one, and a longer one that continues it."""


class ParallelBounds(NamedTuple):
    """Bounds of parallel histories. ``at_once``: requests sent together; ``most``: tokens of a conversation's first
    prompt; ``near``: sizes around which its length clusters."""

    at_once: int
    most: int
    near: Sequence[int]


def bounds_of(server: ServerFacts, at_once: int, near: Sequence[int]) -> ParallelBounds:
    """Return the bounds for a server. All conversations together fit into one context, because slots may share it."""
    number = at_once or max(FEWEST, min(MOST, server.slots if server.client is None else CONVERSATIONS))
    share = server.n_ctx // (max(number, CONVERSATIONS) + 1) - ROOM
    return ParallelBounds(number, max(8, share), near)


def parallel_lines(server: ServerFacts, bounds: ParallelBounds, rounds: int, seed: int) -> Iterator[str]:
    """Yield the parallel histories of a server."""
    n = min(bounds.most, 2 * max(bounds.near, default=FIRST) + 2)
    yield from burst_lines(n, bounds.at_once)
    if server.dialect == "native":
        yield from busy_lines(server, min(bounds.most, LONG))
        yield from (RING.format(a=a, c=c) for a, c in RINGS if a + c + 2 * ROOM < server.n_ctx)
    if server.dialect == "native" and server.slots > 1:
        full = server.n_ctx * 3 // 5
        yield from [WAITING.format(n=full)] if full <= LONG else []
        if not server.drafts:                        # completions with drafts end some servers
            c = min(bounds.at_once, server.slots)
            yield from (line.format(n=n, c=c) for line in COMPLETIONS)
            yield from crowded_lines(server.n_ctx)
    if server.drafts:
        yield from (line.format(n=n) for line in DRAFTS)
    yield from (interleaved(number, bounds) for number in range(seed * rounds, (seed + 1) * rounds))


BUSY = "B40>r4@0/A{n}>{a}@0/B.r.F5>4@0{{together}}/B.r.G7>4@0{{together}}"
"""Requests for the slot that generates another conversation's answer; they are sent when it does."""
TINY_ANSWER = 1_024
"""Length of an answer [tokens] during which another request arrives in any case, even from a tiny model."""
WAITING = "A{n}@1/B{n}@0/C20@1{{together}}"
"""A request that waits, while its slot holds a conversation that fills the context together with another request."""
RING = "A{a}/B5/A.C{c}>64"
"""A conversation that continues, from its stored window, with a prompt longer than the window cache."""
COMPLETIONS = ("A{n}>4{{n_cmpl={c}}}/A.B8>4", "A30@1/B9@1{{n_cmpl={c}}}/A.C5>4")
"""Completions of one prompt, whose memory is copied between slots."""
CROWDED = "A{old}@1/B{new}>6@0{{n_cmpl=2}}"
"""Completions of one prompt. The second one's slot holds a conversation until the memory is copied."""
SHARED = "A1@0/B1@1/C{new}>8@0{{n_cmpl=2}}"
"""Completions that share a prompt, perhaps all cells of a window cache, on slots that hold almost nothing else."""
DRAFTS = ("A12>a8/A.a.A>8/A.a.A.B4>8", "A{n}>a8/A.a.B8>b8/A.a.B.b.C8>8",
          "A{n}>a8/B12>b8{{together}}/A.a.A.C4>8/B.b.B>8{{together}}")  # fmt: skip
"""Prompts that repeat their text, so that n-gram drafts are long and partly right."""


def busy_lines(server: ServerFacts, n: int) -> Iterator[str]:
    """Yield requests for a busy slot. ``n``: tokens of the prompt that it answers."""
    yield from (BUSY.format(n=n, a=answer) for answer in (64, 128, 256))
    long = min(server.n_ctx // 2, TINY_ANSWER)
    yield from (BUSY.format(n=n // part + 1, a=long) for part in (2, 3, 4) if server.is_tiny)


def crowded_lines(n_ctx: int) -> Iterator[str]:
    """Yield completions in a context that lacks room for their prompt and the conversation that they replace: 2 tokens
    at the end of the prompt, then a quarter of the context. Their clients wait for each reply, so nothing depends on
    timing."""
    half = n_ctx // 2
    if half + 2 <= LONGEST:
        yield CROWDED.format(old=n_ctx - half + 2, new=half)
        yield CROWDED.format(old=half, new=min(half + half // 2, LONGEST))
    yield SHARED.format(new=min(half, LONGEST))


def burst_lines(n: int, at_once: int) -> Iterator[str]:
    """Yield histories with identical prompts, and with prompts of one beginning. ``n``: tokens of a prompt."""
    later = "{together}"
    yield _joined([f"A{n}>8", *["A>8"] * (at_once - 1)])
    yield f"A{n}>a4/" + _joined(["A.a.B8>8", *["A.a.B>8"] * (at_once - 1)])
    yield f"A{n}>4/B{n}>4{later}/" + _joined(["A.C8>8", *["A.C>8"] * (at_once - 1)]) + f"/B.C>4{later}"
    words = [chr(ord("B") + number) for number in range(at_once)]
    yield f"A{n}>4/" + _joined([f"A.{word}{2 + 3 * number}>6" for number, word in enumerate(words)])
    yield _joined([f"{word}{1 + 7 * number % n}>6" for number, word in enumerate(words)])
    yield f"A{n}>4/" + _joined([f"A[:{max(1, n - number)}]>6" for number in range(at_once)])


def _joined(requests: Sequence[str]) -> str:
    """Return requests that arrive together."""
    return "/".join([requests[0], *(f"{one}{{together}}" for one in requests[1:])])


@dataclass(slots=True)
class InterruptedTalk:
    """A conversation so far. ``text``: its words; ``known``: words whose length was stated."""

    name: str
    text: list[str] = field(default_factory=list)
    unsent: list[str] = field(default_factory=list)      # words of a turn whose client disconnected


def interleaved(number: int, bounds: ParallelBounds) -> str:
    """Return four conversations of which some are interrupted."""
    rng = Rng(number, "parallel")
    system = "S" if rng.chance(50) else ""
    lengths = {"S": _length(rng, bounds) // 2 + 1} if system else {}
    talks = [InterruptedTalk(name, [system] if system else []) for name in "ABCD"[:CONVERSATIONS]]
    steps: list[str] = []
    for turn in range(len(STOPS)):
        order = sorted(talks, key=lambda talk: (rng.below(1_000), talk.name))
        for place, talk in enumerate(order):
            alone = place == 0 or rng.chance(20)
            steps.append(_turn(rng, talk, turn, lengths, bounds, "" if alone else "together"))
    return "/".join(steps)


def _turn(rng: Rng, talk: InterruptedTalk, turn: int, lengths: dict[str, int], bounds: ParallelBounds,
          together: str) -> str:  # fmt: skip
    """Return the next request of a conversation, and add it to its text."""
    word, answer = (chr(ord(letter) + CONVERSATIONS * turn) for letter in (talk.name, talk.name.lower()))
    again = talk.unsent if rng.chance(50) else []
    own = again or [word]
    lengths.setdefault(word, _length(rng, bounds) if turn == 0 else rng.between(1, LATER))
    stops = rng.chance(STOPS[turn])
    predict = rng.between(3, ANSWER)
    said = [_stated(one, lengths) for one in (*talk.text, *own)]
    options = " ".join(filter(None, [f"cancel_after={rng.below(predict)}" if stops else "", together]))
    if stops:
        talk.unsent = own
        return f"{'.'.join(said)}>{predict}" + f"{{{options}}}"
    talk.text, talk.unsent = [*talk.text, *own, answer], []
    return f"{'.'.join(said)}>{answer}{predict}" + (f"{{{options}}}" if options else "")


def _stated(word: str, lengths: dict[str, int]) -> str:
    """Return the word, with its length where it occurs first."""
    return f"{word}{lengths.pop(word)}" if lengths.get(word) else word


def _length(rng: Rng, bounds: ParallelBounds) -> int:
    beside = [size + by for size in bounds.near for by in (-1, 0, 1) if 0 < size + by <= bounds.most]
    return rng.one(beside) if beside and rng.chance(33) else rng.between(1, min(FIRST, bounds.most))
