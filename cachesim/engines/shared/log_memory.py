"""Kinds of memory that the positions in a line of a log show.

Attention rows begin at position 0. Window layers lose their first rows, but hold several. A recurrent state holds the
last position alone, and a memory with such states reports this position as its first.
"""

from __future__ import annotations

from typing import Mapping

Numbers = Mapping[str, bool | int | float | str]


def holds_last_position(numbers: Numbers) -> bool:
    """True if a memory or checkpoint of several tokens holds its last position alone."""
    first, last = _position(numbers, "pos_min"), _last(numbers)
    return first == last and last > 0


def lacks_first_positions(numbers: Numbers) -> bool:
    """True if a memory or checkpoint holds several positions, but not the first. Without the printed last
    position, the slot may hold more tokens than the memory: then the window must be printed."""
    first, last = _position(numbers, "pos_min"), _last(numbers)
    return 0 < first < last and ("pos_max" in numbers or _position(numbers, "n_swa") > 1)


def _last(numbers: Numbers) -> int:
    return _position(numbers, "pos_max") if "pos_max" in numbers else _position(numbers, "held") - 1


def _position(numbers: Numbers, name: str) -> int:
    """Return a printed position; 0, which shows nothing, if it is missing."""
    found = numbers.get(name)
    return found if isinstance(found, int) and not isinstance(found, bool) else 0
