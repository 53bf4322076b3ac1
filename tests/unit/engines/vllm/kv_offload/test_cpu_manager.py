"""Chunks in CPU memory: what is stored, evicted and found. `make peers-vllm` compares drawn operations with vLLM."""

from __future__ import annotations

from contextlib import nullcontext

import pytest

from cachesim.base.errors import Crash
from cachesim.engines.vllm.kv_offload.cpu_manager import (
    HIT,
    MISS,
    PENDING,
    POLICIES,
    ARCCachePolicy,
    CPUOffloadingManager,
    IdleLRUCachePolicy,
    RequestCacheAccess,
)
from cachesim.engines.vllm.rules.offload import (
    BY_IDLENESS,
    BY_REQUEST,
    BY_STORE,
    keep_offered,
    keep_often_offered,
)

PROMPT = [(at, 0) for at in range(4)]
OTHER = [(at, 0) for at in range(8, 12)]


def store(offload, keys, access):
    """Store the missing chunks; return them with their places and the evicted ones, None = they have no room."""
    missing = offload.offer(keys, access)
    free, idle = offload.get_room(keys)
    if len(missing) > free + len(idle):
        return None
    gone = offload.prepare_store(missing, idle, access)
    return missing, [offload.places[key] for key in missing], gone


def stored(offload, keys, access=None):
    """Store chunks for a request with known positions, which then ends."""
    access = access or RequestCacheAccess({key: at for at, key in enumerate(keys, 1)})
    made = store(offload, keys, access)
    offload.complete_store(made[0], success=True)
    offload.on_request_finished(access)
    return made


def found(offload, keys):
    """Return the keys that can be loaded."""
    return [key for key in keys if offload.lookup(key) == HIT]


def test_a_chunk_is_found_once_it_is_written():
    offload = CPUOffloadingManager(4)
    assert offload.lookup(PROMPT[0]) == MISS
    assert store(offload, PROMPT[:2], RequestCacheAccess()) == (PROMPT[:2], [0, 1], [])
    assert offload.lookup(PROMPT[0]) == PENDING
    offload.complete_store(PROMPT[:1], success=True)
    offload.complete_store(PROMPT[1:2], success=False)
    assert [offload.lookup(key) for key in PROMPT[:2]] == [HIT, MISS]
    assert store(offload, PROMPT, RequestCacheAccess()) == (PROMPT[1:], [2, 3, 1], [])


def test_lru_evicts_the_end_of_the_oldest_prompt_first():
    offload = CPUOffloadingManager(4)
    stored(offload, PROMPT)
    assert stored(offload, OTHER[:2]) == (OTHER[:2], [2, 3], [PROMPT[3], PROMPT[2]])
    assert stored(offload, [(20, 0), (21, 0), (22, 0)])[2] == [PROMPT[1], PROMPT[0], OTHER[1]]


def test_a_running_request_keeps_the_rank_of_its_start():
    offload = CPUOffloadingManager(4)
    first, second = RequestCacheAccess(dict(zip(PROMPT, range(4), strict=True))), RequestCacheAccess({OTHER[0]: 1})
    store(offload, PROMPT[:2], first)
    store(offload, OTHER[:1], second)
    store(offload, PROMPT[2:3], first)
    offload.complete_store([*PROMPT[:3], *OTHER[:1]], success=True)
    assert store(offload, [(20, 0), (21, 0)], RequestCacheAccess())[2] == [PROMPT[2], PROMPT[1]]


@pytest.mark.parametrize("order, gone", [
    (BY_REQUEST, [PROMPT[2], PROMPT[1]]), (BY_STORE, [PROMPT[0], PROMPT[1]]), (BY_IDLENESS, [OTHER[0], PROMPT[2]]),
])  # fmt: skip
def test_the_order_of_running_requests_differs_by_release(order, gone):
    offload = CPUOffloadingManager(4, order=order)
    first, second = RequestCacheAccess(dict(zip(PROMPT, range(4), strict=True))), RequestCacheAccess({OTHER[0]: 1})
    store(offload, PROMPT[:2], first)
    store(offload, OTHER[:1], second)
    store(offload, PROMPT[2:3], first)
    offload.complete_store([*OTHER[:1], *PROMPT[2::-1]], success=True)
    assert store(offload, [(20, 0), (21, 0)], RequestCacheAccess())[2] == gone


