"""Usability of blocks depending on the blocks of the chain's prefixes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cachesim.engines.inspection import RestorePoint
from cachesim.events import Gained, Log, Lost
from tests.fourth.point_tracker import BlockPoints, Chain
from tests.unit.engines.restore_points import Reported

SIZE = 2


def chain(name):
    """The chain of a path "a", "ab", "abc": a letter stands for two tokens."""
    letter = 10 * "abcdefgh".index(name[-1])
    return Chain(name, name[:-1] or None, (letter, letter + 1), SIZE * len(name))


def tokens(name):
    return tuple(token for n in range(1, len(name) + 1) for token in chain(name[:n]).tokens)


def block(number):
    return "block", number, 0


def state(number):
    return "state", number, 0


class Blocks(BlockPoints):
    """Blocks of a model with rows, states, or both; each call returns the events that it adds to the log."""

    def __init__(self, rows=True, states=False):
        super().__init__(Log(), rows, states)
        self.told = self.log.listener = Reported()

    def put(self, number, name):
        return self._since(lambda: self.rows(block(number), chain(name)))

    def keep(self, number, name):
        return self._since(lambda: self.state(state(number), chain(name), tokens(name)))

    def lose(self, key):
        return self._since(lambda: self.lost(key, "evicted", "RULE"))

    def _since(self, act):
        before = len(self.log.events)
        act()
        return self.log.events[before:]


def gained(key, n, own, after, usable):
    start = n - len(own)
    return Gained(None, RestorePoint(key, n, own, start, after, *((n, n) if usable else (1, 0))), "stored", "")


def useless(key, n):
    return Gained(None, RestorePoint(key, n, (), n, key, 1, 0), "evicted", "RULE")


def gone(key):
    return Lost(None, key, "evicted", "RULE")


def test_a_block_goes_on_from_the_one_before_it():
    blocks = Blocks()
    assert blocks.put(7, "a") == [gained(block(7), 2, (0, 1), None, True)]
    assert blocks.put(3, "ab") == [gained(block(3), 4, (10, 11), block(7), True)]
    assert blocks.put(5, "ac") == [gained(block(5), 4, (20, 21), block(7), True)]
    assert blocks.told.tokens[block(5)] == (0, 1, 20, 21)


def test_a_second_block_of_a_chain_is_of_use_as_well():
    blocks = Blocks()
    blocks.put(1, "a")
    blocks.put(2, "ab")
    assert blocks.put(3, "a") == [gained(block(3), 2, (0, 1), None, True)]
    assert blocks.put(4, "ab") == [gained(block(4), 4, (10, 11), block(1), True)]
    assert blocks.lose(block(1)) == [gone(block(1))], "there is another one"
    assert blocks.put(5, "abc") == [gained(block(5), 6, (20, 21), block(2), True)]


def test_without_its_beginning_a_chain_is_of_no_use_until_that_comes_back():
    blocks = Blocks()
    for number, name in enumerate(("a", "ab", "abc", "ad"), 1):
        blocks.put(number, name)
    assert blocks.lose(block(2)) == [gone(block(2)), useless(block(3), 6)]
    assert blocks.lose(block(1)) == [gone(block(1)), useless(block(4), 4)], "what is of no use is not told again"
    assert blocks.put(5, "a") == [
        gained(block(5), 2, (0, 1), None, True), gained(block(4), 4, (30, 31), block(5), True),
    ], "abc lacks ab still"  # fmt: skip
    assert blocks.put(6, "ab") == [
        gained(block(6), 4, (10, 11), block(5), True), gained(block(3), 6, (20, 21), block(6), True),
    ]  # fmt: skip
    assert blocks.told.tokens[block(3)] == tokens("abc")


def test_a_block_that_comes_behind_a_beginning_that_is_of_no_use_is_of_none():
    blocks = Blocks()
    for number, name in enumerate(("a", "ab"), 1):
        blocks.put(number, name)
    blocks.lose(block(1))
    assert blocks.put(3, "abc") == [gained(block(3), 6, (20, 21), block(2), False)]
    assert blocks.put(4, "abc") == [gained(block(4), 6, (20, 21), block(2), False)]
    assert blocks.lose(block(3)) == [gone(block(3))] and blocks.lose(block(4)) == [gone(block(4))]


def test_where_there_are_states_only_these_are_of_use():
    blocks = Blocks(states=True)
    assert blocks.put(1, "a") == [gained(block(1), 2, (0, 1), None, False)]
    assert blocks.put(2, "ab") == [gained(block(2), 4, (10, 11), block(1), False)]
    assert blocks.keep(3, "ab") == [gained(state(3), 4, (), block(2), True)]
    assert blocks.told.tokens[state(3)] == tokens("ab")
    assert blocks.lose(state(3)) == [gone(state(3))]


def test_a_state_needs_the_rows_of_its_chain():
    blocks = Blocks(states=True)
    for number, name in enumerate(("a", "ab"), 1):
        blocks.put(number, name)
    blocks.keep(3, "ab")
    blocks.keep(4, "a")
    assert blocks.lose(block(1)) == [gone(block(1)), useless(state(4), 2), useless(state(3), 4)]
    assert blocks.keep(5, "ab") == [gained(state(5), 4, (), block(2), False)]
    assert blocks.put(6, "a") == [
        gained(block(6), 2, (0, 1), None, False), gained(state(4), 2, (), block(6), True),
        gained(block(2), 4, (10, 11), block(6), False),
        gained(state(3), 4, (), block(2), True), gained(state(5), 4, (), block(2), True),
    ]  # fmt: skip
    assert blocks.lose(block(2)) == [gone(block(2)), useless(state(3), 4), useless(state(5), 4)]


def test_a_useless_state_is_not_reported_again():
    blocks = Blocks(states=True)
    for number, name in enumerate(("a", "ab"), 1):
        blocks.put(number, name)
    blocks.keep(3, "ab")
    assert blocks.lose(block(1)) == [gone(block(1)), useless(state(3), 4)]
    assert blocks.lose(block(2)) == [gone(block(2))]


def test_a_state_of_a_model_without_rows_needs_nothing_else():
    blocks = Blocks(rows=False, states=True)
    assert blocks.keep(1, "abc") == [gained(state(1), 6, tokens("abc"), None, True)]
    assert blocks.keep(2, "a") == [gained(state(2), 2, tokens("a"), None, True)]
    assert blocks.lose(state(2)) == [gone(state(2))]
    assert blocks.lose(state(1)) == [gone(state(1))]
    assert blocks.nodes == blocks.keys == {}


def test_a_block_that_was_never_reported_is_not_lost():
    blocks = Blocks()
    blocks.put(1, "a")
    assert blocks.lose(block(2)) == []
    blocks.lose(block(1))
    assert blocks.lose(block(1)) == []


def test_of_chains_that_are_gone_nothing_stays():
    """If the last remaining block is in the middle of a chain, all empty nodes are removed with it."""
    blocks = Blocks()
    for number, name in enumerate(("a", "ab", "abc", "ad"), 1):
        blocks.put(number, name)
    for number in (2, 1):
        blocks.lose(block(number))
    assert blocks.nodes.keys() == {"a", "ab", "abc", "ad"}
    blocks.lose(block(3))
    assert blocks.nodes.keys() == {"a", "ad"}
    blocks.lose(block(4))
    assert blocks.nodes == blocks.keys == {}


NAMES = ("a", "ab", "abc", "abd", "ae", "b", "bc")
PICKS = st.lists(st.tuples(st.integers(0, 9), st.sampled_from(NAMES)), max_size=40)


@given(st.booleans(), st.booleans(), PICKS)
def test_a_block_is_of_use_if_there_is_one_for_every_beginning(rows, states, picks):
    """Blocks come with those of their beginnings, as a request has them, and go in any order."""
    if not (rows or states):
        return
    blocks, there, number = Blocks(rows, states), {}, 0
    for which, name in picks:
        if which < 4 and there:
            key = sorted(there)[which * len(there) // 4]
            blocks.lose(key)
            del there[key]
        else:
            for n in range(1, len(name) + 1) if rows else ():
                if ("block", name[:n]) not in {(key[0], one) for key, one in there.items()} or which == 4:
                    number += 1
                    there[block(number)] = name[:n]
                    blocks.put(number, name[:n])
            if states and which > 6:
                number += 1
                there[state(number)] = name
                blocks.keep(number, name)
        held = {one for key, one in there.items() if key[0] == "block"}
        for key, one in there.items():
            whole = not rows or all(one[:n] in held for n in range(1, len(one) + 1))
            usable = whole and states == (key[0] == "state")
            assert blocks.told.lengths(key) == ([SIZE * len(one)] if usable else [])
            assert blocks.told.tokens[key] == tokens(one)
        assert blocks.told.points.keys() == blocks.keys.keys() == there.keys()


def test_states_may_be_reported_before_those_of_their_beginnings():
    points = BlockPoints(Log(), rows=False, states=True)
    points.state(("state", 2, 0), Chain("b", "a", (5, 6, 7, 8), 8), (1, 2, 3, 4, 5, 6, 7, 8))
    points.state(("state", 1, 0), Chain("a", None, (1, 2, 3, 4), 4), (1, 2, 3, 4))
    points.lost(("state", 2, 0), "evicted", "")
    points.lost(("state", 1, 0), "evicted", "")
    assert not points.nodes and not points.keys
