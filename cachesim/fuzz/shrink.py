"""A failing case is made smaller: fewer steps, shorter words, fewer options.

The case becomes a row of integers, of which smaller ones mean less: which steps stay, which pieces of their texts,
which options, how long each word is. First a few much smaller rows are tried, since lengths that must add up to
something cannot be made shorter one by one, and words are split where they are cut, so that no cut is left. Then the
numbers are lowered one by one (descent.py) while the same group of findings shows. A rerun with the same case gives the
same result.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Callable, Iterator, NamedTuple

from cachesim.fuzz.case import Case, clipped, longest, merged, renamed, split, unmarked
from cachesim.fuzz.descent import lowest
from cachesim.model.rng import Rng
from cachesim.scenarios.options import filled
from cachesim.scenarios.steps import Asked
from cachesim.scenarios.words import Piece

Fails = Callable[[Case], bool]
_FLAGS = ("cache_prompt", "id_slot", "n_cmpl", "cancel_after", "drafts", "draft_else", "together", "seed")
"""What a request may do without, in the order in which it is tried."""


SMALLER = 240          # rows that are tried before the descent begins
ROUNDS = 5             # at least 2 of chance and descent, more while a case is longer than it should be
STEPS, TOKENS = 4, 40  # as long as a case should be: requests, and tokens of each
CAPS = (1, 2, 3, 5, 5, 8, 12, 20, 40, 90, 140)
LONG = (64, 128, 248, 256)
"""Lengths at which the engines' constants begin to matter: some cases are smaller with one long word than with many."""


class Row(NamedTuple):
    """A case as integers: steps that stay, pieces of their texts, flags (per step and kind), options that stay, lengths
    of words."""

    steps: tuple[int, ...]
    pieces: tuple[int, ...]
    flags: tuple[int, ...]
    options: tuple[int, ...]
    words: tuple[int, ...]

    @property
    def flat(self) -> tuple[int, ...]:
        return (*self.steps, *self.pieces, *self.flags, *self.options, *self.words)


def whole(case: Case) -> Row:
    """The row of a case as it is: everything stays."""
    return Row(
        tuple(1 for _ in case.asked),
        tuple(1 for one in case.asked for _ in _pieces(one)),
        tuple(int(_has(one, flag)) for one in case.asked for flag in _FLAGS),
        tuple(1 for _ in case.given()),
        tuple(case.words.values()),
    )


def _pieces(one: Asked) -> list[Piece]:
    return [*one.prompt, *(piece for _, pieces in one.chat for piece in pieces)]


def _without(one: Asked, stay: Iterator[int]) -> Asked:
    """The request with the pieces that stay; ``stay`` says so piece by piece."""
    prompt = tuple(piece for piece in one.prompt if next(stay))
    chat = tuple((role, tuple(piece for piece in pieces if next(stay))) for role, pieces in one.chat)
    return one._replace(prompt=prompt, chat=chat)


def _has(one: Asked, flag: str) -> bool:
    return bool(getattr(one, flag) != getattr(Asked(()), flag))


def reduced(case: Case, row: Row) -> Case:
    """The case with only what the row lets stay."""
    words = dict(zip(case.words, row.words, strict=True))
    kept = [name for name, stays in zip(case.given(), row.options, strict=True) if stays]
    server = {**filled({}, case.engine), **{name: case.server[name] for name in kept}}
    asked: list[Asked] = []
    width, stay = len(_FLAGS), iter(row.pieces)
    for i, (one, stays) in enumerate(zip(case.asked, row.steps, strict=True)):
        one = _without(one, stay)
        if not stays:
            continue
        if one.action is None:
            flags = dict(zip(_FLAGS, row.flags[i * width : (i + 1) * width], strict=True))
            one = _smaller(one, flags, words)
            if not asked or asked[-1].action is not None:
                one = one._replace(together=False, after=0)
            if not one.prompt and not one.chat:
                continue
        asked.append(one)
    used = {piece.word for one in asked for pieces in (one.prompt, one.answer or (), *(p for _, p in one.chat))
            for piece in pieces}
    return replace(case, server=server, words={name: n for name, n in words.items() if name in used},
                   asked=tuple(asked))


def _smaller(one: Asked, flags: dict[str, int], words: dict[str, int]) -> Asked:
    """One request without the flags that go, and with shorter words."""
    plain = Asked(())
    gone: dict[str, Any] = {flag: getattr(plain, flag) for flag, stays in flags.items() if not stays}
    if not flags["together"]:
        gone["after"] = 0
    answer = clipped(one.answer or (), words)
    one = one._replace(
        prompt=clipped(one.prompt, words), answer=answer or None,
        chat=tuple((role, clipped(pieces, words)) for role, pieces in one.chat), **gone,
    )
    if one.cancel_after is not None and one.cancel_after >= sum(_length(p, words) for p in answer):
        return one._replace(cancel_after=None)
    return one


def _length(piece: Any, words: dict[str, int]) -> int:
    return int((words[piece.word] if piece.stop is None else piece.stop) - (piece.start or 0))


def shrink(case: Case, fails: Fails, examples: int = 2000) -> Case:
    """The smallest case that ``fails``, as far as so many tries go, its words named A, B, C. The given one must fail;
    it is returned if nothing smaller does."""
    parts = split(case)
    best = parts if fails(parts) else case
    for number in range(ROUNDS):
        best = _by_descent(_by_chance(best, fails, number), fails, examples // (4 if number else 1))
        if number and len(best.asked) <= STEPS and longest(best) <= TOKENS:
            break
    for tidy in (unmarked, merged, renamed):
        tidied = tidy(best)
        best = tidied if fails(tidied) else best
    return best


def _weight(case: Case) -> tuple[bool, int, int, int]:
    """What is smaller? One request more is less than a text too long to be read."""
    return longest(case) > TOKENS, len(case.asked), longest(case), sum(case.words.values())


def _by_chance(case: Case, fails: Fails, number: int) -> Case:
    """The smallest of a few much smaller cases that fails, or the case itself. ``number``: which few."""
    rng, best = Rng(case.seed, "shrink", f"{number}"), case
    top = whole(case)
    for _ in range(SMALLER):
        cap, lose = rng.one(CAPS), rng.one((0, 0, 15, 40))
        words = [min(n, rng.between(0, cap)) if rng.chance(90) else n for n in top.words]
        steps = tuple(int(not rng.chance(lose)) for _ in top.steps)
        options = tuple(int(not rng.chance(2 * lose)) for _ in top.options)
        if words and rng.chance(50):
            words[rng.below(len(words))] = rng.one(LONG) + rng.below(14)
        small = reduced(case, top._replace(steps=steps, words=tuple(words), options=options))
        if small.asked and _weight(small) < _weight(best) and fails(small):
            best = small
    return best


def _by_descent(case: Case, fails: Fails, tries: int) -> Case:
    """What is left when no single number of the row can be lowered any more."""
    top, best = whole(case), case

    def still(flat: tuple[int, ...]) -> bool:
        nonlocal best
        small = reduced(case, _row(top, flat))
        if small != best and not (small.asked and fails(small)):
            return False
        best = small
        return True

    lowest(top.flat, still, tries)
    return best


def _row(like: Row, flat: tuple[int, ...]) -> Row:
    parts, at = [], 0
    for part in like:
        parts.append(flat[at : at + len(part)])
        at += len(part)
    return Row(*parts)
