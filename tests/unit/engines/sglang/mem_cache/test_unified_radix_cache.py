"""Match, insertion, splits, locks and evictions of the radix tree."""

import copy

import numpy as np
import pytest

from cachesim.base.errors import ProcessAborted
from cachesim.engines.sglang.flags import options
from cachesim.engines.sglang.mem_cache.allocator import KvPools, StatePool
from cachesim.engines.sglang.mem_cache.tree_points import FULL, STATE, SWA
from cachesim.engines.sglang.mem_cache.unified_radix_cache import Insertion, Tree
from cachesim.engines.sglang.profiles import PROFILES

NEW, MIDDLE, OLD = (PROFILES[f"sglang@{build}"] for build in ("0.5.23", "0.5.20", "0.5.9"))


def tree(parts=(FULL,), window=0, rules=NEW, **flags):
    opts = options({"max_total_tokens": 64, "max_mamba_cache_size": 8, **flags})
    kv = KvPools(opts.page_size, 64, 64 if window else None)
    return Tree(rules, opts, parts, window, kv, StatePool(8))


def insert(tree, text, frontier=0, protected=0, state=False, space="", priority=0):
    tokens = tuple(map(ord, text))
    slots = tree.kv.extend(-1, 0, len(tokens))
    tree.kv.free_window(slots[:frontier])
    slot = tree.states.take() if state else None
    ask = Insertion(tokens, space, len(tokens), slots, protected, frontier, 0, priority, slot, tokens)
    return tree.insert(ask)


def match(tree, text, space=""):
    return tree.match(tuple(map(ord, text)), space, len(text))


def kinds(tree):
    names = [row for event in tree.changes if hasattr(event, "rows") for row in event.rows()]
    tree.changes.clear()
    return names


def test_a_match_splits_where_the_prompt_leaves():
    one = tree()
    insert(one, "abcdef")
    found = match(one, "abcx")
    assert found.found.hit == 3 and found.node.end == 3
    assert kinds(one) == [["new", 1, 0, 6], ["split", 1, 2, 3]]
    assert one.slots(found.node).tolist() == [1, 2, 3]


def test_prefixes_end_at_pages():
    one = tree(page_size=4)
    insert(one, "abcdefgh")
    assert match(one, "abcdef").found.hit == 4 and match(one, "abc").found.hit == 0


def test_name_spaces_are_disjoint():
    one = tree()
    insert(one, "abc", space="x")
    assert match(one, "abc").found.hit == 0 and match(one, "abc", "x").found.hit == 3


def test_duplicate_slots_are_freed():
    one = tree()
    insert(one, "abcd")
    assert insert(one, "abcdef").known == 4 and one.kv.full.available == 64 - 6


def test_the_window_must_be_live_before_a_stop():
    one = tree((FULL, SWA), 3)
    insert(one, "abcdefgh", frontier=4)
    assert [(node.end, node.value[SWA] is not None) for node in one.nodes()] == [(4, False), (5, True), (8, True)]
    assert match(one, "abcdefg").found == (7, 7, 7) and match(one, "abcdef").found == (6, 0, 6)
    assert match(one, "abcdefx").window_branch == 6


def test_a_new_leaf_holds_one_window():
    for rules, ends in ((NEW, [5, 8]), (OLD, [8])):
        one = tree((FULL, SWA), 3, rules)
        insert(one, "abcdefgh")
        assert [node.end for node in one.nodes()] == ends


def test_a_state_is_usable_at_its_length_only():
    one = tree((FULL, STATE), state_grid=2)
    insert(one, "abcdef", state=True)
    found = match(one, "abcde")
    assert found.found == (5, 0, 5) and found.state_branch == 4
    assert match(one, "abcdef").found.hit == 6
    assert [(node.end, node.value[STATE]) for node in one.nodes()] == [(5, None), (6, 1)], "the state stays below"


def test_a_second_state_is_not_kept():
    one = tree((FULL, STATE))
    insert(one, "abc", state=True)
    assert insert(one, "abc", state=True).exists is True and next(one.nodes()).value[STATE] == 1


def test_a_path_holds_no_more_states_than_allowed():
    one = tree((FULL, STATE), mamba_max_states_per_path=2)
    for text in ("ab", "abcd", "abcdef"):
        insert(one, text, state=True)
    assert [node.value[STATE] is not None for node in one.nodes()] == [False, True, True]


def test_a_tombstone_takes_over_the_slots_of_a_request():
    one = tree((FULL, SWA), 2)
    insert(one, "abcd", frontier=4)
    assert match(one, "abcd").found.hit == 0
    insert(one, "abcd", frontier=2)
    assert match(one, "abcd").found.hit == 4 and one.kv.full.available == 60