def test_0_30_0_orders_idle_chunks_by_touches_and_the_ends_of_transfers():
    offload = CPUOffloadingManager(4, order=BY_IDLENESS)
    stored(offload, PROMPT)
    offload.touch(PROMPT[:2])
    assert list(offload.policy.idle) == [PROMPT[2], PROMPT[3], PROMPT[1], PROMPT[0]]
    offload.prepare_load(PROMPT[2:3], RequestCacheAccess())
    offload.touch(PROMPT[2:])
    assert list(offload.policy.idle) == [PROMPT[1], PROMPT[0], PROMPT[3]]
    offload.complete_load(PROMPT[2:3])
    assert store(offload, OTHER[:3], RequestCacheAccess())[2] == [PROMPT[1], PROMPT[0], PROMPT[3]]


def test_arc_of_0_30_0_learns_from_touches_alone():
    offload = CPUOffloadingManager(4, "arc", order=BY_IDLENESS)
    stored(offload, PROMPT)
    offload.touch(PROMPT[:1])
    assert [list(part) for part in offload.policy.lists] == [PROMPT[1:], PROMPT[:1]]
    offload.touch(PROMPT[3:])
    assert list(offload.policy.lists[1]) == [PROMPT[0], PROMPT[3]]
    offload.touch(PROMPT[:1])
    assert list(offload.policy.lists[1]) == [PROMPT[3], PROMPT[0]], "touched again"
    assert stored(offload, OTHER[:2])[2] == PROMPT[1:3]
    offload.touch([*PROMPT[1:2], *PROMPT[:1]])
    assert (offload.policy.target, list(offload.policy.ghosts[0])) == (1, [PROMPT[2], PROMPT[1]])
    store(offload, [(20, 0)], RequestCacheAccess())
    offload.touch([(20, 0)])
    assert (20, 0) in offload.policy.lists[0], "it is being written"


@pytest.mark.parametrize(("keeps", "idle"), [(keep_offered, set()), (keep_often_offered, {*PROMPT[:2]})])
def test_0_30_0_lets_chunks_below_the_threshold_leave_while_they_are_offered(keeps, idle):
    offload = CPUOffloadingManager(2, threshold=2, tracked=2, keeps=keeps)
    for _ in range(2):
        access = RequestCacheAccess()
        if made := store(offload, PROMPT[:2], access)[0]:
            offload.complete_store(made, success=True)
    offload.offers.clear()
    assert offload.get_room(PROMPT[:2]) == (0, idle)


@pytest.mark.parametrize("policy", ["lru", "arc"])
def test_chunks_in_use_and_those_offered_stay(policy):
    offload, reader = CPUOffloadingManager(4, policy), RequestCacheAccess()
    stored(offload, PROMPT)
    assert offload.prepare_load(PROMPT[:3], reader) == [0, 1, 2]
    assert store(offload, OTHER[:2], RequestCacheAccess()) is None
    assert found(offload, PROMPT) == PROMPT
    assert store(offload, [*PROMPT[3:], *OTHER[:1]], RequestCacheAccess()) is None
    offload.complete_load(PROMPT[:3])
    assert store(offload, [*PROMPT[3:], *OTHER[:1]], RequestCacheAccess())[0] == OTHER[:1]
    assert offload.lookup(PROMPT[3]) == HIT


def test_arc_keeps_what_a_second_request_reused():
    offload, second = CPUOffloadingManager(4, "arc"), RequestCacheAccess()
    stored(offload, PROMPT)
    offload.prepare_load(PROMPT[:2], second)
    offload.complete_load(PROMPT[:2])
    offload.on_request_finished(second)
    assert [list(part) for part in offload.policy.lists] == [PROMPT[3:1:-1], PROMPT[1::-1]]
    assert stored(offload, OTHER[:2])[2] == [PROMPT[3], PROMPT[2]]
    assert list(offload.policy.ghosts[0]) == [PROMPT[3], PROMPT[2]]
    stored(offload, PROMPT[2:3])
    assert offload.policy.target == 1
    assert PROMPT[2] not in offload.policy.ghosts[0]


def test_a_chunk_is_stored_once_enough_requests_offered_it():
    offload = CPUOffloadingManager(4, threshold=2, tracked=2)
    assert store(offload, PROMPT[:2], RequestCacheAccess())[0] == []
    assert store(offload, PROMPT[1:3], RequestCacheAccess())[0] == PROMPT[1:2]
    assert set(offload.offers) == {PROMPT[1], PROMPT[2]}


