"""Which histories are tried? Turns drawn from a number: the same ones on every machine and in every version."""

from __future__ import annotations

from typing import AbstractSet, Iterator, NamedTuple, Sequence

from cachesim.model.hash_mixing import Rng
from cachesim.tools.conformance.history import KINDS, MOST, History, HistoryTurn, of_turns

LENGTH = 24                  # tokens of a word where the implementation's own sizes say nothing
PREDICT = 4                  # tokens generated at most
SPECIAL = ("cache", "cancel", "burst")
PLAIN = 6                    # plain requests for one of each special kind
TRIES = 20                   # histories drawn for one that is new, before there are taken to be no more


class Space(NamedTuple):
    """What may be drawn: histories of at most ``most_requests`` requests and prompts of at most ``most_prompt`` tokens.
    ``near``: sizes of the implementation (chunk, block, window, limit) around which lengths crowd; ``abilities``: only
    what it is able to do is drawn."""

    most_requests: int
    most_prompt: int
    near: Sequence[int]
    abilities: AbstractSet[str]


def histories(space: Space, examples: int, first: int = 0) -> Iterator[History]:
    """So many different histories, fewer where there are no more. ``first``: the number that they are drawn from on."""
    seen: set[str] = set()
    for number in range(first, first + TRIES * examples):
        history = of_turns(_turns(Rng(number, "conform"), space), space.most_prompt)
        if history.line not in seen:
            seen.add(history.line)
            yield history
        if len(seen) == examples:
            return


def _turns(rng: Rng, space: Space) -> list[HistoryTurn]:
    """Every third history has one or two turns, the others three or more."""
    most = min(space.most_requests, MOST)
    n = rng.between(1, min(2, most)) if rng.chance(33) else rng.between(min(3, most), most)
    return [_turn(rng, space) for _ in range(n)]


def _turn(rng: Rng, space: Space) -> HistoryTurn:
    special = rng.one([""] * PLAIN + [name for name in SPECIAL if _able(name, space.abilities)])
    predict = 1 if rng.chance(50) else rng.between(1, PREDICT)
    hang_up = 0 if rng.chance(50) else rng.below(PREDICT)
    if special == "cancel" and "cancel_prompt" not in space.abilities:
        hang_up, predict = max(hang_up, 1), max(predict, 2)
    elif special == "cancel" and "cancel_answer" not in space.abilities:
        hang_up = 0
    return HistoryTurn(
        kind=rng.one(KINDS), after=rng.below(MOST), cut=_length(rng, space.near, 0), new=_length(rng, space.near, 1),
        predict=predict, cache=special != "cache",
        cancel_after=min(hang_up, predict - 1) if special == "cancel" else None, together=special == "burst",
    )  # fmt: skip


def _able(special: str, abilities: AbstractSet[str]) -> bool:
    return special in abilities or (special == "cancel" and bool({"cancel_prompt", "cancel_answer"} & abilities))


def _length(rng: Rng, near: Sequence[int], low: int) -> int:
    """The least, short, longer, or beside one of the sizes."""
    beside = sorted({size + by for size in near for by in (-1, 0, 1) if size + by >= low})
    if beside and rng.chance(33):
        return rng.one(beside)
    return rng.between(low, rng.one((low, 4, 4, LENGTH)))
