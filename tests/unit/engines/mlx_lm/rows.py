"""Rows whose content is their token number (padding is 0), and caches filled with them."""

from __future__ import annotations

import numpy as np

ROW = np.dtype([("digest", "u8"), ("k", "f8", (2, 16))])
"""Element of the toy model: provenance and numbers."""


def ids(*tokens):
    """Return rows with these numbers, [1, 1, T, 1]."""
    return batch(tokens)


def batch(*rows):
    """Return rows of a batch, [B, 1, T, 1], from a list of numbers for each row."""
    out = np.zeros((len(rows), 1, len(rows[0]), 1), ROW)
    out["digest"] = np.array(rows, np.uint64)[:, None, :, None]
    return out


def told(buffer):
    """Return the numbers in a buffer: a list, or a list per row of a batch."""
    lists = buffer["digest"][:, 0, :, 0].tolist()
    return lists[0] if len(lists) == 1 else lists


VALUE = 1 << 40
"""Difference between the number of a value and that of its key."""


def values_of(keys):
    """Return the values that belong to keys; those of padding are zeros."""
    out = keys.copy()
    out["digest"] += np.where(keys["digest"] > 0, np.uint64(VALUE), np.uint64(0))
    return out


def feed(cache, *rows):
    """Store a step for all rows. Return the columns that the cache returns."""
    keys = batch(*rows)
    return both(cache.update_and_fetch(keys, values_of(keys)))


def both(pair):
    """Return the numbers of keys, whose values must belong to them."""
    keys, values = pair
    assert np.array_equal(values["digest"], values_of(keys)["digest"])
    return told(keys)


def filled(cache, first, last):
    """Return the cache after a step with the tokens first..last."""
    feed(cache, range(first, last + 1))
    return cache


def numbers(*shape, dtype="f4"):
    """Return zeros with the shape [B, H, T, D], for tests of shapes and dtypes only."""
    return np.zeros(shape, dtype)
