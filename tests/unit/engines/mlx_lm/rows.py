"""Rows that say what they are: a token is its number, padding is 0. And caches filled with them."""

from __future__ import annotations

import numpy as np

ROW = np.dtype([("digest", "u8"), ("k", "f8", (2, 16))])
"""What the toy model stores: provenance and numbers."""


def ids(*tokens):
    """[1, 1, T, 1] of rows with these numbers."""
    return batch(tokens)


def batch(*rows):
    """[B, 1, T, 1], one list of numbers for each row of the batch."""
    out = np.zeros((len(rows), 1, len(rows[0]), 1), ROW)
    out["digest"] = np.array(rows, np.uint64)[:, None, :, None]
    return out


def told(buffer):
    """The numbers in a buffer: one list, or one list per row of a batch."""
    lists = buffer["digest"][:, 0, :, 0].tolist()
    return lists[0] if len(lists) == 1 else lists


def feed(cache, *rows):
    """One step for all rows; the columns that come back."""
    return told(cache.update_and_fetch(batch(*rows), batch(*rows))[0])


def filled(cache, first, last):
    """The cache after one step with the tokens first..last."""
    feed(cache, range(first, last + 1))
    return cache


def numbers(*shape, dtype="f4"):
    """Zeros with the shape [B, H, T, D], where only shapes and dtypes matter."""
    return np.zeros(shape, dtype)