def test_a_reset_forgets_every_chunk():
    offload = CPUOffloadingManager(2)
    stored(offload, PROMPT[:2])
    offload.reset_cache()
    assert found(offload, PROMPT) == []
    assert store(offload, PROMPT[:2], RequestCacheAccess())[1] == [0, 1]


def test_a_chunk_is_in_use_until_its_last_load_ends():
    for order in (BY_REQUEST, BY_IDLENESS):
        offload = CPUOffloadingManager(4, order=order)
        stored(offload, PROMPT[:2])
        for _ in range(2):
            assert offload.prepare_load(PROMPT[:1], RequestCacheAccess()) == [0]
        offload.complete_load(PROMPT[:1])
        assert (offload.users, offload.get_room([])) == ({PROMPT[0]: 1, PROMPT[1]: 0}, (2, {PROMPT[1]}))
        offload.complete_load(PROMPT[:1])
        assert (offload.users[PROMPT[0]], offload.get_room(PROMPT[1:])) == (0, (2, {PROMPT[0]}))
        assert store(offload, OTHER, RequestCacheAccess())[2] in ([PROMPT[1], PROMPT[0]], PROMPT[:2])


def test_idle_chunks_make_room_in_the_order_in_which_their_loads_ended():
    offload = CPUOffloadingManager(2, order=BY_IDLENESS)
    stored(offload, PROMPT[:2])
    offload.prepare_load(PROMPT[:2], RequestCacheAccess())
    offload.complete_load([PROMPT[1], PROMPT[0]])
    assert [*offload.policy.idle] == [PROMPT[1], PROMPT[0]]
    offload.touch([PROMPT[1], PROMPT[2]])
    assert stored(offload, OTHER[:1])[1:] == ([0], [PROMPT[0]])


@pytest.mark.parametrize(("tracked", "offers"), [(3, {(8, 0): 1, (9, 0): 1, (10, 0): 1}), (9, None)])
def test_offers_are_counted_for_a_limited_number_of_keys(tracked, offers):
    offload = CPUOffloadingManager(4, threshold=2, tracked=tracked)
    assert offload.offer(PROMPT[:2], RequestCacheAccess()) == []
    assert offload.offer(PROMPT[:1], RequestCacheAccess()) == PROMPT[:1] and offload.offers[PROMPT[0]] == 2
    offload.offer(OTHER[:3], RequestCacheAccess())
    assert offload.offers == (offers or {PROMPT[1]: 1, PROMPT[0]: 2, **dict.fromkeys(OTHER[:3], 1)})
    offload.offer([(at, 0) for at in range(20, 26)], RequestCacheAccess())
    assert len(offload.offers) == tracked


def test_chunks_of_a_request_are_ordered_by_prompt_and_by_group_where_that_is_unknown():
    keys = [(5, 1), (3, 0), (4, 0), (6, 1)]
    known = {(3, 0): 8, (4, 0): 4, (5, 1): 6, (6, 1): 2}
    assert RequestCacheAccess(known, dict.fromkeys(keys)).in_order() == [(6, 1), (4, 0), (5, 1), (3, 0)]
    del known[6, 1]
    assert RequestCacheAccess(known, dict.fromkeys(keys)).in_order() == [(4, 0), (3, 0), (5, 1), (6, 1)]


@pytest.mark.parametrize(("policy", "order"), POLICIES)
def test_a_chunk_that_was_not_written_leaves_nothing(policy, order):
    """A policy that remembered it would count it among the chunks that make room."""
    offload, access = CPUOffloadingManager(2, policy, order=order), RequestCacheAccess()
    store(offload, PROMPT[:2], access)
    offload.complete_store(PROMPT[:1], success=True)
    offload.complete_store(PROMPT[1:2], success=False)
    assert (offload.places, offload.users, offload.free) == ({PROMPT[0]: 0}, {PROMPT[0]: 0}, [1])
    known = vars(offload.policy)
    kept = known.get("ranks", known.get("idle")) if policy == "lru" else known["lists"][0]
    assert [*kept] == PROMPT[:1]
    offload.complete_store(PROMPT[1:2], success=True)
    assert found(offload, PROMPT) == PROMPT[:1]


