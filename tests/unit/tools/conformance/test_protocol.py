"""Requests, keys and replies between the suite and an implementation."""

from __future__ import annotations

import numpy as np
import pytest

from cachesim.tools.conformance.protocol import CacheRequest, Failed, Reply, RequestKey, StoredEntry, read_reply

KEY = RequestKey("cat", 3)


@pytest.mark.parametrize(("fields", "options"), [
    ({}, {}), ({"cache": False}, {"cache": False}), ({"cancel_after": 0}, {"cancel_after": 0}),
    ({"cancel_after": 2, "n_predict": 5}, {"cancel_after": 2}), ({"key": KEY}, {"key": "cat", "key_start": 3}),
    ({"key": RequestKey("cat")}, {"key": "cat"}), ({"sampling": {"seed": 1}}, {"sampling": {"seed": 1}}),
    ({"cache": False, "sampling": {"seed": 1}}, {"cache": False, "sampling": {"seed": 1}}),
])  # fmt: skip
def test_only_what_differs_from_a_plain_request_is_sent(fields, options):
    assert CacheRequest((1, 2), **fields).options() == options


@pytest.mark.parametrize(("first", "second", "alike"), [
    (KEY, RequestKey("cat", 3), None), (KEY, RequestKey("dog", 2), 2), (KEY, RequestKey(), 3), (RequestKey(), KEY, 3),
    (KEY, RequestKey("cat", 4), 3),
])  # fmt: skip
def test_tokens_that_mean_the_same_under_two_keys(first, second, alike):
    assert first.alike(second) == alike


def test_a_key_is_written_with_its_start():
    assert (str(KEY), str(RequestKey("cat"))) == ("'cat' from token 3 on", "'cat'")


@pytest.mark.parametrize(("raw", "reply"), [
    ({"tokens": [1, 2]}, Reply((1, 2))), ({"tokens": ()}, Reply(())), ({"fingerprint": 0}, Reply(fingerprint=0)),
    ({"tokens": np.array([3]), "cached": np.int64(2), "evaluated": 0}, Reply((3,), cached=2, evaluated=0)),
    ({"tokens": [1], "stored": [{"tokens": [5, 6], "length": 1}], "used": {"entries": 3}},
     Reply((1,), stored=(StoredEntry((5, 6), 1),), used={"entries": 3})),
    ({"tokens": [1], "stored": []}, Reply((1,), stored=())), ({"refused": "too long"}, Reply(refused="too long")),
    (Reply((1,), cached=4), Reply((1,), cached=4)), ({"tokens": [1], "cached": None, "refused": None}, Reply((1,))),
])  # fmt: skip
def test_a_reply_is_read(raw, reply):
    assert read_reply(raw, cancelled=False) == reply


@pytest.mark.parametrize(("raw", "error"), [
    ([1], "expected a mapping as the reply, found list"),
    ({"token": [1]}, "unknown field 'token' in a reply (did you mean 'tokens'?)"),
    ({"zzz": 1}, "unknown field 'zzz' in a reply (tokens, fingerprint, cached, evaluated, stored, used, refused)"),
    ({}, "expected tokens or a fingerprint in the reply, found neither: nothing can be compared"),
    ({"tokens": "12"}, "tokens: expected a list of tokens, found '12'"),
    ({"tokens": {1: 2}}, "tokens: expected a list of tokens, found {1: 2}"),
    ({"tokens": 5}, "tokens: expected a list of tokens, found 5"),
    ({"tokens": [1, -1]}, "a token of tokens: expected an integer of at least 0, found -1"),
    ({"tokens": [1], "cached": True}, "cached: expected an integer of at least 0, found True"),
    ({"tokens": [1], "cached": 1.0}, "cached: expected an integer of at least 0, found 1.0"),
    ({"tokens": [1], "evaluated": "x" * 60}, "evaluated: expected an integer of at least 0, found 'xxxxxxxxxx"),
    ({"tokens": [1], "stored": {}}, "stored: expected a list of mappings with tokens and length"),
    ({"tokens": [1], "stored": [{"tokens": [1]}]}, "stored: expected a list of mappings with tokens and length"),
    ({"tokens": [1], "stored": [{"tokens": [1], "size": 1}]},
     "length of stored: expected an integer of at least 0, found None"),
    ({"tokens": [1], "used": [3]}, "used: expected a mapping from names to counts"),
    ({"tokens": [1], "used": {"n": -1}}, "used['n']: expected an integer of at least 0, found -1"),
    ({"tokens": [1], "used": {3: 1}}, "expected a text, found 3"),
    ({"tokens": [1], "refused": 3}, "expected a text, found 3"),
])  # fmt: skip
def test_a_reply_that_is_none_is_refused(raw, error):
    with pytest.raises(Failed) as failed:
        read_reply(raw, cancelled=False)
    assert str(failed.value).startswith(error)


def test_the_reply_to_a_cancelled_request_may_be_empty():
    assert read_reply({}, cancelled=True) == Reply()
