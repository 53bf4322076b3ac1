"""Tests of tokens that carry the key they were evaluated under."""

from __future__ import annotations

import copy
import pickle

from hypothesis import given
from hypothesis import strategies as st

from cachesim.base.keyed_tokens import IDS, KeyedToken, identities, key_of, plain_tokens, under, with_keys

TOKENS = st.lists(st.integers(0, 2**63), max_size=8).map(tuple)
KEY = st.integers(1, 2**62)


@given(TOKENS, KEY)
def test_a_server_sees_the_token_and_the_judge_its_key(tokens, key):
    held = list(under(tokens, key))
    assert held == list(tokens) and hash(tuple(held)) == hash(tokens)
    assert identities(held) == identities(identities(held)) == tuple(token + key * IDS for token in tokens)
    assert plain_tokens(identities(held)) == tokens and {*map(key_of, identities(held))} <= {key}
    assert under(tokens, 0) is tokens


@given(TOKENS, st.lists(st.tuples(st.integers(0, 8), KEY), min_size=1, max_size=3), st.data())
def test_keys_begin_at_their_positions(tokens, more, data):
    keys = tuple(sorted(dict([(0, 5), *more]).items()))
    found = with_keys(tokens, keys)
    wanted = [next(key for first, key in reversed(keys) if first <= i) for i in range(len(tokens))]
    assert [key_of(one) for one in found] == wanted and plain_tokens(found) == tokens
    start = data.draw(st.integers(0, len(tokens)))
    assert with_keys(tokens[start:], keys, start) == found[start:]


def test_a_copy_keeps_the_key():
    token = KeyedToken(3, 7)
    assert copy.deepcopy([token])[0] is token


def test_a_keyed_token_survives_copies_and_pickles():
    token = KeyedToken(7, 9)
    for twin in (copy.deepcopy(token), pickle.loads(pickle.dumps(token))):
        assert (twin, twin.key, type(twin)) == (7, 9, KeyedToken)
