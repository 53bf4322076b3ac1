"""What does a slot hold, in words? Texts that are cut and continued, and the notation of a prompt made of them."""

from __future__ import annotations

from itertools import count
from typing import Iterable, Iterator, NamedTuple

from cachesim.scenarios.notation.normalise import letters
from cachesim.tools.server_logs.session import Logged

# How long is the common prefix, and what was in a slot before, after what a log prints of them?

END = 4                      # tokens between the last checkpoint of a prompt and its end, in most engines
ANSWER = 2048                # tokens of an answer before the log begins, at most
BATCHES = (64, 128, 256, 512, 1024, 2048, 4096)    # usual micro-batches
LADDER = 12                  # prompts before the log begins, at most
MOST = 64                    # values of a free variable that are tried


def ladder(logged: Logged, needed: int, end: int = END) -> tuple[list[int], int]:
    """Prompts, each the next one's beginning, that leave checkpoints where the log saw some, and the length of the last
    answer: a server makes a checkpoint a few tokens before the end of a prompt (``end``), and one a micro-batch before
    that."""
    marks = sorted({hi + 1 for _, hi, _ in logged.checked} | ({logged.restored} if logged.restored else set()))
    ends = [one + end for one in marks if not {one + size for size in BATCHES} & set(marks)][-LADDER:]
    if not ends:
        return [needed], 1
    answer = needed - ends[-1] + 1
    return (ends, max(1, answer)) if answer <= ANSWER else ([*ends, needed], 1)


def thold(logged: Logged, n_swa: int = 0) -> tuple[int, ...]:
    """What the number behind `against` says of the common prefix: a memory with a window needs so much less."""
    return tuple(dict.fromkeys(int(at) + n_swa + more for _, _, at in logged.checked[:1] for more in (0, 1)))


def held_by_shares(logged: Logged) -> int | None:
    """Tokens in the slot: f_sim / f_keep of the prompt's, to the rounding of both."""
    if not logged.f_keep or logged.f_sim is None or logged.n_tokens is None:
        return None
    return round(logged.f_sim * logged.n_tokens / logged.f_keep)


def prefix_by_shares(logged: Logged, mine: SlotText, n_tokens: int) -> Iterable[tuple[int, str]]:
    """Lengths of the common prefix that print as these shares; with what they assume, "" if there is one only."""
    assert logged.f_keep is not None
    held = mine.size
    low, high = 0, min(held, n_tokens)
    for share, whole in ((logged.f_keep, held), (logged.f_sim, n_tokens)):
        if share is not None:
            low, high = max(low, _least(share, whole)), min(high, _most(share, whole))
    fits = range(low, high + 1)
    if len(fits) <= 1:
        return [(max(0, low), "")]
    likely = (*thold(logged), logged.cache_n, mine.prompt, held, (low + high) // 2)
    wanted = [one for one in likely if one is not None and one in fits]
    order = dict.fromkeys([*wanted, *fits][:MOST])
    return [(lcp, f"a common prefix of {lcp} tokens ({low} to {high} print the same shares)") for lcp in order]


def _least(share: float, whole: int) -> int:
    """Smallest count whose share of ``whole`` prints as this with three decimals."""
    return max(0, -(-int((share * 1000 - 0.5) * whole) // 1000))


def _most(share: float, whole: int) -> int:
    return int((share * 1000 + 0.5) * whole) // 1000


class WordRange(NamedTuple):
    """``take`` of a word's ``full`` tokens, from ``start`` on."""

    word: str
    take: int
    full: int
    start: int = 0


class SlotText(NamedTuple):
    """A text as parts of words; ``prompt``: tokens of it that were the prompt of the request which left it."""

    parts: tuple[WordRange, ...] = ()
    prompt: int = 0

    @property
    def size(self) -> int:
        """Its length in tokens."""
        return sum(part.take for part in self.parts)

    def first(self, tokens: int) -> SlotText:
        """Its beginning of at most so many tokens."""
        kept, left = [], tokens
        for part in self.parts:
            if left <= 0:
                break
            kept.append(part._replace(take=min(part.take, left)))
            left -= part.take
        return SlotText(tuple(kept), min(self.prompt, tokens))

    def goes_on(self, other: SlotText, start: int, stop: int) -> SlotText:
        """It, and a piece of another text behind it."""
        parts, at = list(self.parts), 0
        for part in other.parts:
            low, high = max(start - at, 0), min(stop - at, part.take)
            if low < high:
                parts.append(part._replace(take=high - low, start=part.start + low))
            at += part.take
        return self._replace(parts=tuple(parts))

    def then(self, word: str, tokens: int) -> SlotText:
        """It, and a new word behind it."""
        return self._replace(parts=(*self.parts, WordRange(word, tokens, tokens))) if tokens > 0 else self

    def written(self, new: str = "") -> str:
        """In the notation; the length stands with ``new``, which occurs for the first time."""
        return ".".join(f"{part.word}{_length(part, new)}" for part in self.parts)


def _length(part: WordRange, new: str) -> str:
    if part.word == new:
        return str(part.full)
    return "" if part.take == part.full else f"[{part.start or ''}:{part.start + part.take}]"


def names() -> Iterator[str]:
    """A, B, ... Z, AA, AB, ...: words of letters; an answer has the small letters of its prompt."""
    return map(letters, count())
