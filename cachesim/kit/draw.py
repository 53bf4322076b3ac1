"""Which histories are tried? Hypothesis strategies for turns; what stands first in a list is what it shrinks to."""

from __future__ import annotations

from typing import AbstractSet, Sequence

from hypothesis import strategies as st

from cachesim.kit.history import KINDS, MOST, Turn

LENGTH = 24                  # tokens of a word where the implementation's own sizes say nothing
PREDICT = 4                  # tokens generated at most
SPECIAL = ("cache", "cancel", "burst")
PLAIN = 6                    # plain requests for one of each special kind


def histories(most_requests: int, near: Sequence[int], abilities: AbstractSet[str]) -> st.SearchStrategy[list[Turn]]:
    """Lists of turns. ``near``: sizes of the implementation (chunk, block, window, limit) around which lengths crowd;
    only what it is able to do is drawn."""
    turn, most = _turns(near, abilities), min(most_requests, MOST)
    longer = st.lists(turn, min_size=min(3, most), max_size=most)
    return st.one_of(st.lists(turn, min_size=1, max_size=min(2, most)), longer, longer)


def _turns(near: Sequence[int], abilities: AbstractSet[str]) -> st.SearchStrategy[Turn]:
    return st.builds(
        _turn,
        kind=st.sampled_from(KINDS),
        after=st.integers(0, MOST - 1),
        cut=_lengths(near, 0),
        new=_lengths(near, 1),
        predict=st.one_of(st.just(1), st.integers(1, PREDICT)),
        special=st.sampled_from([""] * PLAIN + [name for name in SPECIAL if name in abilities]),
        hang_up=st.one_of(st.just(0), st.integers(0, PREDICT - 1)),
    )


def _turn(kind: str, after: int, cut: int, new: int, predict: int, special: str, hang_up: int) -> Turn:
    cancel_after = min(hang_up, predict - 1) if special == "cancel" else None
    return Turn(kind, after, cut, new, predict, special != "cache", cancel_after, special == "burst")


def _lengths(near: Sequence[int], low: int) -> st.SearchStrategy[int]:
    """Short, longer, or beside one of the sizes."""
    beside = sorted({size + by for size in near for by in (-1, 0, 1) if size + by >= low})
    kinds = [st.integers(low, 4), st.integers(low, LENGTH)]
    return st.one_of(*kinds, st.sampled_from(beside)) if beside else st.one_of(*kinds)

