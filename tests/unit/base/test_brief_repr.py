"""Short texts of records."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from cachesim.base.brief_repr import brief_repr


@dataclass
class Record:
    tokens: tuple[int, ...]
    number: int = 3
    names: list[str] = field(default_factory=list)
    array: object = None


def test_only_fields_that_differ_from_their_defaults_are_shown():
    assert brief_repr(Record((1, 2))) == "Record(tokens=(1, 2))"
    assert brief_repr(Record((), 4, ["a"])) == "Record(tokens=(), number=4, names=['a'])"


def test_a_default_of_another_type_is_shown():
    assert brief_repr(Record((), True)) == "Record(tokens=(), number=True)"
    assert brief_repr(Record((), 3.0)) == "Record(tokens=(), number=3.0)"


def test_a_long_list_is_cut_and_counted():
    assert brief_repr(Record(tuple(range(100)))) == "Record(tokens=(0, 1, 2, 3, ... 100 items))"
    assert brief_repr(Record((0, 1, 2, 3))) == "Record(tokens=(0, 1, 2, 3))"
    assert brief_repr(Record((), names=["a"] * 5)) == "Record(tokens=(), names=['a', 'a', 'a', 'a', ... 5 items])"


def test_an_array_is_neither_compared_nor_printed_whole():
    assert len(brief_repr(Record((), array=np.arange(1000)))) < 80
