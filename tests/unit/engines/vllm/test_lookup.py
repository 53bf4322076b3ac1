"""Rules of the lookup at the boundaries of their arguments: every value is written out."""

from __future__ import annotations

import pytest

from cachesim.engines.vllm.rules import lookup
from cachesim.engines.vllm.rules.lookup import CacheHit, GroupMatch, GroupQuery, PromptQuery, SpecGroup

F, T = False, True
ASK = GroupQuery(
    block_hashes=range(10),
    hash_block_size=4,
    block_size=4,
    max_length=39,
    alignment_tokens=4,
    drop_eagle_block=F,
    window=8,
    num_groups=1,
    get_cached_block=lambda block_hash: None,
)
FINE, FINER = {"block_size": 8, "alignment_tokens": 4}, {"block_size": 16, "alignment_tokens": 4}


def found(rule, cached, **change):
    """Return tokens and table of a group that has these hashes, each in the block with the next number."""
    ask = ASK._replace(get_cached_block=lambda block_hash: [block_hash + 1] if block_hash in cached else None, **change)
    n, [table] = rule(ask)
    return n, table


@pytest.mark.parametrize(("cached", "change", "n", "table"), [
    ({0, 1, 2}, {}, 12, [1, 2, 3]), ({0, 1, 2}, {"max_length": 11}, 8, [1, 2]), ({0, 2}, {}, 4, [1]), ({1}, {}, 0, []),
    ({0, 1, 2}, {"drop_eagle_block": T}, 8, [1, 2]),
    ({0}, {"drop_eagle_block": T}, 0, []),
    (set(), {"drop_eagle_block": T}, 0, []),
    ({0, 1, 2}, {"alignment_tokens": 8}, 8, [1, 2]),
    ({0, 1, 2, 3}, {"alignment_tokens": 8, "drop_eagle_block": T}, 8, [1, 2]),
    ({0, 1, 2}, {"block_hashes": range(2)}, 8, [1, 2]),
    ({1, 3}, {"block_size": 8, "alignment_tokens": 8}, 16, [2, 4]),
    ({1, 3}, {"block_size": 8, "alignment_tokens": 8, "block_hashes": range(3)}, 8, [2]),
    ({1, 3, 4}, FINE, 20, [2, 4, 5]), ({1, 3, 4}, {**FINE, "max_length": 19}, 16, [2, 4]),
    ({1, 3, 4}, {**FINE, "block_hashes": range(4)}, 16, [2, 4]),
    ({1, 3, 4}, {**FINE, "drop_eagle_block": T}, 16, [2, 4]),
    ({1, 3}, {**FINE, "drop_eagle_block": T}, 12, [2, 4]),
    ({0}, FINE, 4, [1]),
    ({0}, {**FINE, "drop_eagle_block": T}, 0, []),
    ({3, 5}, FINER, 24, [4, 6]), ({3, 4, 6}, FINER, 28, [4, 7]), ({3, 4, 6}, {**FINER, "max_length": 27}, 20, [4, 5]),
    ({3, 7}, FINER, 32, [4, 8]), ({3, 7, 8}, {**FINER, "block_hashes": range(8)}, 32, [4, 8]),
    ({1, 3, 4}, {"block_size": 8, "alignment_tokens": 12}, 12, [2, 4]),
])  # fmt: skip
def test_full_attention_finds_blocks_without_a_gap_and_a_part_of_the_next(cached, change, n, table):
    assert found(lookup.find_full, cached, **change) == (n, table)


@pytest.mark.parametrize(("cached", "change", "n", "table"), [
    (range(5), {"max_length": 20}, 20, [0, 0, 0, 4, 5]), (range(5), {"max_length": 19}, 16, [0, 0, 3, 4]),
    ({0, 1, 3}, {"max_length": 16}, 8, [1, 2]), ({0}, {"max_length": 8}, 4, [1]), (set(), {"max_length": 8}, 0, []),
    ({1}, {"max_length": 8}, 0, []), (range(5), {"max_length": 3}, 0, []),
    (range(3), {"max_length": 12, "alignment_tokens": 8}, 8, [1, 2]),
    ({0, 1, 2, 3}, {"max_length": 19, "alignment_tokens": 8}, 16, [0, 0, 3, 4]),
    ({0, 2, 3}, {"max_length": 16, "alignment_tokens": 16, "window": 16}, 0, []),
    ({0}, {"max_length": 16, "alignment_tokens": 8}, 0, []),
    (range(5), {"max_length": 20, "window": 9}, 20, [0, 0, 0, 4, 5]),
    (range(5), {"max_length": 20, "window": 10}, 20, [0, 0, 3, 4, 5]),
    (range(5), {"max_length": 20, "drop_eagle_block": T}, 16, [0, 0, 3, 4]),
    (range(2), {"max_length": 8, "drop_eagle_block": T}, 4, [1]),
    (range(5), {"max_length": 20, "drop_eagle_block": T, "alignment_tokens": 8}, 16, [0, 0, 3, 4]),
    (range(4), {"max_length": 16, "drop_eagle_block": T, "alignment_tokens": 8}, 8, [1, 2]),
    (set(), {"max_length": 8, "drop_eagle_block": T}, 0, []),
    ({1, 3, 5}, {"max_length": 24, "block_size": 8, "window": 16}, 24, [0, 4, 6]),
])  # fmt: skip
def test_a_window_finds_the_last_run_of_blocks_that_covers_it(cached, change, n, table):
    assert found(lookup.find_window, cached, **change) == (n, table)


