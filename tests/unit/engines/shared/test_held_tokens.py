"""Does a list of tokens know how many of them nobody has touched since somebody looked?"""

from __future__ import annotations

import zlib
from array import array
from copy import deepcopy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cachesim.base.errors import Crash
from cachesim.base.tokens import common_prefix
from cachesim.engines.shared.held_tokens import HeldTokens

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
    moment = held.look(reader)
    before = moment[:]
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


def test_who_looks_once_is_not_noticed():
    held, reader = HeldTokens((1, 2, 3)), object()
    held.look(reader)
    del held[2:]
    assert held.look(None)[:] == (1, 2)
    assert (held.kept(reader), held.kept(None)) == (2, None)


@given(TOKENS, st.lists(CHANGES, max_size=4), st.integers(0, 5))
def test_tokens_of_a_moment_are_copied_when_they_are_asked_for_and_never_wrong(first, changes, start):
    held, reader = HeldTokens(first), object()
    moment, twin = held.look(reader), held.look(reader)
    assert len(moment) == len(first) and moment[start:] == tuple(first[start:])
    for one in changes:
        change(held, *one)
    assert twin.left(reader) == tuple(first)[: len(twin.left(reader))]
    if all(what in ("append", "add") for what, *_ in changes):
        assert moment[:] == moment.left(reader) == tuple(first)
        del held[:]
        assert moment[:] == tuple(first) and moment[1:] == tuple(first[1:])         # asked for before


def test_tokens_that_were_touched_are_not_told():
    held, reader = HeldTokens((1, 2, 3)), object()
    moment = held.look(reader)
    del held[2:]
    held.append(4)
    assert moment.left(reader) == (1, 2)
    with pytest.raises(Crash, match="after they have changed"):
        moment[:]
    held.look(object())
    assert moment.left(reader) == ()


@given(TOKENS, st.lists(CHANGES, max_size=6))
def test_the_checksum_is_that_of_all_tokens_whatever_was_changed(first, changes):
    tokens = HeldTokens(first)
    for one in [("append", []), *changes]:
        change(tokens, *one)
        assert tokens.crc32() == zlib.crc32(array("q", tokens).tobytes()) == deepcopy(tokens).crc32()


def test_the_checksum_of_tokens_that_grow_takes_in_each_of_them_once(monkeypatch):
    tokens, read = HeldTokens(range(100)), []
    counted = lambda kind, some: read.append(len(some)) or array(kind, some)  # noqa: E731
    monkeypatch.setattr("cachesim.engines.shared.held_tokens.array", counted)
    for number in range(50):
        tokens.append(number)
        tokens.crc32()
    assert sum(read) == 150
