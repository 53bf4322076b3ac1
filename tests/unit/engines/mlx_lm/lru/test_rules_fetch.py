"""Rules of a look-up in the prompt cache, at the lengths at which they change their answer."""

from __future__ import annotations

import pytest

from cachesim.engines.mlx_lm.lru import SearchResult
from cachesim.engines.mlx_lm.lru import rules_fetch as rules
from cachesim.engines.mlx_lm.lru.rules_fetch import HandOut
from tests.unit.engines.mlx_lm.lru.toys import Layer


def layers(*trimmable):
    return [Layer(4, answer) for answer in trimmable]


def found(at=0, common=0, longer=None, exact=False, known=True):
    return SearchResult(known, exact, at, longer, common)


def test_a_prompt_is_looked_up_whole_or_without_its_last_token():
    assert (rules.query_prompt(5), rules.query_but_last(5)) == (5, 4)


@pytest.mark.parametrize(("at", "known", "exact", "walked"), [
    (5, True, True, True), (5, True, False, True), (4, True, True, False), (5, False, False, False),
])  # fmt: skip
def test_an_exact_entry_is_a_key_or_as_long_as_the_query(at, known, exact, walked):
    result = found(at=at, known=known, exact=exact)
    assert (rules.exact_stored(result, 5), rules.exact_walked(result, 5)) == (exact, walked)


@pytest.mark.parametrize(("at", "length"), [(0, 0), (1, 0), (2, 2), (9, 9)])
def test_a_key_of_one_token_is_no_prefix_except_for_the_only_conversation(at, length):
    assert (rules.shorter_beyond_one(found(at=at)), rules.shorter_any(found(at=at))) == (length, at)


@pytest.mark.parametrize(("common", "shorter", "longer", "more", "last"), [
    (5, 4, 9, True, False), (5, 5, 9, False, False), (5, 0, 9, True, True), (0, 0, 9, False, True),
    (5, 0, None, False, False), (5, 4, None, False, False),
])  # fmt: skip
def test_a_longer_key_is_tried_if_it_shares_more_or_if_no_prefix_is_stored(common, shorter, longer, more, last):
    result = found(common=common, longer=longer)
    assert (rules.longer_if_more(result, shorter), rules.longer_without_shorter(result, shorter)) == (more, last)


@pytest.mark.parametrize(("common", "query", "kept"), [(3, 9, 3), (8, 9, 8), (9, 9, 8), (0, 9, 0)])
def test_a_longer_entry_is_trimmed_to_the_common_prefix_and_one_token_is_left(common, query, kept):
    assert (rules.keep_all_but_one(common, query), rules.keep_common(common, query)) == (kept, common)


def test_a_copy_is_trimmed_except_of_the_only_conversation():
    assert (rules.trim_a_copy(), rules.trim_in_place()) == (False, True)


@pytest.mark.parametrize(("trimmable", "usable"), [((True, True), True), ((True, False), False), ((False,), False)])
def test_an_entry_is_usable_if_every_layer_can_be_trimmed(trimmable, usable):
    assert rules.usable_if_trimmable(layers(*trimmable)) is usable


def test_an_entry_that_cannot_be_trimmed_is_refused_or_continued():
    assert (rules.untrimmable_refused(7), rules.untrimmable_continued(7)) == (0, 7)


@pytest.mark.parametrize(("trimmed", "enough"), [(4, False), (5, True), (6, True)])
def test_the_trimmed_tokens_may_be_checked(trimmed, enough):
    assert (rules.trimmed_enough(trimmed, 5), rules.trimmed_unchecked(trimmed, 5)) == (enough, True)


@pytest.mark.parametrize(("rule", "how", "count", "snapshot", "handed"), [
    (rules.hand_copy, "exact", 1, False, HandOut("copy")), (rules.hand_copy, "shorter", 2, True, HandOut("copy")),
    (rules.hand_consume, "shorter", 1, False, HandOut("give")),
    (rules.hand_consume, "shorter", 2, False, HandOut("copy", count_down=True)),
    (rules.hand_move, "exact", 2, True, HandOut("lend", count_down=True, old_key=True)),
    (rules.hand_move, "shorter", 2, True, HandOut("lend", count_down=True, old_key=False)),
    (rules.hand_move, "shorter", 1, False, HandOut("lend", old_key=True)),
    (rules.hand_move, "shorter", 1, True, HandOut("give", old_key=False)),
    (rules.hand_move, "exact", 1, True, HandOut("give", old_key=True)),
    (rules.hand_own, "exact", 1, False, HandOut("lend", old_key=True)),
    (rules.hand_keep_prefix, "exact", 1, False, HandOut("give")),
    (rules.hand_keep_prefix, "exact", 2, False, HandOut("copy", count_down=True)),
    (rules.hand_keep_prefix, "shorter", 1, False, HandOut("copy", count_down=False)),
    (rules.hand_keep_prefix, "shorter", 2, False, HandOut("copy", count_down=True)),
])  # fmt: skip
def test_an_entry_is_copied_lent_or_given(rule, how, count, snapshot, handed):
    assert rule(how, count, snapshot) == handed
