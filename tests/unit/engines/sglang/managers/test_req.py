"""The text of a request is copied once for each token that is appended, not for each reader."""

import pytest

from cachesim.base.keyed_tokens import IDS
from tests.unit.engines.sglang.trees import make_req


@pytest.mark.parametrize("key", [0, 3])
def test_the_text_is_the_same_list_until_a_token_is_appended(key):
    req = make_req(0, range(10))
    req.key = key
    text, pairs = req.text(), req.radix_key(is_eagle=True)
    assert text == tuple(token + key * IDS for token in range(10))
    assert req.text() is text and req.radix_key(is_eagle=True) is pairs
    assert pairs == tuple((n, n + 1) for n in range(9))
    req.fill_ids.append(10)
    assert req.append_output_id() == 10 and req.seqlen == 11
    assert req.text() == (*text, 10 + key * IDS) and req.radix_key(is_eagle=True) == (*pairs, (9, 10))


def test_the_tree_compares_tokens_without_their_key():
    req, keyed = make_req(0, range(10)), make_req(1, range(10))
    keyed.key = 3
    assert req.radix_key(is_eagle=False) is req.text()
    assert keyed.radix_key(is_eagle=False) == tuple(range(10)) != keyed.text()


def test_an_ended_request_keeps_no_copies():
    req = make_req(0, range(10))
    req.radix_key(is_eagle=True)
    req.forget_text()
    assert req.known == req.compared.text == req.compared.key == ()
    assert req.text() == tuple(range(10))
