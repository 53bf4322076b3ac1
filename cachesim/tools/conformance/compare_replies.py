"""Comparison of fingerprints and replies.

A fingerprint is a number, a text, an array (NumPy, torch, MLX: anything with ``shape`` and ``tolist()``), or a list or
mapping of these. ``identical`` is the default of ``conform``; ``near(0.01)`` allows each number a difference.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable, Mapping, NamedTuple, Sequence

import numpy as np

from cachesim.base.errors import ECHOED, BadInput, cut
from cachesim.tools.conformance.protocol import Reply

# Comparison of a warm reply with a cold reply.

def equal(warm: Reply, cold: Reply, same: Same, cancelled: bool = False) -> bool:
    """True if both answers agree. For a cancelled request only the tokens generated so far are compared.

    If both replies have a fingerprint, ``same`` decides. Near fingerprints that are not identical may lead to different
    tokens, if two tokens were almost equally likely; identical fingerprints may not.
    """
    if bool(warm.refused) != bool(cold.refused):
        return False
    if cancelled:
        return warm.tokens is None or cold.tokens is None or warm.tokens == cold.tokens[: len(warm.tokens)]
    if warm.fingerprint is None or cold.fingerprint is None:
        return (warm.fingerprint is None) == (cold.fingerprint is None) and _same_tokens(warm, cold)
    if not _same_tokens(warm, cold) and identical(warm.fingerprint, cold.fingerprint):
        return False
    return agree(same, warm.fingerprint, cold.fingerprint)


def _same_tokens(warm: Reply, cold: Reply) -> bool:
    return warm.tokens is None or cold.tokens is None or warm.tokens == cold.tokens


def apart(warm: Reply, cold: Reply) -> Difference | None:
    """Return the distance of the fingerprints, None if they are identical or cannot be compared."""
    if warm.fingerprint is None or cold.fingerprint is None or identical(warm.fingerprint, cold.fingerprint):
        return None
    return difference(cold.fingerprint, warm.fingerprint)


Same = Callable[[Any, Any], bool]
FIRST = 4                    # array elements that are shown


class Difference(NamedTuple):
    """Distance of two fingerprints. ``largest``: largest difference between two numbers at a place, NaN if they
    cannot be subtracted; ``text``: description with the place."""

    largest: float
    text: str


def identical(a: Any, b: Any) -> bool:
    """True if both have equal shapes and equal numbers; NaN equals NaN. Raise BadInput for values whose ``==`` is
    neither true nor false."""
    a, b = _plain(a), _plain(b)
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        return a.keys() == b.keys() and all(identical(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(identical(one, two) for one, two in zip(a, b, strict=True))
    if isinstance(a, float) and isinstance(b, float) and a != a:
        return b != b
    try:
        return bool(a == b)
    except Exception as error:
        raise BadInput(f"fingerprints of type {type(a).__name__} cannot be compared with ==: {error}",
                       hint="pass same=, a function of two fingerprints") from error  # fmt: skip


@dataclass(frozen=True, slots=True)
class NumericComparison:
    """Comparison of numeric fingerprints: no two numbers may differ by more than ``tolerance``."""

    tolerance: float

    def __call__(self, a: Any, b: Any) -> bool:
        if identical(a, b):
            return True
        found = difference(a, b)
        return found is not None and found.largest <= self.tolerance


def near(tolerance: float) -> NumericComparison:
    """Return a comparison that allows each number a difference of ``tolerance``: ``same=near(1e-4)``."""
    if not tolerance >= 0:
        raise BadInput(f"near: expected a tolerance of at least 0, found {tolerance!r:.40}")
    return NumericComparison(tolerance)


def agree(same: Same, a: Any, b: Any) -> bool:
    """Call the caller's comparison function. Raise BadInput if it fails."""
    try:
        return bool(same(a, b))
    except BadInput:
        raise
    except Exception as error:
        name = getattr(same, "__name__", type(same).__name__)
        raise BadInput(f"same: {name}() of two fingerprints failed: {type(error).__name__}: {error}") from error


def difference(a: Any, b: Any) -> Difference | None:
    """Return the distance of two fingerprints, None if unknown. A type may compute it itself (``differs_from``)."""
    if hasattr(a, "differs_from") and type(a) is type(b):
        found: Difference = a.differs_from(b)
        return found
    if isinstance(a, str) and isinstance(b, str):
        return _of_texts(a, b)
    one, two = _numbers(a), _numbers(b)
    if one is None or two is None:
        return None
    if one.shape != two.shape:
        return Difference(float("nan"), f"shape {list(one.shape)} (cold) and {list(two.shape)}")
    if not one.size:
        return None
    with np.errstate(invalid="ignore"):               # inf - inf
        apart = np.where((one == two) | (np.isnan(one) & np.isnan(two)), 0.0, np.abs(one - two)).ravel()
    index = int(np.argmax(apart))                     # a NaN on a single side is the largest
    place = f" at index {index} of {one.size}" if one.size > 1 else ""
    return Difference(float(apart[index]), f"largest difference {apart[index]:.3g}{place}")


def shown(value: Any) -> str:
    """Describe a fingerprint in at most ``ECHOED`` characters; an array by type, shape and first elements."""
    if hasattr(value, "shape") and hasattr(value, "tolist"):
        numbers = _numbers(value)
        first = [] if numbers is None else [f"{one:.6g}" for one in numbers.ravel()[:FIRST]]
        more = ", ..." if numbers is not None and numbers.size > FIRST else ""
        return cut(f"{getattr(value, 'dtype', 'array')}{list(value.shape)}: {', '.join(first)}{more}", ECHOED)
    return cut(str(value), ECHOED)


def _plain(value: Any) -> Any:
    """Return arrays as (shape, list of numbers), other values unchanged."""
    if hasattr(value, "shape") and hasattr(value, "tolist"):
        return tuple(value.shape), value.tolist()
    return value


def _numbers(value: Any) -> np.ndarray[Any, np.dtype[np.float64]] | None:
    """Return the numbers of a fingerprint, None if it has none."""
    plain = value.tolist() if hasattr(value, "tolist") else value
    if isinstance(plain, str | bytes | Mapping | int) or plain is None:
        return None                                   # a single integer is a digest: its size has no meaning
    if isinstance(plain, Sequence) and any(hasattr(one, "tolist") for one in plain):
        plain = [one.tolist() if hasattr(one, "tolist") else one for one in plain]
    try:
        return np.asarray(plain, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        return None


def _of_texts(a: str, b: str) -> Difference | None:
    """Return the first differing character, None if both texts are short enough to be shown whole."""
    index = next((i for i, (one, two) in enumerate(zip(a, b, strict=False)) if one != two), min(len(a), len(b)))
    if max(len(a), len(b)) <= ECHOED:
        return None
    return Difference(float("nan"), f"first difference at character {index} of {len(a)}")
