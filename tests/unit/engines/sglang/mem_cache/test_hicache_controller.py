"""Host memory behind the tree: what is copied, demoted, loaded, reclaimed and dropped."""

import numpy as np
import pytest

from cachesim.engines.rule import Decision
from cachesim.engines.sglang.mem_cache.base_prefix_cache import EvictParams
from cachesim.engines.sglang.mem_cache.hicache_controller import HiCacheController, OngoingLoadBack, PoolTransfer
from cachesim.engines.sglang.mem_cache.pool_host import HostKVCache, MambaPoolHost
from cachesim.engines.sglang.mem_cache.unified_cache.component_type import FULL, MAMBA
from cachesim.engines.sglang.profiles import PROFILES
from cachesim.engines.sglang.rules.host import BACK, THROUGH
from cachesim.engines.shared.kv_rows import empty_rows, write_rows
from cachesim.events import Decided
from cachesim.model import KVRows
from tests.unit.engines.sglang.crowded_host import reused_by_each
from tests.unit.engines.sglang.trees import insert, make_cache, take

RULES = PROFILES["sglang@0.5.23"].changed({"drop_host_leaf": lambda node: Decision(node.id, {}, rule="test")})
NO_BUFFER = {"mamba_radix_cache_strategy": "no_buffer", "disable_overlap_schedule": True}


@pytest.fixture
def rows():
    """Rows of a layer: slot n holds n."""
    made = empty_rows([0])
    write_rows(made, 0, np.arange(20), KVRows(np.arange(20, dtype=np.uint64), None, None))
    return made


class Host:
    """A tree whose host memory holds ten tokens, with the nodes 1 (four tokens), 2 and 3 behind it (three each)."""

    def __init__(self, rows, policy=THROUGH):
        cache, self.pools = make_cache(rules=RULES, size=20, hicache_write_policy=policy)
        self.cache = cache
        self.tree = cache.tree_core
        self.controller = HiCacheController(cache.context, self.tree, {FULL: HostKVCache(10, 1, rows, [0])})
        self.add(self.tree.root_node, (1, 2, 3, 4))
        self.add(self.tree.nodes_by_id[1], (5, 6, 7))
        self.add(self.tree.nodes_by_id[1], (8, 9, 10))
        self.tree.check()

    def add(self, parent, key):
        tree = self.tree
        node = tree.add_new_node(parent, key, extra_key="", priority=0, text=key)
        node.value[FULL] = take(self.pools, len(key))
        tree.full.count_value(node)
        tree.update_evictable_leaf_sets(node)
        tree.update_evictable_leaf_sets(parent)
        return node

    def nodes(self):
        return list(self.tree.nodes())

    def back_up(self, *nodes):
        """Copy nodes, and let the copies end."""
        return all([self.controller.backup_for_write_back(node) for node in nodes])

    def load(self, node, slots):
        """Load the path to a node into these slots."""
        parts = self.controller.loaded_parts(node, None)
        self.controller.commit_load_back(node, [parts[0]._replace(value=slots)])
        lock = OngoingLoadBack(self.tree.inc_lock_ref(node), self.tree.inc_host_lock_ref(node))
        self.controller.ongoing_load_back.append(lock)


def test_a_demoted_node_comes_back_with_its_rows(rows):
    host = Host(rows, BACK)
    tree = host.tree
    one, two, _ = host.nodes()
    slots = tree.collect_full_device_indices(two).tolist()
    assert host.back_up(one, two)
    assert list(tree.full_host_duplicates) == [one, two]
    assert tree.demote(two, "test") == [3, 0, 0] and tree.full.evictable_size == 7
    assert list(tree.evictable_host_leaves) == [two] and tree.full.nodes_to_load(two) == [two]
    fresh = np.array([17, 18, 19])
    host.load(two, fresh)
    assert rows[0].digest[fresh].tolist() == slots[4:] and tree.loading == {two: two}
    assert not tree.evictable_host_leaves
    host.controller.check_loads()
    assert list(tree.full_host_duplicates) == [one, two] and not tree.loading
    tree.check()


def test_a_split_divides_the_copy(rows):
    host = Host(rows)
    two = host.nodes()[1]
    host.back_up(two)
    held = two.host_value[FULL].tolist()
    upper = host.tree.split_node(two, 2)
    assert (upper.host_value[FULL].tolist(), two.host_value[FULL].tolist()) == (held[:2], held[2:])
    assert list(host.tree.full_host_duplicates) == [two, upper]


def test_a_node_that_is_split_while_it_loads_is_loaded_in_both_parts(rows):
    host = Host(rows, BACK)
    two = host.nodes()[1]
    host.back_up(*host.nodes()[:2])
    host.tree.demote(two, "test")
    host.load(two, np.array([17, 18, 19]))
    upper = host.tree.split_node(two, 2)
    assert host.tree.loading == {two: two, upper: two}


