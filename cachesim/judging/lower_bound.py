"""Lower bound of the prompt tokens that must be evaluated, whatever the rules, flags and memory of the server.

The bound. A server has *seen* a prefix once each of its tokens was evaluated after the tokens before it, in a prompt or
in an answer. For a request with prompt P, let ``seen`` be the longest prefix of P in the prompts and answers of the
requests before it, or sent together with it. (Whole answers: a server that drafts may evaluate even the last token.) It
evaluates at least

    max(1, len(P) - seen)

Proof. The K/V row of a token, and a recurrent state after it, depend on all tokens before it in all layers but the
first. Only an evaluation after exactly this prefix produces them; a restore, a load or a copy returns what was
evaluated before. Tokens of P beyond ``seen`` were never evaluated after their prefix, so this request evaluates them.
The logits after the last token of P are not cached, so a server that answers evaluates at least that token.

Requests sent together may be served in any order and may use each other's work. Together they evaluate every token of
the tree of their prompts that was neither seen before nor is part of an answer of them, and each request evaluates its
own last token. In order of length, a request adds the tokens that no shorter or equal prompt (or its answer) covers. If
it adds none, its last token differs from all that were counted: it belongs to a prefix seen before or to an answer, or
to an equal prompt, and is evaluated once more. So the sum of max(1, added) is a bound for all of them.

Not bounded: a request that was refused, cancelled by its client, or shortened by the server evaluates fewer tokens and
counts 0, as do further completions of a prompt. The bound holds for correct answers: a server that moves rows to other
positions, or uses another conversation's, can stay below it. So can a model whose only layer is attention, where a row
depends on its own token alone.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import Iterable, NamedTuple, Sequence

from cachesim.base.tokens import Tokens, common_prefix
from cachesim.engines.base import Answer, Request
from cachesim.scenarios.schema import at_once


class EvaluatedRequest(NamedTuple):
    """A request: its prompt, and every token list that was (or may have been) evaluated for it, including prompt and
    answer. ``is_parallel``: sent while the previous request was processed. ``counts`` False = it adds nothing to the
    bound, but later requests may reuse its tokens."""

    prompt: Tokens
    after: tuple[Tokens, ...]
    is_parallel: bool = False
    counts: bool = True


class EvaluationBound(NamedTuple):
    """Prompt tokens that each request must evaluate, and all of them together: ``total`` is at least the sum of
    ``each``, and more if requests were sent together."""

    each: tuple[int, ...]
    total: int


class EvaluatedPrefixes:
    """Sorted token lists, searched for the longest common prefix with another list, which a neighbour in the order
    has."""

    def __init__(self, lists: Iterable[Tokens] = ()) -> None:
        self._lists: list[Tokens] = sorted(lists)

    def add(self, tokens: Tokens) -> None:
        """Add a list."""
        insort(self._lists, tokens)

    def longest(self, tokens: Tokens) -> int:
        """Return the length of the longest common prefix with any of the lists [tokens]."""
        at = bisect_left(self._lists, tokens)
        return max((common_prefix(one, tokens) for one in self._lists[max(0, at - 1) : at + 1]), default=0)


def lower_bound(requests: Iterable[EvaluatedRequest]) -> EvaluationBound:
    """Return the bound of requests in the order in which they were sent."""
    every = list(requests)
    seen = EvaluatedPrefixes()
    each = []
    total = 0
    for numbers in at_once(one.is_parallel for one in every):
        group = every[numbers.start : numbers.stop]
        total += _of_group(group, seen)
        for i, one in enumerate(group):
            others = EvaluatedPrefixes(tokens for k, other in enumerate(group) if k != i for tokens in other.after)
            each.append(_least(one, max(seen.longest(one.prompt), others.longest(one.prompt))))
        for one in group:
            for tokens in one.after:
                seen.add(tokens)
    return EvaluationBound(tuple(each), total)


def _of_group(group: Sequence[EvaluatedRequest], seen: EvaluatedPrefixes) -> int:
    """Return the tokens that requests sent together must evaluate, in order of length. Tokens evaluated by requests
    that do not count may be reused by all of them."""
    mine = EvaluatedPrefixes(tokens for one in group if not one.counts for tokens in one.after)
    total = 0
    for one in sorted((one for one in group if one.counts), key=lambda one: len(one.prompt)):
        total += _least(one, max(seen.longest(one.prompt), mine.longest(one.prompt)))
        for tokens in one.after:
            mine.add(tokens)
    return total


def _least(request: EvaluatedRequest, seen: int) -> int:
    return max(1, len(request.prompt) - seen) if request.counts and request.prompt else 0


def evaluated_request(request: Request, answer: Answer, together: bool) -> EvaluatedRequest:
    """Return a request and its outcome in the form that ``lower_bound`` reads."""
    prompt, answers = request.prompt, (answer, *answer.children)
    texts = [request.forced or (), *request.children_forced, *(tuple(one.tokens) for one in answers)]
    after = {prompt + tuple(text) for text in texts} | {one.slot_tokens for one in answers}
    answered = answer.status == 200 and answer.done and not (answer.died or answer.cancelled)
    counts = answered and request.cancel_at is None and answer.prompt in (None, prompt)
    return EvaluatedRequest(prompt, tuple(after), together, counts)
