"""Tests that two lists have equal places exactly if they are equal, and that a node ends where two lists diverge."""

from __future__ import annotations

from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st

from cachesim.base.tokens import common_prefix
from cachesim.judging.token_radix import TokenRadix, ancestors, owner_node

LISTS = st.lists(st.lists(st.integers(0, 2), max_size=6).map(tuple), min_size=1, max_size=12)


def spelled(place):
    """Return the tokens of a place, read from its nodes."""
    return tuple(token for text, n in reversed(list(ancestors(place))) for token in text.tokens[: n - text.start])


@settings(max_examples=50)
@given(LISTS)
def test_equal_lists_have_one_place(lists):
    texts = TokenRadix()
    placed = [(tokens, texts.place(tokens)) for tokens in lists]
    for (one, at), (other, there) in product(placed, placed):
        assert (at == there) == (one == other)
    assert all(spelled(place) == tokens for tokens, place in placed)
    assert texts.kept == len({one[:n] for one in lists for n in range(1, len(one) + 1)})


@settings(max_examples=50)
@given(LISTS, st.lists(st.integers(0, 2), max_size=6).map(tuple))
def test_a_path_is_the_longest_beginning_that_any_list_has(lists, wanted):
    texts = TokenRadix()
    for tokens in lists:
        texts.place(tokens)
    longest = max(common_prefix(one, wanted) for one in lists)
    assert spelled(texts.longest_known(wanted)) == wanted[:longest]


def test_a_beginning_belongs_to_the_path_on_which_its_last_token_lies():
    texts = TokenRadix()
    first, second = texts.place((1, 2, 3)), texts.place((1, 2, 4))
    assert owner_node(second.node, 3) == second and owner_node(second.node, 2) == (first.node, 2)


@settings(max_examples=50)
@given(LISTS, st.lists(st.integers(0, 8), min_size=12, max_size=12))
def test_a_place_is_the_same_wherever_the_search_for_it_begins(lists, cuts):
    texts, twin = TokenRadix(), TokenRadix()
    for tokens, cut in zip(lists, cuts, strict=False):
        beginning = texts.longest_known(tokens[:cut])
        place = texts.extend(beginning, tokens[beginning.n :])
        assert spelled(place) == tokens and texts.place(tokens) == place
        assert (place.node.number, place.n) == (twin.place(tokens).node.number, len(tokens))
    assert texts.kept == twin.kept