@pytest.mark.parametrize(("cached", "change", "n", "table"), [
    ({4}, {"max_length": 23}, 20, [0, 0, 0, 0, 5]),
    (set(), {"max_length": 23}, 16, [0, 0, 0, 0]),
    ({5}, {"max_length": 27}, 16, [0] * 4),
    ({0, 1, 2}, {"max_length": 15}, 12, [1, 2, 3]),
    ({0, 2}, {"max_length": 15}, 4, [1]),
    ({4}, {"max_length": 16}, 16, [0] * 4),
    ({5}, {"max_length": 24, "block_size": 8}, 24, [0, 0, 6]),
])  # fmt: skip
def test_blocks_before_the_chunk_of_the_last_token_count_as_present(cached, change, n, table):
    assert found(lookup.find_chunk, cached, window=16, **change) == (n, table)


@pytest.mark.parametrize(("cached", "change", "n", "table"), [
    ({1, 3}, {"max_length": 20}, 16, [0, 0, 0, 4]),
    ({1, 3}, {"max_length": 15}, 8, [0, 2]),
    ({0}, {}, 4, [1]),
    (set(), {}, 0, []),
    ({1, 2}, {"alignment_tokens": 8}, 8, [0, 2]), ({0, 2}, {"alignment_tokens": 8}, 0, []),
    ({2}, {**FINE, "max_length": 15}, 12, [0, 3]), ({2}, {**FINE, "max_length": 11}, 0, []), ({1}, FINE, 8, [2]),
    ({0}, FINE, 4, [1]), ({2, 3}, {**FINE, "block_hashes": range(3)}, 12, [0, 3]), ({4}, FINE, 20, [0, 0, 5]),
    ({1, 2, 3}, {"block_size": 8, "alignment_tokens": 8, "max_length": 31}, 16, [0, 4]),
    ({4, 5}, {"block_size": 8, "alignment_tokens": 12}, 24, [0, 0, 6]),
])  # fmt: skip
def test_the_last_state_at_a_multiple_of_the_alignment_is_found(cached, change, n, table):
    assert found(lookup.find_state, cached, **change) == (n, table)


@pytest.mark.parametrize("rule", [lookup.find_full, lookup.find_window, lookup.find_chunk, lookup.find_state])
def test_equal_groups_have_a_table_each(rule):
    ask = ASK._replace(
        num_groups=2,
        max_length=11,
        window=12,
        get_cached_block=lambda block_hash: [block_hash + 1, block_hash + 21],
    )
    tables = [[0, 2], [0, 22]] if rule is lookup.find_state else [[1, 2], [21, 22]]
    assert rule(ask) == GroupMatch(8, tables)


def test_a_block_beyond_the_known_hashes_is_an_error():
    with pytest.raises(IndexError):
        lookup.find_window(ASK._replace(block_hashes=range(3), max_length=16))


def test_numbers_of_a_lookup():
    assert (lookup.most_tokens(5), lookup.look_at_all(9, 5), lookup.reach_known(9, 5), lookup.reach_prompt(9, 5)) == (
        4, 9, 5, 9)
    assert [lookup.look_at_known(most, 5) for most in (9, 5, 3)] == [5, 5, 3]
    assert [lookup.window_blocks(window, 4, drop=F) for window in (8, 9, 10)] == [2, 2, 3]
    assert lookup.window_blocks(9, 4, drop=T) == 3
    assert [CacheHit(8, {}, longest).junction for longest in (12, 9, 8, 4)] == [12, 9, 0, 0]
    assert CacheHit(8, {}) == CacheHit(8, {}, longest=0, lengths={})
    assert [ASK._replace(block_size=8, alignment_tokens=align).fine for align in (3, 4, 8, 16)] == [F, T, F, F]


FULL = SpecGroup([0], is_full_attention=T, is_mamba=F, block_size=4, window=0, use_eagle=F)
WINDOW = SpecGroup([1, 2], is_full_attention=F, is_mamba=F, block_size=4, window=8, use_eagle=F)
STATE = SpecGroup([3], is_full_attention=F, is_mamba=T, block_size=8, window=0, use_eagle=F)


