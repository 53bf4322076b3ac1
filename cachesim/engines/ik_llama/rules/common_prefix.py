"""Common prefix of slot and prompt, compared as text, and the tokens that must be evaluated nevertheless.

Token ids are compared first; what remains is compared as text, so that another tokenization of the same text counts
as held. A version may be strict about bytes, or pass over spaces and line ends that the other side lacks.
Source: ik_llama.cpp examples/server/server-common.cpp get_common_prefix (8337e4cd3).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import Callable, Iterator, NamedTuple, Sequence

from cachesim.base.media_items import is_item, item_at, next_image
from cachesim.base.tokens import common_prefix
from cachesim.engines.ik_llama.source_files import CONTEXT, SERVER, ik_llama
from cachesim.engines.rule import Decision, Role, rule
from cachesim.engines.shared.vocab import TAGGED, THINK

BLANK = " \n\r"
BLANKS = frozenset(BLANK)
MORE = 20                # least gain of the loose comparison over the strict comparison [tokens]

Pieces = Callable[[int], str]
"""Text of a token; a token without a text of its own has one that no other begins with."""


class CommonLength(NamedTuple):
    """Length of the common prefix in tokens of the cache and in tokens of the prompt."""

    cache: int
    prompt: int


NOTHING = CommonLength(0, 0)


@dataclass(frozen=True)
class TextsBetweenImages:
    """Texts of tokens on a server with a projector: lists are compared from image to image.

    An image is common if the text before it is, as a whole, and if the images are equal. Without an image the longer
    list counts only as far as the other is long. Source: ik_llama.cpp examples/server/server-common.cpp
    server_tokens::get_common_prefix (8337e4cd3)."""

    pieces: Pieces

    def __call__(self, token: int) -> str:
        """Return the text of a token; an image has none."""
        return "" if is_item(token) else self.pieces(token)


def common(cache: Sequence[int], prompt: Sequence[int], pieces: Pieces, strict: bool) -> CommonLength:
    """Return the common text, in whole tokens of both sides."""
    n = equal_tokens(cache, prompt)
    if n == len(cache) or n == len(prompt):
        return CommonLength(n, n)
    found = CommonLength(n, n)
    if isinstance(pieces, TextsBetweenImages):
        return _common_between(cache, prompt, found, pieces, strict)
    if not n:
        return _common_text(cache, prompt, pieces, strict)
    return _add(found, _common_text(cache[n:], prompt[n:], pieces, strict))


def equal_tokens(cache: Sequence[int], prompt: Sequence[int]) -> int:
    """Return the number of equal tokens at the beginning of two lists. Lists without a common prefix are not
    copied."""
    if not cache or not prompt or cache[0] != prompt[0]:
        return 0
    return common_prefix(list(cache), list(prompt))


def _first_tokens_differ(cache: Sequence[int], prompt: Sequence[int], pieces: Pieces, strict: bool) -> bool:
    """True if the texts of the first tokens of two lists differ before either ends, without blanks that may be skipped.
    The lists have no whole token in common then."""
    if not cache or not prompt:
        return False
    a = pieces(cache[0])
    b = pieces(prompt[0])
    if a.startswith(b) or b.startswith(a):      # also if one is empty
        return False
    return strict or (BLANKS.isdisjoint(a) and BLANKS.isdisjoint(b))


def _common_text(cache: Sequence[int], prompt: Sequence[int], pieces: Pieces, strict: bool) -> CommonLength:
    """Return the common text of two lists whose first tokens differ."""
    if _first_tokens_differ(cache, prompt, pieces, strict):
        return NOTHING
    a, b = (chain.from_iterable(map(pieces, side)) for side in (cache, prompt))
    i, j = _walk(a, b, strict)
    ours, theirs = (_ends(side, pieces, reach, strict) for side, reach in ((cache, i), (prompt, j)))
    both = ours.keys() & theirs.keys()
    return CommonLength(ours[max(both)], theirs[max(both)]) if both else NOTHING


def _add(a: CommonLength, b: CommonLength) -> CommonLength:
    return CommonLength(a.cache + b.cache, a.prompt + b.prompt)


def _common_between(cache: Sequence[int], prompt: Sequence[int], found: CommonLength, pieces: Pieces,
                    strict: bool) -> CommonLength:  # fmt: skip
    """Return the common text of lists with images, after the common tokens ``found``."""
    i, j = found
    while True:
        a_end, b_end = next_image(cache, i, len(cache)), next_image(prompt, j, len(prompt))
        ours, theirs = item_at(cache, a_end), item_at(prompt, b_end)
        if ours is None or theirs is None:      # the comparison ends with the list that has no further image
            most = min(len(side) - start for side, start, image in ((cache, i, ours), (prompt, j, theirs)) if not image)
            a_end, b_end = min(a_end, i + most), min(b_end, j + most)
        text = _common_text(cache[i:a_end], prompt[j:b_end], pieces, strict)
        found = _add(found, text)
        if not ours or not theirs or text != (a_end - i, b_end - j) or cache[a_end] != prompt[b_end]:
            return found
        i, j = a_end + ours.n_tokens, b_end + theirs.n_tokens
        found = _add(found, CommonLength(ours.n_tokens, theirs.n_tokens))


def _walk(a: Iterator[str], b: Iterator[str], strict: bool) -> tuple[int, int]:
    """Return the length of the agreement of two texts, in characters of each."""
    i = j = 0
    x, y = next(a, ""), next(b, "")
    while x and y:
        one, other = (not strict and c in BLANK for c in (x, y))
        if x != y and not one and not other:
            break
        both = x == y or (one and other)
        if both or one:
            i, x = i + 1, next(a, "")
        if both or not one:
            j, y = j + 1, next(b, "")
    return i, j


def _ends(tokens: Sequence[int], pieces: Pieces, reach: int, strict: bool) -> dict[int, int]:
    """Map the length of the text at the end of each whole token within reach to the number of tokens."""
    found: dict[int, int] = {}
    seen = counted = 0
    for number, token in enumerate(tokens, 1):
        piece = pieces(token)
        seen += len(piece)
        if seen > reach:
            break
        counted += len(piece) if strict else sum(c not in BLANK for c in piece)
        found[counted] = number
    return found


def discarded(tokens: Sequence[int], n_keep: int, n_discard: int) -> list[int]:
    """Return the tokens without those at n_keep .. n_keep + n_discard - 1; all tokens if nothing would be left after
    them. Source: ik_llama.cpp examples/server/server-common.cpp server_tokens::discard_n_tokens (8337e4cd3)."""
    stop = n_keep + n_discard
    if n_discard <= 0 or stop >= len(tokens):
        return list(tokens)
    return [*tokens[:n_keep], *tokens[stop:]]


def without_reasoning(tokens: Sequence[int], marks: tuple[int, int] | None, pieces: Pieces) -> Sequence[int]:
    """Return the tokens outside ``<think>`` .. ``</think>``: the given list itself if there is no such span. The marks
    are searched in the text, so spelled-out marks count, too. A span without an end stays, and so does a span that
    begins where the previous span ends. ``marks`` None = everything counts. Source: ik_llama.cpp
    examples/server/server-common.cpp get_tokens_exclude_think (8337e4cd3)."""
    if marks is None or (marks == THINK and TAGGED.isdisjoint(tokens)):
        return tokens
    words = list(map(pieces, tokens))
    spans = _spans("".join(words), pieces(marks[0]), pieces(marks[1]))
    if not spans:
        return tokens
    out: list[int] = []
    reach, at = 0, 0
    for token, word in zip(tokens, words, strict=True):
        reach += len(word)
        if at == len(spans) or reach <= spans[at][0]:
            out.append(token)
        elif reach > spans[at][1]:
            out.append(token)
            if at + 1 < len(spans):
                at += 1
    return out


def _spans(text: str, opening: str, closing: str) -> list[tuple[int, int]]:
    """Return the ranges of the text from begin mark to end mark, both included."""
    spans: list[tuple[int, int]] = []
    start = text.find(opening)
    while start >= 0:
        if not spans or start > spans[-1][1]:
            end = text.find(closing, max(0, start - len(closing) + 1))
            if end < 0:
                break
            spans.append((start, end + len(closing)))
        start = text.find(opening, start + len(opening))
    return spans


@rule("IK-PROMPT-EMPTY", Role.PROMPT, ik_llama(CONTEXT, "batch_pending_prompt", "8337e4cd3"))
def prompt_empty(asked: int) -> Decision:
    """Return True for a prompt without tokens: it is answered at once, with an empty answer, and the slot is released
    unchanged."""
    return Decision(not asked, {"asked": asked})


@rule("IK-REUSE", Role.PREFIX, ik_llama(CONTEXT, "batch_pending_prompt", "8337e4cd3"))
def reuse_asked(cache_prompt: bool) -> Decision:
    """True if the slot's tokens may be reused: unless ``cache_prompt`` is false."""
    return Decision(cache_prompt, {"cache_prompt": cache_prompt})


