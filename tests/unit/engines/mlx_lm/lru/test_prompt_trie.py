"""Tests of the walk of a query through the stored keys (specification 2)."""

from __future__ import annotations

from copy import deepcopy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cachesim.engines.mlx_lm.lru import PromptTrie, SearchResult


def trie(*keys):
    found = PromptTrie()
    for key in keys:
        found.add("m", key, str(key))
    return found


@pytest.mark.parametrize(("keys", "query", "expected"), [
    ([[1, 2, 3]], [1, 2, 3], SearchResult(True, True, 3, None, 3)),
    ([[1, 2]], [1, 2, 3, 4], SearchResult(True, False, 2, (1, 2), 2)),
    ([[1]], [1, 2], SearchResult(True, False, 1, (1,), 1)),
    ([[1, 2, 3, 4]], [1, 2, 9], SearchResult(True, False, 0, (1, 2, 3, 4), 2)),
    ([[1, 2], [1, 2, 3, 4]], [1, 2, 3, 9], SearchResult(True, False, 2, (1, 2, 3, 4), 3)),
    ([[1, 2, 3, 4], [1, 2, 5]], [1, 2], SearchResult(True, False, 0, (1, 2, 5), 2)),
    ([[1, 2]], [7, 8], SearchResult(True, False, 0, None, 0)),
    ([[1, 2]], [], SearchResult(True, False, 0, None, 0)),
    ([[]], [], SearchResult(True, True, 0, None, 0)),
    ([[]], [5], SearchResult(True, False, 0, None, 0)),
])  # fmt: skip
def test_search(keys, query, expected):
    assert trie(*keys).search("m", query) == expected


def test_of_two_equally_short_keys_the_branch_that_came_last_wins():
    assert trie([1, 2, 3], [1, 4, 5]).search("m", [1, 9]).longer == (1, 4, 5)
    assert trie([1, 4, 5], [1, 2, 3]).search("m", [1, 9]).longer == (1, 2, 3)


def test_a_key_below_a_key_does_not_count():
    assert trie([1, 2], [1, 2, 3], [1, 4, 5, 6]).search("m", [1, 9]).longer == (1, 2)


def test_another_model_has_another_trie():
    assert trie([1, 2]).search("n", [1, 2]) == SearchResult(False, False, 0, None, 0)


def test_taking_out_prunes_what_led_nowhere_else():
    found = trie([1, 2, 3], [1, 2])
    assert found.pop("m", [1, 2, 3]) == "[1, 2, 3]"
    assert found.search("m", [1, 2, 3]).common == 2
    assert found.pop("m", [1, 2]) == "[1, 2]"
    assert found.search("m", [1, 2]).common == 0


@pytest.mark.parametrize(("model", "key"), [("m", [1]), ("m", [1, 2, 3]), ("n", [1, 2])])
def test_what_is_not_there_is_a_key_error(model, key):
    with pytest.raises(KeyError):
        trie([1, 2]).get(model, key)
    with pytest.raises(KeyError):
        trie([1, 2]).pop(model, key)


def test_a_new_value_gives_back_the_old_one():
    found = trie([1, 2])
    assert found.add("m", [1, 2], "new") == "[1, 2]"
    assert (found.get("m", [1, 2]), found.has("m", [1])) == ("new", False)


def test_a_trie_deeper_than_python_calls_is_copied():
    key = tuple(range(5000))
    trie = PromptTrie()
    trie.add("m", key, ["x"])
    twin = deepcopy(trie)
    assert twin.get("m", key) == ["x"] and twin.get("m", key) is not trie.get("m", key)
    twin.pop("m", key)
    assert trie.has("m", key) and not twin.has("m", key)


def test_values_follow_the_keys_through_add_pop_and_copy():
    trie = PromptTrie()
    trie.add("m", [1, 2], "two")
    twin = deepcopy(trie)
    trie.add("m", (1, 2), "new")
    assert (trie.get("m", [1, 2]), twin.get("m", [1, 2])) == ("new", "two")
    assert trie.pop("m", [1, 2]) == "new" and not trie.has("m", [1, 2]) and twin.has("m", [1, 2])
    assert twin.pop("m", [1, 2]) == "two" and not twin.has("m", [1, 2])


class Plain:
    """Return a trie with a node for each token, as in the original: {token: node}, and the value under None."""

    def __init__(self):
        self.root = {}

    def add(self, key, value):
        node = self.root
        for token in key:
            node = node.setdefault(token, {})
        before, node[None] = node.get(None), value
        return before

    def pop(self, key):
        path = [self.root]
        for token in key:
            path.append(path[-1][token])
        value = path[-1].pop(None, None)
        if value is None:
            raise KeyError(tuple(key))
        for i in range(len(key), 0, -1):
            if path[i]:
                break
            del path[i - 1][key[i - 1]]
        return value

    def prefixes(self, key):
        node, found = self.root, []
        for i, token in enumerate(key):
            found += [i] * (None in node)
            node = node[token]
        return found

    def search(self, key):
        node, at, walked = self.root, 0, 0
        while walked < len(key) and key[walked] in node:
            node, walked = node[key[walked]], walked + 1
            at = walked if None in node else at
        exact = walked == len(key) and None in node
        return SearchResult(True, exact, at, None if exact or not walked else (*key[:walked], *self.near(node)), walked)

    def near(self, node):
        found, waiting = [], [(node, ())]
        while waiting:
            here, way = waiting.pop()
            if None in here:
                found.append(way)
            else:
                waiting += [(below, (*way, token)) for token, below in here.items()]
        return min(found, key=len, default=())


KEY = st.lists(st.sampled_from([1, 2, 3]), max_size=7).map(tuple)
CALLS = st.lists(st.tuples(st.sampled_from(["add", "add", "pop", "search", "prefixes", "copy"]), KEY), max_size=40)


def answer(what, *given):
    try:
        return what(*given)
    except KeyError as error:
        return error.args


@given(CALLS)
def test_a_trie_of_branches_answers_as_one_with_a_node_for_each_token(calls):
    ours, plain = PromptTrie(), Plain()
    assert ours.add("m", (1, 2), "first") == plain.add((1, 2), "first")
    for i, (call, key) in enumerate(calls):
        if call == "add":
            assert ours.add("m", key, i + 1) == plain.add(key, i + 1)
        elif call == "copy":
            ours = deepcopy(ours)
        elif call != "prefixes" or ours.has("m", key):
            assert answer(getattr(ours, call), "m", key) == answer(getattr(plain, call), key)


def test_the_empty_key_is_removed_like_others():
    found = trie([])
    assert found.pop("m", []) == "[]" and not found.has("m", [])
    with pytest.raises(KeyError):
        found.pop("m", [])
    found = trie([], [1, 2])
    assert found.pop("m", []) == "[]" and found.get("m", [1, 2]) == "[1, 2]"
