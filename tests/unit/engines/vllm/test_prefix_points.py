"""A prefix is a restore point while every group of layers has what the next token reads."""

from __future__ import annotations

import pytest

from cachesim.engines.vllm.prefix_points import (
    ALL,
    CHUNK,
    STATE,
    WINDOW,
    GroupPieces,
    Prefix,
    PrefixPoints,
    UnitChain,
)
from cachesim.events import Gained, Log, Lost

TEXT = tuple(range(100, 124))


def points(*groups, align=4):
    return PrefixPoints(Log(), groups, align)


def gain(known, group, end, unit=4):
    known.gained(group, UnitChain(range(end // unit), unit, TEXT, None), end // unit)


def lengths(known):
    return sorted(known.prefix(key).end for key in known.kept())


def test_rows_need_every_block_before_them():
    known = points(GroupPieces(ALL, 4))
    gain(known, 0, 8)
    assert lengths(known) == []
    gain(known, 0, 4)
    assert lengths(known) == [4, 8]
    known.gone(0, 0, "evicted", "R")
    assert lengths(known) == []
    assert [event.rule for event in known.log.events if isinstance(event, Lost)] == ["R", "R"]


def test_the_lengths_of_all_usable_prefixes_are_counted():
    known = points(GroupPieces(ALL, 4))
    for text in (TEXT, TEXT[::-1]):
        chain = UnitChain([text[0] * 10 + place for place in range(3)], 4, text, None)
        for n in (1, 2):
            known.gained(0, chain, n)
    assert known.lengths.in_order() == [4, 4, 8, 8]
    known.gone(0, 1231, "evicted", "R")
    assert known.lengths.in_order() == [4, 4, 8]
    known.gone(0, 1000, "evicted", "R")
    assert known.lengths.in_order() == [4]


def test_a_longer_prefix_holds_only_its_own_tokens():
    known = points(GroupPieces(ALL, 4))
    gain(known, 0, 4)
    gain(known, 0, 8)
    point = [event.point for event in known.log.events if isinstance(event, Gained)][-1]
    assert (point.tokens, point.start, point.after) == (TEXT[4:8], 4, ("block", -1, 0))


@pytest.mark.parametrize("pieces, ends", [
    (GroupPieces(WINDOW, 4, 6), [8, 12]), (GroupPieces(WINDOW, 4, 5), [12]), (GroupPieces(CHUNK, 4, 8), [12]),
    (GroupPieces(STATE, 4), [12]),
], ids=["window of two blocks", "window of one", "chunk", "state"])  # fmt: skip
def test_other_groups_need_what_the_next_token_reads(pieces, ends):
    known = points(GroupPieces(ALL, 4), pieces)
    for end in (4, 8, 12):
        gain(known, 0, end)
    for end in ends:
        assert 12 not in lengths(known)
        gain(known, 1, end)
    assert 12 in lengths(known)
    known.gone(1, 2, "evicted", "R")
    assert 12 not in lengths(known)


def test_a_part_of_a_block_counts_where_hits_end_inside_it():
    known = points(GroupPieces(ALL, 8), GroupPieces(STATE, 8))
    gain(known, 1, 4)
    gain(known, 0, 8)
    assert lengths(known) == [4], "the whole block holds its first half, too"


def test_of_two_blocks_with_a_key_the_last_one_counts():
    known = points(GroupPieces(ALL, 4))
    gain(known, 0, 4)
    gain(known, 0, 4)
    known.gone(0, 0, "evicted", "R")
    assert lengths(known) == [4]
    known.gone(0, 0, "evicted", "R")
    assert lengths(known) == [] and not known.known


@pytest.mark.parametrize("groups", [(GroupPieces(WINDOW, 4, 16),), (GroupPieces(STATE, 8), GroupPieces(WINDOW, 4, 16))])
def test_a_piece_counts_for_prefixes_that_end_a_window_later(groups):
    """The first piece of a window of four blocks is the last one to be computed."""
    known = points(*groups)
    at = len(groups) - 1
    if at:
        gain(known, 0, 16)
    for end in (16, 12, 8):
        gain(known, at, end)
    assert lengths(known) == []
    gain(known, at, 4)
    assert 16 in lengths(known)


def test_a_window_is_whole_again_when_its_missing_block_returns():
    known = points(GroupPieces(WINDOW, 4, 9))
    for end in (4, 12, 16, 20):
        gain(known, 0, end)
    assert lengths(known) == [4, 16, 20], "a window of 9 tokens reads the 8 tokens before"
    gain(known, 0, 8)
    assert lengths(known) == [4, 8, 12, 16, 20]
    known.gone(0, 2, "evicted", "R")
    assert lengths(known) == [4, 8, 20]


def test_a_chunk_is_read_from_its_beginning():
    known = points(GroupPieces(ALL, 4), GroupPieces(CHUNK, 4, 12))
    for end in (4, 8, 12, 16, 20):
        gain(known, 0, end)
    assert lengths(known) == [12], "nothing of a chunk is read at its beginning"
    gain(known, 1, 20)
    assert lengths(known) == [12]
    gain(known, 1, 16)
    assert lengths(known) == [12, 16, 20]


def test_every_branch_behind_a_window_follows_its_block():
    known = points(GroupPieces(WINDOW, 4, 9))
    for name in (1, 2, 3):
        known.gained(0, UnitChain([0, name], 4, TEXT[:4] + (name,) * 4, None), 2)
    assert lengths(known) == []
    gain(known, 0, 4)
    assert lengths(known) == [4, 8, 8, 8]
    known.gone(0, 2, "evicted", "R")
    assert sorted(key[2] for key in known.kept()) == [0, 1, 3]
    known.gone(0, 0, "evicted", "R")
    assert lengths(known) == []
    assert sorted(known.known) == [0, 1, 3]


def test_each_copy_of_a_piece_counts_and_what_is_not_known_does_not():
    known = points(GroupPieces(ALL, 4))
    for _ in range(3):
        gain(known, 0, 4)
    gain(known, 0, 8)
    for left, copies in (([4, 8], {(0, 0): 1}), ([4, 8], {}), ([], {})):
        known.gone(0, 0, "evicted", "R")
        assert (lengths(known), known.copies) == (left, copies)
    told = len(known.log.events)
    known.gone(0, 0, "evicted", "R")
    known.gone(0, 99, "evicted", "R")
    assert len(known.log.events) == told and not known.copies


def test_a_part_of_a_later_block_needs_the_blocks_before_it():
    """Hits end at multiples of four tokens, inside blocks of eight tokens."""
    known = points(GroupPieces(ALL, 8), GroupPieces(STATE, 8))
    for end in (4, 12):
        gain(known, 1, end)
    gain(known, 0, 16)
    assert lengths(known) == []
    gain(known, 0, 8)
    assert lengths(known) == [4, 12]
    known.gone(0, 3, "evicted", "R")
    assert lengths(known) == [4]
    gain(known, 0, 12)
    assert lengths(known) == [4, 12], "a block may hold the first half only"


def test_a_window_has_no_part_of_a_block():
    known = points(GroupPieces(ALL, 4), GroupPieces(WINDOW, 8, 6))
    for end in (4, 8, 12):
        gain(known, 0, end)
    assert lengths(known) == []
    gain(known, 1, 8)
    assert lengths(known) == [8]


def test_a_restore_point_begins_after_the_longest_one_before_it():
    known = points(GroupPieces(ALL, 4), GroupPieces(STATE, 4))
    for end in (4, 8, 12):
        gain(known, 0, end)
    gain(known, 1, 12)
    gain(known, 1, 4)
    gain(known, 1, 8)
    found = [event.point for event in known.log.events if isinstance(event, Gained)]
    assert [(point.n, point.start, point.tokens, point.after, point.lo, point.hi) for point in found] == [
        (12, 0, TEXT[:12], None, 12, 12), (4, 0, TEXT[:4], None, 4, 4), (8, 4, TEXT[4:8], ("block", -1, 0), 8, 8)]


def below(prefix, tokens=4):
    return [longer.number for longer in prefix.below(tokens)]


@pytest.mark.parametrize(("gone", "left"), [
    ((1,), [3, 2]), ((2,), [3, 1]), ((3,), [2, 1]), ((2, 1), [3]), ((2, 3), [1]), ((3, 2), [1]), ((1, 2), [3]),
    ((2, 1, 3), []),
])  # fmt: skip
def test_a_prefix_that_leaves_joins_its_neighbours(gone, left):
    root = Prefix(0, 4, TEXT[:4], None, None)
    longer = {number: Prefix(number, 8, TEXT[4:8], root, None) for number in (1, 2, 3)}
    for one in longer.values():
        one.link()
    for number in gone:
        longer[number].unlink()
    assert below(root) == left
    again = Prefix(9, 8, TEXT[4:8], root, None)
    again.link()
    assert below(root) == [9, *left]


def test_longer_prefixes_are_those_within_so_many_tokens():
    nodes = [Prefix(0, 4, TEXT[:4], None, None)]
    for number in range(1, 4):
        nodes.append(Prefix(number, 4 * number + 4, TEXT[:4], nodes[-1], None))
        nodes[-1].link()
    assert [below(nodes[0], tokens) for tokens in (3, 4, 8, 11, 12, 99)] == [[], [1], [1, 2], [1, 2], [1, 2, 3],
                                                                                [1, 2, 3]]
    assert [nodes[3].back(tokens) for tokens in (0, 1, 4, 5, 12, 13, 16)] == [
        nodes[3], nodes[2], nodes[2], nodes[1], nodes[0], None, None]


def test_prefixes_of_which_nothing_is_kept_are_forgotten_from_the_end():
    known = points(GroupPieces(ALL, 4))
    for end in (4, 8, 12):
        gain(known, 0, end)
    known.gone(0, 1, "evicted", "R")
    known.gone(0, 0, "evicted", "R")
    assert sorted(known.known) == [0, 1, 2], "a longer prefix has a piece"
    known.gone(0, 2, "evicted", "R")
    assert known.known == {}


@pytest.mark.parametrize("pieces", [GroupPieces(ALL, 4), GroupPieces(WINDOW, 4, 9), GroupPieces(CHUNK, 4, 16)])
@pytest.mark.parametrize("without", [1, 2, 3])
def test_a_branch_without_a_piece_does_not_hide_the_others(pieces, without):
    """One of three branches has a state but no rows."""
    known = points(GroupPieces(STATE, 4), pieces)
    for name in (1, 2, 3):
        for group in (0,) if name == without else (0, 1):
            known.gained(group, UnitChain([0, name], 4, TEXT[:8], None), 2)
    assert lengths(known) == []
    gain(known, 1, 4)
    assert sorted(key[2] for key in known.kept()) == sorted({1, 2, 3} - {without})


def test_the_reach_of_a_window_is_kept_for_prefixes_that_have_a_piece():
    known = points(GroupPieces(WINDOW, 4, 9))
    for end in (4, 8, 12):
        gain(known, 0, end)
    assert known.reach == [{0: 4, 1: 8, 2: 12}]
    known.gone(0, 1, "evicted", "R")
    assert known.reach == [{0: 4, 2: 4}]
    known.gone(0, 2, "evicted", "R")
    known.gone(0, 0, "evicted", "R")
    assert (known.reach, known.known) == ([{}], {})
