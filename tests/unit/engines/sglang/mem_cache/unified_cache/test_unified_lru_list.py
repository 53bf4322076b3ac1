"""Order of a recency list, and its unlocked members."""

from cachesim.engines.sglang.mem_cache.unified_cache.unified_lru_list import Recency


class Member:
    def __init__(self, name=""):
        self.name, self.newer, self.older, self.lock = name, [None], [None], [0]


def names(recent):
    at, out = recent.unlocked(), ""
    while at is not None:
        out, at = out + at.name, recent.unlocked(at)
    return out


def test_the_least_recent_unlocked_member_is_first():
    recent, (a, b, c) = Recency(0, Member), map(Member, "abc")
    for member in (a, b):
        recent.add(member)
    recent.add(c, b)
    assert names(recent) == "acb" and c in recent
    recent.refresh(a)
    c.lock[0] = 1
    assert names(recent) == "ba"
    recent.remove(b)
    assert names(recent) == "a" and b not in recent
