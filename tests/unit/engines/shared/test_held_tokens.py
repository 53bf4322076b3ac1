"""Does a list of tokens know how many of them nobody has touched since somebody looked?"""

from __future__ import annotations

from copy import deepcopy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cachesim.engines.shared.held_tokens import HeldTokens
from cachesim.tokens import common_prefix

TOKENS = st.lists(st.integers(0, 2), max_size=5)
AT = st.integers(-6, 6)
CHANGES = st.one_of(
    st.tuples(st.just("append"), TOKENS), st.tuples(st.just("add"), TOKENS), st.tuples(st.just("clear"), TOKENS),
    st.tuples(st.just("cut"), st.slices(6)), st.tuples(st.just("write"), AT, TOKENS), st.tuples(st.just("one"), AT),
)


def change(tokens, what, *rest):
    match what:
        case "append":
            tokens.extend(rest[0])
        case "add":
            tokens += rest[0]
        case "clear":
            tokens.clear()
        case "cut":
            del tokens[rest[0]]
        case "write":
            tokens[rest[0] :] = rest[1]
        case "one" if tokens:
            tokens[rest[0] % len(tokens)] = 7


@given(TOKENS, st.lists(CHANGES, max_size=6))
def test_what_is_kept_was_there_at_the_last_look(first, changes):
    held, plain, reader = HeldTokens(first), list(first), object()
    before = held.look(reader)
    assert before == tuple(first)
    for one in changes:
        change(held, *one)
        change(plain, *one)
        assert held == plain
    assert held.kept(reader) <= common_prefix(before, tuple(held)) <= len(before)


@pytest.mark.parametrize(("what", "kept"), [
    (("append", [9]), 5), (("cut", slice(2, None)), 2), (("cut", slice(1, 3)), 1), (("write", 4, [8]), 4),
    (("one", 3), 3), (("clear", ()), 0), (("cut", slice(None, None, -1)), 0), (("write", -2, [1]), 3),
])  # fmt: skip
def test_no_more_is_forgotten_than_was_touched(what, kept):
    held, reader = HeldTokens(range(5)), object()
    held.look(reader)
    change(held, *what)
    held.extend((1, 2, 3))
    assert held.kept(reader) == kept


def test_only_the_last_reader_may_ask_and_none_about_a_copy():
    held, first, second = HeldTokens((1, 2)), object(), object()
    assert held.kept(first) is None
    held.look(first)
    del held[1:]
    held.look(second)
    assert (held.kept(first), held.kept(second)) == (None, 1)
    twin = deepcopy(held)
    assert (twin, twin.kept(second)) == ([1], None)


def test_what_nobody_needs_is_not_possible_unseen():
    with pytest.raises(TypeError):
        HeldTokens((1, 2)).pop()