def numbered(group, n, kind):
    """Return blocks for so many tokens of a group."""
    return [100 * group + place for place in range(1, 1 - (-n // kind.block_size))]


def looked_up(rule, ask, *answers):
    """Return the result of a rule, and the questions that it asked: kind, most tokens, drop. Answers are tokens."""
    asked, left = [], iter(answers)

    def look(kind, most, drop):
        asked.append(([one.group_ids for one in ask.attention_groups].index(kind.group_ids), most, drop))
        n = next(left)
        return GroupMatch(n, [numbered(group, n, kind) for group in kind.group_ids])

    result = rule(ask, look)
    assert [*left] == []
    return result, asked


def test_a_single_group_decides_alone():
    ask = PromptQuery(39, 40, 0, [FULL._replace(use_eagle=T)])
    assert looked_up(lookup.look_up_one, ask, 8) == (CacheHit(8, {0: [1, 2]}, 8, {0: 8}), [(0, 39, T)])


@pytest.mark.parametrize(("kinds", "unit", "answers", "n", "lengths", "asked"), [
    ([FULL, STATE], 0, [32, 16], 16, {0: 32, 1: 16}, [(0, 39, F), (1, 32, F)]),
    ([FULL, STATE], 0, [0, 0], 0, {0: 0, 1: 0}, [(0, 39, F), (1, 0, F)]),
    ([FULL, WINDOW, STATE], 0, [32, 24, 24, 24, 24], 24, {0: 32, 1: 24, 2: 24},
     [(0, 39, F), (1, 32, F), (2, 24, F), (1, 24, F), (2, 24, F)]),
    ([FULL, WINDOW, STATE], 0, [32, 32, 24, 20, 16, 16, 16], 16, {0: 32, 1: 16, 2: 16},
     [(0, 39, F), (1, 32, F), (2, 32, F), (1, 24, F), (2, 20, F), (1, 16, F), (2, 16, F)]),
    ([WINDOW, STATE], 0, [32, 24, 24, 24], 24, {0: 24, 1: 24}, [(0, 39, F), (1, 32, F), (0, 24, F), (1, 24, F)]),
    ([WINDOW, STATE], 0, [39, 39], 39, {0: 39, 1: 39}, [(0, 39, F), (1, 39, F)]),
    ([FULL._replace(use_eagle=T), STATE], 0, [36, 32], 32, {0: 36, 1: 32}, [(0, 41, T), (1, 36, F)]),
    ([FULL._replace(use_eagle=T, block_size=8), STATE], 2, [36, 32], 32, {0: 36, 1: 32}, [(0, 41, T), (1, 36, F)]),
    ([FULL._replace(use_eagle=T), STATE], 1, [36, 32], 32, {0: 36, 1: 32}, [(0, 40, T), (1, 36, F)]),
    ([FULL._replace(use_eagle=T), WINDOW._replace(use_eagle=T)], 2, [20, 12], 12, {0: 20, 1: 12},
     [(0, 41, T), (1, 24, T)]),
    ([FULL, STATE._replace(use_eagle=T)], 0, [36, 32], 32, {0: 36, 1: 32}, [(0, 39, F), (1, 36, T)]),
    ([FULL, WINDOW._replace(use_eagle=T), STATE], 0, [32, 28, 24, 24, 24], 24, {0: 32, 1: 24, 2: 24},
     [(0, 39, F), (1, 36, T), (2, 28, F), (1, 28, T), (2, 24, F)]),
    ([FULL, WINDOW._replace(use_eagle=T), STATE], 0, [32, 24, 24, 24, 24], 24, {0: 32, 1: 24, 2: 24},
     [(0, 39, F), (1, 36, T), (2, 24, F), (1, 24, F), (2, 24, F)]),
])  # fmt: skip
def test_groups_shorten_the_prefix_in_turn_until_all_have_it(kinds, unit, answers, n, lengths, asked):
    hit, questions = looked_up(lookup.reconcile_all, PromptQuery(39, 41, unit, kinds), *answers)
    assert (hit.n, hit.lengths, questions) == (n, lengths, asked)
    assert hit.longest == max(answers)
    assert hit.tables == {group: numbered(group, n if kind.is_full_attention else lengths[at], kind)
                          for at, kind in enumerate(kinds) for group in kind.group_ids}  # fmt: skip


@pytest.mark.parametrize(("kinds", "answers", "n", "rows", "asked"), [
    ([FULL, STATE], [20, 24], 24, 20, [(0, 41, T), (1, 28, T)]),
    ([FULL, WINDOW, STATE], [20, 20, 24, 24, 24], 24, 20, [(0, 41, T), (1, 24, T), (2, 28, T), (1, 24, F), (2, 24, F)]),
])  # fmt: skip
def test_until_0_25_1_states_make_the_prefix_longer_than_the_rows(kinds, answers, n, rows, asked):
    dropping = [kind._replace(use_eagle=T) for kind in kinds]
    hit, questions = looked_up(lookup.reconcile_with_states, PromptQuery(39, 41, 0, dropping), *answers)
    assert (hit.n, hit.lengths[0], hit.tables[0], questions) == (n, rows, numbered(0, rows, FULL), asked)