@rule("IK-PREFIX.LOOSE", Role.PREFIX, ik_llama(CONTEXT, "batch_pending_prompt", "8337e4cd3"), since="#2105")
def prefix_loose(cache: Sequence[int], prompt: Sequence[int], pieces: Pieces) -> Decision:
    """Return the common prefix of slot and prompt as text, in tokens of both; blanks that occur on a single side are
    skipped."""
    found = common(cache, prompt, pieces, strict=False)
    return Decision(found, {"held": len(cache), "asked": len(prompt)})


# [Gone in ik_llama@2105]
@rule("IK-PREFIX.STRICT", Role.PREFIX, ik_llama(CONTEXT, "batch_pending_prompt", "d2da6da05"), until="#2105")
def prefix_strict(cache: Sequence[int], prompt: Sequence[int], pieces: Pieces) -> Decision:
    """Return the common prefix of slot and prompt as text, byte for byte, in tokens of both, unless skipping blanks
    gains more than 20 tokens."""
    strict, loose = (common(cache, prompt, pieces, strict) for strict in (True, False))
    found = loose if loose.cache > strict.cache + MORE else strict
    return Decision(found, {"held": len(cache), "asked": len(prompt)})


# [Gone in ik_llama@1008]
@rule("IK-PREFIX.TOKENS", Role.PREFIX, ik_llama(SERVER, "update_slots", "0b126b2ca^"),
      until="#1008 (0b126b2ca)")