def test_host_leaves_make_room_the_oldest_first(rows):
    host = Host(rows)
    one, two, three = host.nodes()
    assert host.back_up(one, two, three)
    for node in (two, three):
        host.tree.demote(node, "demoted")
    four = host.add(host.tree.root_node, (20, 21))
    assert host.back_up(four) and host.nodes() == [one, four, three]
    assert [(lost.node, lost.rule) for lost in host.tree.changes.lost] == [(two, "test")]
    host.tree.check()


def test_duplicates_make_room_first_those_of_evictable_leaves_last(rows):
    host = Host(rows, policy=BACK)
    one, two, three = host.nodes()
    root = host.tree.root_node
    host.back_up(two, one, three)
    four = host.add(root, (20, 21, 22, 23))
    assert host.back_up(four)
    assert [node.backuped for node in (one, two, three)] == [False, True, True]
    five = host.add(root, (30,))
    assert host.back_up(five) and not two.backuped
    assert list(host.tree.full_host_duplicates) == [three, four, five]


def test_a_copy_without_room_is_not_written(rows):
    host = Host(rows)
    host.back_up(*host.nodes())
    assert host.controller.write_backup(host.add(host.tree.root_node, (40, 41, 42, 43))) is False


@pytest.mark.parametrize(("model", "policy", "tokens", "reused"), [
    ("W8 A", "write_back", 72, [0, 0, 39, 16, 0, 0, 30, 0, 35, 30]),
    ("W8 A", "write_through", 72, [0, 0, 32, 16, 0, 0, 0, 0, 16, 16]),
    ("W8 A", "write_through_selective", 100, [0, 0, 39, 0, 0, 0, 39, 0, 0, 30]),
    ("GA", "write_back", 72, [0, 0, 32, 16, 0, 0, 16, 0, 32, 16]),
    ("GA", "write_through", 100, [0, 0, 32, 16, 0, 0, 24, 0, 0, 0]),
    ("GA", "write_through_selective", 72, [0, 0, 0, 0, 0, 0, 16, 0, 0, 24]),
])  # fmt: skip
def test_a_host_memory_as_small_as_the_pool_loses_what_was_used_least(model, policy, tokens, reused):
    assert reused_by_each(model, policy, 1.0, tokens) == reused


def with_copies_behind(rows):
    """Return a host, and a leaf of the device with nodes behind it that are in host memory only: a chain of two, and
    another one."""
    host = Host(rows)
    one, two, three = host.nodes()
    four = host.add(two, (11,))
    for node in (four, two, three):
        assert host.back_up(node)
        host.tree.demote(node, "demoted")
    host.tree.check()
    return host, one, [two, three, four]


def test_a_leaf_without_room_in_host_memory_is_removed_with_the_copies_behind_it(rows):
    host, one, behind = with_copies_behind(rows)
    free = host.controller.mem_pool_host[FULL].available_size()
    assert host.controller.drop_subtree_no_host(one, "R") == [4, 0, 0]
    assert host.nodes() == [] and host.controller.mem_pool_host[FULL].available_size() == free + 7
    assert {lost.node for lost in host.tree.changes.lost} == {one, *behind}
    assert {lost.rule for lost in host.tree.changes.lost} == {"R"}
    host.tree.check()


@pytest.mark.parametrize("use", [
    lambda host, node: host.tree.loading.update({node: node}),
    lambda host, node: setattr(node, "write_through_pending", True),
    lambda host, node: node.lock_ref.__setitem__(FULL, 1), lambda host, node: node.host_lock_ref.__setitem__(FULL, 1),
], ids=["loading", "writing", "locked", "locked copy"])  # fmt: skip
@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_leaf_stays_if_a_copy_behind_it_is_in_use(rows, number, use):
    host, one, behind = with_copies_behind(rows)
    use(host, behind[number])
    assert host.controller.drop_subtree_no_host(one, "R") is None
    assert set(host.nodes()) == {one, *behind} and host.tree.changes.lost == []


def evicting(rows, policy):
    """Return a host whose cache evicts leaves to it."""
    host = Host(rows, policy)
    host.cache.cache_controller = host.controller
    return host


@pytest.mark.parametrize(("policy", "stays"), [(BACK, True), (THROUGH, False)])
def test_a_leaf_without_a_copy_is_copied_or_deleted_when_it_leaves_the_device(rows, policy, stays):
    host = evicting(rows, policy)
    one, two, three = host.nodes()
    assert host.cache.evict(EvictParams(3)) == [3, 0, 0]
    assert (two in host.nodes(), two.backuped, two.evicted) == (stays, stays, True)
    assert not three.evicted and not one.evicted
    host.tree.check()