@pytest.mark.parametrize(("policy", "order"), POLICIES)
@pytest.mark.parametrize(("damage", "told"), [
    (lambda offload: None, ""), (lambda offload: offload.places.update({PROMPT[0]: 1}), "hold chunks or are free"),
    (lambda offload: offload.free.append(0), "hold chunks or are free"),
    (lambda offload: offload.users.pop(PROMPT[0]), "hold chunks or are free"),
    (lambda offload: setattr(offload, "capacity", 1), "hold chunks or are free"),
    (lambda offload: setattr(offload, "fresh", 1), "hold chunks or are free"),
    (lambda offload: offload.policy.evict(1, {*PROMPT[:1]}), "the policy knows 1 chunks, 2 of 2 are idle"),
])  # fmt: skip
def test_places_and_chunks_that_do_not_agree_are_noticed(policy, order, damage, told):
    offload = CPUOffloadingManager(3, policy, order=order)
    stored(offload, PROMPT[:2])
    damage(offload)
    with pytest.raises(Crash, match=told) if told else nullcontext():
        offload.check()


def test_chunks_are_stored_at_once_and_64000_keys_are_counted_unless_the_server_says_otherwise():
    offload = CPUOffloadingManager(2)
    assert (offload.threshold, offload.tracked, offload.capacity, offload.order) == (1, 64_000, 2, BY_REQUEST)


@pytest.mark.parametrize(("lost", "missed", "target"), [
    (("a", "bcd"), "a", 3), (("abcd", "e"), "a", 1), (("a", "bcd"), "ab", 2), (("abc", "d"), "ad", 0),
    (("abc", "d"), "d", 0), (("ab", "cd"), "abab", 4), (("a", "bcdefgh"), "a", 6), (("abcdef", "g"), "ag", 0),
    (("ab", "cde"), "a", 1.5), (("a", "bcd"), "x", 0),
])  # fmt: skip
def test_a_miss_of_a_chunk_that_a_list_lost_moves_its_wanted_size(lost, missed, target):
    """A chunk of the second list counts before one of the first if it is later in the prompt. The capacity is six."""
    policy = ARCCachePolicy(6)
    for ghosts, keys in zip(policy.ghosts, lost, strict=True):
        ghosts.update(dict.fromkeys(keys))
    policy.on_store_miss([*reversed(missed)])
    assert policy.target == target
    assert [sorted(ghosts) for ghosts in policy.ghosts] == [[*keys] for keys in lost]


def test_the_places_may_all_be_in_use():
    offload = CPUOffloadingManager(2)
    stored(offload, PROMPT[:2])
    offload.check()


def test_a_hash_is_no_number_of_a_group():
    """The position of a chunk of group 0 is unknown, whose hash is 1; chunks of group 1 stay in the order of the
    prompt."""
    access = RequestCacheAccess({(5, 1): 2, (6, 1): 1})
    access.seen_keys |= dict.fromkeys([(5, 1), (1, 0), (6, 1)])
    assert access.in_order() == [(1, 0), (6, 1), (5, 1)]


def test_a_policy_learns_once_that_a_request_misses_a_chunk():
    offload, learned = CPUOffloadingManager(8, "arc"), []
    offload.policy.on_store_miss = learned.append
    first, second = RequestCacheAccess(), RequestCacheAccess()
    for access, keys in ((first, PROMPT[:2]), (first, PROMPT[:3]), (second, PROMPT[:1])):
        offload.offer(keys, access)
    assert learned == [PROMPT[:2], PROMPT[2:3], PROMPT[:1]]
    assert first.store_miss_keys == {*PROMPT[:3]}


@pytest.mark.parametrize("threshold", [1, 2])
def test_a_request_uses_the_chunks_that_are_there_or_may_be_stored(threshold):
    """One chunk is being written, and with a threshold a first offer stores nothing."""
    offload = CPUOffloadingManager(8, threshold=threshold)
    writer, reader = RequestCacheAccess(), RequestCacheAccess()
    for _ in range(threshold):
        missing = offload.offer(PROMPT[:2], writer)
    offload.prepare_store(missing, set(), writer)
    offload.complete_store(PROMPT[:1], success=True)
    assert offload.offer(PROMPT[:3], reader) == (PROMPT[2:3] if threshold == 1 else [])
    assert [*reader.seen_keys] == ([PROMPT[0], PROMPT[2]] if threshold == 1 else [PROMPT[0]])
    assert reader.reused_keys == {PROMPT[0]}