def prefix_tokens(cache: Sequence[int], prompt: Sequence[int], pieces: Pieces) -> Decision:
    """Return the number of equal tokens at the beginning of slot and prompt; another tokenization of equal text ends
    the prefix."""
    n = equal_tokens(cache, prompt)
    return Decision(CommonLength(n, n), {"held": len(cache), "asked": len(prompt)})


def _back(n_past_prompt: int, asked: int, here: bool) -> int:
    return int(here and n_past_prompt == asked and n_past_prompt > 0)


@rule("IK-ONE.BEFORE", Role.PREFIX, ik_llama(CONTEXT, "batch_pending_prompt", "8337e4cd3"), since="#2105")
def one_before(n_past_prompt: int, asked: int, searched: bool) -> Decision:
    """Return 1 if the whole prompt is cached, before the checkpoint search: the last token must be evaluated for
    logits. Called before and after the search; return the number of tokens to give up at this call."""
    because = {"n_past_prompt": n_past_prompt, "asked": asked, "searched": searched}
    return Decision(_back(n_past_prompt, asked, not searched), because)


# [Gone in ik_llama@2105]
@rule("IK-ONE.BEHIND", Role.PREFIX, ik_llama(CONTEXT, "batch_pending_prompt", "d2da6da05"), until="#2105")
def one_behind(n_past_prompt: int, asked: int, searched: bool) -> Decision:
    """Return 1 if the whole prompt is cached, after the checkpoint search: the restored state, or the live state, then
    ends a token too far."""
    because = {"n_past_prompt": n_past_prompt, "asked": asked, "searched": searched}
    return Decision(_back(n_past_prompt, asked, searched), because)