@pytest.mark.parametrize("policy", [BACK, THROUGH])
def test_a_leaf_with_a_copy_is_demoted(rows, policy):
    host = evicting(rows, policy)
    one, two, three = host.nodes()
    host.back_up(one, two)
    assert host.cache.evict(EvictParams(2)) == [3, 0, 0]
    assert (two in host.nodes(), two.backuped, two.evicted, three.evicted) == (True, True, True, False)
    host.tree.check()


@pytest.mark.parametrize(("free", "n", "made"), [(9, 4, []), (3, 4, None), (4, 4, [])])
def test_a_load_takes_slots_or_gives_those_of_its_earlier_parts_back(rows, free, n, made):
    """Rows of full attention get room from the caller; of other parts the controller asks for it."""
    host = Host(rows, BACK)
    one = host.nodes()[0]
    host.back_up(one)
    component = host.tree.full
    while component.available_size() > free:
        take(host.pools, 1)
    asked = []
    part = PoolTransfer(FULL, [one])
    found = host.controller.load([part], lambda *room: asked.append(room))
    assert asked == [] and (found is None) is (made is None)
    assert component.available_size() == (free if made is None else free - n)


def demoted(rows, policy=BACK):
    """Return a host whose nodes have copies, the last of which is in host memory only."""
    host = Host(rows, policy)
    assert host.back_up(*host.nodes())
    host.tree.demote(host.nodes()[2], "demoted")
    return host


def test_a_node_that_left_the_device_has_not_two_copies_any_longer(rows):
    """The list of nodes with two copies may still have it: full host memory, which needs a slot, forgets it."""
    host = demoted(rows)
    one, two, three = host.nodes()
    assert list(host.tree.full_host_duplicates) == [one, two, three]
    assert host.controller.evict_host(1, FULL) == 4 and host.controller.evict_host(1, FULL) == 3
    assert list(host.tree.full_host_duplicates) == [] and three.backuped


@pytest.mark.parametrize("use", [
    lambda host, node: host.tree.loading.update({node: node}), lambda host, node: setattr(node, "write_through_pending",
                                                                                          True),
    lambda host, node: node.host_lock_ref.__setitem__(FULL, 1),
], ids=["loading", "writing", "locked copy"])  # fmt: skip
def test_a_second_copy_that_is_in_use_is_not_dropped(rows, use):
    host = Host(rows, BACK)
    one, two, three = host.nodes()
    assert host.back_up(one, two, three)
    use(host, one)
    assert host.controller.evict_host(1, FULL) == 3 and (one.backuped, two.backuped, three.backuped) == (
        True, False, True)


def test_a_leaf_that_leaves_host_memory_is_logged_with_its_rule(rows):
    host = demoted(rows, THROUGH)
    three = host.nodes()[2]
    host.tree.changes.clear()
    assert host.controller.evict_host(1, FULL) == 3
    assert [event.rule for event in host.tree.changes.events if isinstance(event, Decided)] == ["test"]
    assert three not in host.nodes()


class States:
    """A tree with states: a chain of three nodes of four tokens each. Host memory has room for three of them, and for
    as many ``states``."""

    def __init__(self, states=3):
        self.cache, self.pools = make_cache("GA", states=6, **NO_BUFFER)
        tree = self.tree = self.cache.tree_core
        self.allocator = self.pools.req_to_token_pool.mamba_allocator
        self.host = {FULL: HostKVCache(12, 1, self.pools.token_to_kv_pool.kv_buffer, [1]),
                     MAMBA: MambaPoolHost(states, self.pools.req_to_token_pool.mamba_pool)}
        self.controller = HiCacheController(self.cache.context, tree, self.host)
        for n in (4, 8, 12):
            insert(self.cache, self.pools, tuple(range(100, 100 + n)))
        self.nodes = list(tree.nodes())

    def room(self):
        """Return the free slots of both parts in host memory."""
        return self.host[FULL].available_size(), self.host[MAMBA].available_size()


def test_a_node_is_copied_with_its_state(rows):
    states = States()
    assert states.controller.write_backup(states.nodes[0]) is True
    assert states.room() == (8, 2) and states.nodes[0].write_through_pending
    assert states.nodes[0].host_value[FULL] is not None and states.nodes[0].host_value[MAMBA] is not None


def test_a_copy_without_room_for_its_state_gives_its_slots_back():
    states = States(states=1)
    one, two, _ = states.nodes
    assert states.controller.write_backup(one) is True
    states.tree.inc_host_lock_ref(one)
    assert states.controller.write_backup(two) is False
    assert states.room() == (8, 0) and not two.backuped and not two.write_through_pending
    assert two not in states.tree.write_through_nodes


def test_a_state_in_host_memory_leaves_it_for_a_newer_one():
    states = States(states=1)
    one, two, _ = states.nodes
    assert states.controller.write_backup(one)
    states.tree.evict_component(one, MAMBA, "R")
    assert states.controller.write_backup(two)
    assert (one.host_value[MAMBA], two.host_value[MAMBA], states.room()) == (None, 1, (4, 0))
    assert one.backuped