@pytest.mark.parametrize(("rules", "kept"), [(NEW, True), (OLD, False)])
def test_a_locked_tombstone_keeps_its_slots(rules, kept):
    """0.5.9 frees the slots that a running request reads."""
    one = tree((FULL, SWA), 2, rules)
    node = insert(one, "abcd").node
    one.lock(insert(one, "abcdefgh").node)
    before = node.value[FULL].tolist()
    for inner in node.path():
        one.drop(inner, SWA, "")
    insert(one, "abcd")
    assert (one.slots(node).tolist() == before or node.value[FULL].tolist() == before) is kept
    assert set(before).isdisjoint(one.kv.full.free) is kept


def test_a_lock_pins_a_window_and_survives_splits():
    one = tree((FULL, SWA), 2)
    leaf = insert(one, "abcdefgh").node
    lock = one.lock(leaf)
    match(one, "abcdefg")
    assert [node.lock[SWA] for node in leaf.path()] == [1, 1, 0]
    one.unlock(lock)
    assert not any(any(node.lock) for node in one.nodes()) and one.protected == [0, 0, 0]
    with pytest.raises(ProcessAborted, match="lock_ref=0"):
        one.unlock(lock)


@pytest.mark.parametrize(("policy", "gone"), [("lru", "b"), ("fifo", "a"), ("mru", "a"), ("priority", "b")])
def test_the_policy_chooses_the_leaf(policy, gone):
    one = tree(radix_eviction_policy=policy)
    for text, priority in (("aa", 1), ("bb", 0)):
        insert(one, text, priority=priority)
    match(one, "aa")
    assert one.evict((1, 0, 0)) == [2, 0, 0]
    first = next(event.node for event in one.changes if event.ev == "gone")
    assert first == {"a": 1, "b": 2}[gone]


def test_eviction_goes_on_until_the_allocator_has_enough():
    one = tree()
    for text in ("aaaa", "bbbb"):
        insert(one, text)
    assert one.evict((2, 0, 0)) == [4, 0, 0] and one.kv.full.available == 60


def test_an_inner_node_loses_only_the_part():
    one = tree((FULL, STATE))
    inner = insert(one, "ab", state=True).node
    insert(one, "abcd", state=True)
    match(one, "abcd")
    assert one.evict((0, 0, 1)) == [0, 0, 1] and inner.value[STATE] is None and inner.value[FULL] is not None
    assert match(one, "abc").found.hit == 0


@pytest.mark.parametrize(("rules", "left"), [(NEW, 1), (OLD, 0)])
def test_a_tombstone_that_became_a_leaf(rules, left):
    one = tree((FULL, STATE), rules=rules)
    inner = insert(one, "ab", state=True).node
    leaf = insert(one, "abcd", state=True).node
    one.drop(inner, STATE, "")
    assert one.evict((0, 0, 1))[STATE] == 1 and leaf.id not in one.arena
    assert len(list(one.nodes())) == left


def test_a_copy_of_a_long_path_is_independent():
    one = tree((FULL, STATE))
    node = one.root
    for k in range(2000):
        node = one.grow(node, (k,), k + 1, "", 0, ())
    twin = copy.deepcopy(one)
    assert len(list(twin.nodes())) == 2000 and twin.root is not one.root
    next(iter(twin.nodes())).key = ()
    assert next(iter(one.nodes())).key == (0,)


def test_slots_of_a_path_are_in_order():
    one = tree()
    insert(one, "abc")
    node = insert(one, "abcde").node
    assert np.array_equal(one.slots(node)[:3], [1, 2, 3]) and len(one.slots(node)) == 5


def test_only_other_requests_make_a_node_used_since_0_5_23():
    for rules, hits in ((NEW, 1), (MIDDLE, 2)):
        one = tree(rules=rules)
        for counted in (0, 3):
            tokens, slots = (1, 2, 3), one.kv.extend(-1, 0, 3)
            one.insert(Insertion(tokens, "", 3, slots, 0, 0, counted, 0, None, tokens, chunk=False))
        assert next(one.nodes()).hits == hits
    one = tree(rules=MIDDLE)
    one.insert(Insertion((1, 2), "", 2, one.kv.extend(-1, 0, 2), 0, 0, 0, 0, None, (1, 2), chunk=True))
    assert next(one.nodes()).hits == 0


def test_leaves_stay_in_order_after_many_uses():
    one = tree()
    for text in ("abc", "xyz", "mno"):
        insert(one, text)
    for _ in range(200):
        match(one, "abc")
        match(one, "xyz")
    assert len(one.leaves.heap) < 100
    gone = [one.evict((1, 0, 0)) and [node.key for node in one.nodes()] for _ in range(3)]
    assert [len(keys) for keys in gone] == [2, 1, 0] and gone[1] == [tuple(map(ord, "xyz"))]
