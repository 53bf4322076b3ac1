"""Order of a recency list, and its unlocked members."""

import pytest

from cachesim.base.errors import Crash
from cachesim.engines.sglang.mem_cache.unified_cache.unified_lru_list import UnifiedLRUList


class Member:
    def __init__(self, name=""):
        self.name = name
        self.lru_prev = [None]
        self.lru_next = [None]
        self.lock_ref = [0]


def names(recent):
    return "".join(member.name for member in recent.in_order())


def test_the_least_recent_unlocked_member_is_first():
    recent = UnifiedLRUList(0, Member)
    a, b, c = map(Member, "abc")
    for member in (a, b):
        recent.insert_mru(member)
    recent.insert_after(b, c)
    assert names(recent) == "acb" and c in recent
    recent.reset_node_mru(a)
    c.lock_ref[0] = 1
    assert names(recent) == "ba"
    assert recent.get_lru_no_lock() is b and recent.get_prev_no_lock(a) is None
    recent.remove_node(b)
    assert names(recent) == "a" and b not in recent


def test_the_order_begins_again_if_the_next_member_was_removed():
    recent = UnifiedLRUList(0, Member)
    a, b, c = map(Member, "abc")
    for member in (a, b, c):
        recent.insert_mru(member)
    seen = ""
    for member in recent.in_order():
        seen += member.name
        recent.remove_node(member)
        if member is a:
            recent.remove_node(b)
    assert seen == "ac"


@pytest.mark.parametrize("end", ["lru_next", "lru_prev"])
def test_a_list_whose_neighbours_are_not_linked_both_ways_is_broken(end):
    made, members = UnifiedLRUList(0, Member), [Member(name) for name in "abc"]
    for member in members:
        made.insert_mru(member)
    assert [member.name for member in made.members()] == ["c", "b", "a"]
    getattr(members[1], end)[0] = None
    with pytest.raises(Crash, match="list 0 is broken behind a member"):
        list(made.members())
