"""Tests that two lists have equal places exactly if they are equal, and that a node ends where two lists diverge."""

from __future__ import annotations

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from cachesim.base.tokens import common_prefix
from cachesim.judging.token_radix import RadixPlace, TokenRadix, ancestors, owner_node

LISTS = st.lists(st.lists(st.integers(0, 2), max_size=6).map(tuple), min_size=1, max_size=12)


def spelled(place):
    """Return the tokens of a place, read from its nodes."""
    return tuple(token for text, n in reversed(list(ancestors(place))) for token in text.tokens[: n - text.start])


@given(LISTS, st.lists(st.integers(-1, 1), min_size=12, max_size=12))
def test_equal_lists_have_one_place_whoever_holds_them(lists, slots):
    texts = TokenRadix()
    placed = []
    for tokens, who in zip(lists, slots, strict=False):
        placed.append((tokens, texts.place(tokens, who)))
        texts.remember(who, *placed[-1])
    for (one, at), (other, there) in product(placed, placed):
        assert (at == there) == (one == other)
    assert all(spelled(place) == tokens for tokens, place in placed)
    assert texts.kept == len({one[:n] for one in lists for n in range(1, len(one) + 1)})


@given(LISTS, st.lists(st.integers(0, 2), max_size=6).map(tuple))
def test_a_path_is_the_longest_beginning_that_any_list_has(lists, wanted):
    texts = TokenRadix()
    for tokens in lists:
        texts.place(tokens, -1)
    longest = max(common_prefix(one, wanted) for one in lists)
    assert spelled(texts.longest_known(wanted, -1)) == wanted[:longest]


def test_a_beginning_belongs_to_the_path_on_which_its_last_token_lies():
    texts = TokenRadix()
    first, second = texts.place((1, 2, 3), 0), texts.place((1, 2, 4), 0)
    assert owner_node(second.node, 3) == second and owner_node(second.node, 2) == (first.node, 2)


@given(LISTS, st.lists(st.integers(0, 8), min_size=12, max_size=12))
def test_a_place_is_the_same_wherever_the_search_for_it_begins(lists, cuts):
    texts, twin = TokenRadix(), TokenRadix()
    for tokens, cut in zip(lists, cuts, strict=False):
        beginning = texts.longest_known(tokens[:cut], -1)
        place = texts.place(tokens, -1, RadixPlace(*owner_node(beginning.node, beginning.n)))
        assert spelled(place) == tokens and texts.place(tokens, -1) == place
        assert (place.node.number, place.n) == (twin.place(tokens, -1).node.number, len(tokens))
    assert texts.kept == twin.kept