def test_evicted_copies_of_states_without_another_one_are_counted():
    states = States()
    assert all([states.controller.write_backup(node) for node in states.nodes])
    for node in states.nodes[:2]:
        states.tree.evict_component(node, MAMBA, "R")
    assert states.controller.evict_host(2, MAMBA) == 2 and states.room() == (0, 2)
    assert [node.host_value[MAMBA] is None for node in states.nodes] == [True, True, False]


def loading(states, free):
    """Let so many states of the device be free, and return the parts of a load: the state of a request, four tokens,
    and a state."""
    while states.allocator.available_size() > free:
        states.allocator.alloc()
    one = states.nodes[0]
    return [PoolTransfer(MAMBA, [one], 77, is_of_request=True), PoolTransfer(FULL, [one]), PoolTransfer(MAMBA, [one])]


def test_a_load_takes_slots_of_each_part_except_for_the_request():
    states = States()
    parts = loading(states, free=1)
    full = states.tree.full.available_size()
    found = states.controller.load(parts, None)
    assert [part.component_type for part in found] == [MAMBA, FULL, MAMBA]
    assert (found[0], found[2].value, len(found[1].value)) == (parts[0], 4 + 2, 4)
    assert (states.tree.full.available_size(), states.allocator.available_size()) == (full - 4, 0)


def test_a_load_makes_room_for_a_state():
    states = States()
    asked = []
    found = states.controller.load(loading(states, free=0),
                                   lambda part, n: asked.append((part, n)) or states.allocator.free(5))
    assert asked == [(MAMBA, 1)] and found[2].value == 5


def test_a_load_without_room_for_a_state_gives_its_slots_back():
    states = States()
    parts = loading(states, free=0)
    full = states.tree.full.available_size()
    assert states.controller.load(parts, lambda part, n: None) is None
    assert states.tree.full.available_size() == full


def test_a_load_without_room_for_a_further_part_gives_states_back():
    states = States()
    parts = loading(states, free=1)
    states.pools.token_to_kv_pool_allocator.alloc_extend(-1, 0, states.tree.full.available_size() - 3)
    assert states.controller.load([parts[2], parts[0], parts[1]], lambda part, n: None) is None
    assert states.allocator.available_size() == 1 and 77 not in states.allocator.free_slots


@pytest.mark.parametrize(("n", "freed", "left"), [(1, 3, [1, 3]), (3, 3, [1, 3]), (4, 6, [1]), (6, 6, [1]),
                                                  (7, 10, [])])  # fmt: skip
def test_as_many_leaves_leave_host_memory_as_are_needed(rows, n, freed, left):
    """The nodes 2 and 3 have three tokens each, node 1 before them has four."""
    host = Host(rows)
    one, two, three = host.nodes()
    host.back_up(one, two, three)
    for node in (two, three, one):
        host.tree.demote(node, "demoted")
    assert host.controller.evict_host(n, FULL) == freed
    assert [node.id for node in host.nodes()] == left
    host.tree.check()


@pytest.mark.parametrize(("n", "freed", "backed"), [
    (1, 4, [False, True, True]), (4, 4, [False, True, True]), (5, 7, [False, False, True]),
    (7, 7, [False, False, True]), (8, 10, [False, False, False]),
])  # fmt: skip
def test_as_many_second_copies_are_dropped_as_are_needed(rows, n, freed, backed):
    host = Host(rows, BACK)
    nodes = host.nodes()
    host.back_up(*nodes)
    assert host.controller.evict_host(n, FULL) == freed
    assert [node.backuped for node in nodes] == backed
    assert [*host.tree.full_host_duplicates] == [node for node in nodes if node.backuped]
    host.tree.check()


@pytest.mark.parametrize(("loads", "pinned"), [
    ({}, False), ({1: 3}, True), ({2: 3}, True), ({1: 3, 2: 3}, True), ({1: 2, 2: 2}, False), ({1: 2}, False),
    ({3: 3}, False),
])  # fmt: skip
def test_a_copy_that_a_load_up_to_another_node_needs_is_pinned(rows, loads, pinned):
    """``loads``: node -> last node of its load. A load up to node 2 needs the copies of nodes 1 and 2."""
    host = Host(rows, BACK)
    by_id = host.tree.nodes_by_id
    host.tree.loading.update({by_id[node]: by_id[last] for node, last in loads.items()})
    parts = [PoolTransfer(FULL, [by_id[1]]), PoolTransfer(MAMBA, [by_id[2]])]
    assert host.controller.is_pinned(by_id[2], parts) is pinned
    assert host.controller.is_pinned(by_id[2], [PoolTransfer(FULL, [by_id[1], by_id[2]])]) is pinned
