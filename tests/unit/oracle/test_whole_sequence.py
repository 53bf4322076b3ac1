"""Tests that the oracle's table of layer kinds agrees with the model's table."""

import pytest

from cachesim.model.layer_kinds import KINDS
from cachesim.oracle.whole_sequence import WHOLE


def test_both_tables_have_the_same_letters() -> None:
    assert list(WHOLE) == list(KINDS)


@pytest.mark.parametrize("letter", KINDS)
def test_a_kind_has_the_same_parts_in_both_tables(letter: str) -> None:
    kind, whole = KINDS[letter], WHOLE[letter]
    assert bool(kind.attention) == bool(whole.attention or whole.chosen)
    assert bool(kind.attention and (kind.attention.chooser or kind.attention.compresses)) == bool(whole.digests)
    assert bool(kind.recurrence) == bool(whole.recurrence)
    if kind.recurrence:
        assert (kind.recurrence.taps, bool(kind.recurrence.matrix)) == (whole.taps, whole.rolling)
