"""How many prompt tokens must be evaluated at least, whatever the rules, the flags and the memory of the server?

The bound. A server has *seen* a prefix once every token of it was evaluated behind the tokens before it: in a prompt,
or as part of an answer. For a request with prompt P, let ``seen`` be the longest prefix of P in the prompts and the
answers of the requests before it, or sent together with it. (Whole answers: a server that drafts may evaluate even the
last token.) It evaluates at least

    max(1, len(P) - seen)

Proof. The K/V row of a token, and a recurrent state after it, depend on every token before it in all layers but the
first; nothing but an evaluation behind this very prefix yields them, and a restore, a load or a copy only brings back
what was evaluated once. Tokens of P beyond ``seen`` have never been behind their prefix, so that this request
evaluates them. And the logits after the last token of P are in no cache: whoever answers evaluates that token at least
(the rule of one token).

Requests that are sent together may be served in any order, and may use each other's work. Together they evaluate every
token of the tree of their prompts that is neither seen before nor part of an answer of one of them, and each of them
its own last token. Taken in order of length, a request adds the tokens that no shorter or equal prompt (or its answer)
covers. Where it adds none, its last token is another one than all that were counted: of a prefix seen before or of an
answer, or that of an equal prompt, evaluated once more. So the sum of max(1, added) is a bound for all of them.

What is not bounded: a request that was refused, cut short by its client, or shortened by the server, evaluates fewer
tokens and counts 0; so do further completions of one prompt. It holds for right answers: a server that moves rows to
other positions, or takes another conversation's for its own, can stay below. So can a model whose only layer is
attention, where a row depends on its own token alone.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import Iterable, NamedTuple, Sequence

from cachesim.base.tokens import Tokens, common_prefix
from cachesim.engines.base import Answer, Request
from cachesim.scenarios.schema import at_once


class EvaluatedRequest(NamedTuple):
    """A request: its prompt, and every token list that was (or may have been) evaluated for it, the prompt and the
    answer among them. ``together``: it was sent while the one before was at work. ``counts`` False = it bounds
    nothing, but what it evaluated is there for those after it."""

    prompt: Tokens
    after: tuple[Tokens, ...]
    together: bool = False
    counts: bool = True


class Bound(NamedTuple):
    """Prompt tokens that each request must evaluate, and all of them together: ``total`` is at least the sum of
    ``each``, and more where requests were sent together."""

    each: tuple[int, ...]
    total: int


class EvaluatedPrefixes:
    """Token lists, and the longest prefix that another list has in common with any of them. Asking takes a search among
    sorted lists: the best one is a neighbour."""

    def __init__(self, lists: Iterable[Tokens] = ()) -> None:
        self._lists: list[Tokens] = sorted(lists)

    def add(self, tokens: Tokens) -> None:
        """One list more."""
        insort(self._lists, tokens)

    def longest(self, tokens: Tokens) -> int:
        """Length in tokens of the longest common prefix with any of the lists."""
        at = bisect_left(self._lists, tokens)
        return max((common_prefix(one, tokens) for one in self._lists[max(0, at - 1) : at + 1]), default=0)


def lower_bound(requests: Iterable[EvaluatedRequest]) -> Bound:
    """The bound of requests in the order in which they were sent."""
    every, seen, each, total = list(requests), EvaluatedPrefixes(), [], 0
    for numbers in at_once(one.together for one in every):
        group = every[numbers.start : numbers.stop]
        total += _of_group(group, seen)
        for i, one in enumerate(group):
            others = EvaluatedPrefixes(tokens for k, other in enumerate(group) if k != i for tokens in other.after)
            each.append(_least(one, max(seen.longest(one.prompt), others.longest(one.prompt))))
        for one in group:
            for tokens in one.after:
                seen.add(tokens)
    return Bound(tuple(each), total)


def _of_group(group: Sequence[EvaluatedRequest], seen: EvaluatedPrefixes) -> int:
    """What requests sent together evaluate at least; in order of length. What one evaluated that counts for nothing is
    there for all."""
    mine = EvaluatedPrefixes(tokens for one in group if not one.counts for tokens in one.after)
    total = 0
    for one in sorted((one for one in group if one.counts), key=lambda one: len(one.prompt)):
        total += _least(one, max(seen.longest(one.prompt), mine.longest(one.prompt)))
        for tokens in one.after:
            mine.add(tokens)
    return total


def _least(one: EvaluatedRequest, seen: int) -> int:
    return max(1, len(one.prompt) - seen) if one.counts and one.prompt else 0


def sent(request: Request, answer: Answer, together: bool = False) -> EvaluatedRequest:
    """A request and what became of it, for ``lower_bound``."""
    prompt, answers = request.prompt, (answer, *answer.children)
    texts = [request.forced or (), *request.children_forced, *(tuple(one.tokens) for one in answers)]
    after = {prompt + tuple(text) for text in texts} | {one.slot_tokens for one in answers}
    answered = answer.status == 200 and answer.done and not (answer.died or answer.cancelled)
    counts = answered and request.cancel_at is None and answer.prompt in (None, prompt)
    return EvaluatedRequest(prompt, tuple(after), together, counts)
