"""The walk of a query through the stored keys (specification 2)."""

from __future__ import annotations

from copy import deepcopy

import pytest

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