@pytest.mark.parametrize(("target", "held", "gone", "left"), [
    (0, ("ab", "cd"), "ab", ("", "cd")), (1, ("ab", "cd"), "ab", ("", "cd")), (1.9, ("ab", "cd"), "ab", ("", "cd")),
    (2, ("ab", "cd"), "ac", ("b", "d")), (2.5, ("ab", "cd"), "ac", ("b", "d")), (3, ("ab", "cd"), "cd", ("ab", "")),
    (2, ("abc", "d"), "ab", ("c", "d")), (2, ("a", "bcd"), "bc", ("a", "d")),
])  # fmt: skip
def test_the_first_list_makes_room_while_it_is_as_large_as_wanted(target, held, gone, left):
    policy = ARCCachePolicy(6)
    policy.target = target
    for keys, names in zip(policy.lists, held, strict=True):
        keys.update(dict.fromkeys(names))
    assert policy.evict(2, {*"abcd"}) == [*gone]
    assert ["".join(keys) for keys in policy.lists] == [*left]


def test_offers_are_not_counted_if_the_first_one_is_stored():
    offload = CPUOffloadingManager(4)
    assert offload.offer(PROMPT[:2], RequestCacheAccess()) == PROMPT[:2] and offload.offers == {}


def test_chunks_in_use_may_be_unknown_to_a_policy_and_evicted_ones_are():
    """The first chunk is loaded, the last one written; a request that used an evicted one ends later."""
    for policy, order in POLICIES:
        offload = CPUOffloadingManager(4, policy, order=order)
        reader, ended = RequestCacheAccess(), RequestCacheAccess()
        stored(offload, PROMPT)
        offload.prepare_load(PROMPT[:1], reader)
        offload.prepare_load(PROMPT[1:], ended)
        offload.complete_load(PROMPT[1:])
        [gone] = store(offload, OTHER[:1], RequestCacheAccess())[2]
        offload.on_request_finished(ended)
        offload.check()
        assert gone in PROMPT[1:] and gone not in offload.policy.known() and gone not in offload.users


def test_a_running_request_gives_up_the_end_of_the_prompt_that_it_reused_first():
    offload, reader = CPUOffloadingManager(4), RequestCacheAccess({key: at for at, key in enumerate(PROMPT[:3], 1)})
    stored(offload, PROMPT)
    offload.prepare_load(PROMPT[:3], reader)
    offload.complete_load(PROMPT[:3])
    assert store(offload, OTHER[:3], RequestCacheAccess())[2] == [PROMPT[3], PROMPT[2], PROMPT[1]]


def test_a_removed_chunk_is_not_idle():
    policy = IdleLRUCachePolicy(4)
    for key in PROMPT[:2]:
        policy.mark_evictable(key)
    policy.remove(PROMPT[0])
    policy.remove(PROMPT[2])
    assert [*policy.known()] == PROMPT[1:2]


def test_of_two_requests_the_chunks_of_the_one_that_ended_last_stay():
    """It began first."""
    offload = CPUOffloadingManager(3)
    first, second = (RequestCacheAccess({key: at for at, key in enumerate(keys, 1)}) for keys in (PROMPT, OTHER))
    for keys, access in ((PROMPT[:2], first), (OTHER[:1], second)):
        offload.complete_store(store(offload, keys, access)[0], success=True)
    offload.on_request_finished(second)
    offload.on_request_finished(first)
    assert store(offload, [(20, 0), (21, 0)], RequestCacheAccess())[2] == [OTHER[0], PROMPT[1]]


def test_a_request_has_a_rank_once_it_uses_a_chunk():
    """The first chunk is being written."""
    offload, writer, reader = CPUOffloadingManager(4), RequestCacheAccess({PROMPT[0]: 1}), RequestCacheAccess()
    store(offload, PROMPT[:1], writer)
    assert offload.offer(PROMPT[:1], reader) == [] and (writer.rank, reader.rank) == (1, 0)
    offload.complete_store(PROMPT[:1], success=True)
    assert offload.offer(PROMPT[:1], reader) == [] and (writer.rank, reader.rank) == (1, 2)


def test_a_chunk_that_a_request_offers_again_keeps_the_rank_of_the_request_that_stored_it_again():
    offload, positions = CPUOffloadingManager(2), {PROMPT[0]: 1, PROMPT[1]: 2}
    first, second = RequestCacheAccess(positions), RequestCacheAccess(positions)
    for keys, idle, access in ((PROMPT[:1], set(), first), (PROMPT[1:2], set(), second),
                               (OTHER[:1], {PROMPT[1]}, RequestCacheAccess()), (PROMPT[1:2], {OTHER[0]}, first)):
        offload.offer(keys, access)
        offload.prepare_store(keys, idle, access)
        offload.complete_store(keys, success=True)
    assert offload.offer(PROMPT[1:2], second) == []
    assert (first.rank, second.rank, offload.policy.ranks[PROMPT[1]]) == (1, 2, (1, -2))
