"""Tests of the frequency of the garbage collector."""

from __future__ import annotations

import gc

import pytest

from cachesim.base.garbage_collection import with_rare_garbage_collection


def test_the_collector_works_as_before_afterwards_also_after_an_error():
    before = gc.get_threshold()
    gc.set_threshold(701, 11, 12)
    try:
        with pytest.raises(KeyError), with_rare_garbage_collection():
            assert gc.get_threshold()[0] == 100_000
            raise KeyError
        assert gc.get_threshold() == (701, 11, 12)
    finally:
        gc.set_threshold(*before)
