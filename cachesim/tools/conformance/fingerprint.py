"""When do two fingerprints agree, and how far apart are they?

A fingerprint is a number, a text, an array (NumPy, torch, MLX: anything with ``shape`` and ``tolist()``), or a list or
mapping of these. ``identical`` is what ``conform`` compares with; ``near(0.01)`` allows every number a difference.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable, Mapping, NamedTuple, Sequence

import numpy as np

from cachesim.base.errors import ECHOED, BadInput, cut
from cachesim.tools.conformance.protocol import Reply

# When is a reply the same as a cold one?

def equal(warm: Reply, cold: Reply, same: Same, cancelled: bool = False) -> bool:
    """Returns True if both answers are the same. Of a request that was cancelled only the tokens so far count.

    Where both have a fingerprint, ``same`` decides. Fingerprints that are near but not identical may have led to other
    tokens, of two that were almost equally likely; identical ones may not.
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
    """How far the fingerprints are apart, None if they are identical or nothing can be said."""
    if warm.fingerprint is None or cold.fingerprint is None or identical(warm.fingerprint, cold.fingerprint):
        return None
    return difference(cold.fingerprint, warm.fingerprint)


Same = Callable[[Any, Any], bool]
FIRST = 4                    # numbers of an array that are shown


class Difference(NamedTuple):
    """``largest`` of all differences between two numbers at the same place, NaN where they cannot be subtracted;
    ``text`` says it with its place."""

    largest: float
    text: str


def identical(a: Any, b: Any) -> bool:
    """Returns True if both have the same shape and the same numbers; NaN equals NaN. Raises BadInput for values whose
    ``==`` is neither true nor false."""
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
                       hint="give same=, a function of two fingerprints") from error  # fmt: skip


@dataclass(frozen=True, slots=True)
class Near:
    """Compares fingerprints of numbers: no two numbers may differ by more than ``tolerance``."""

    tolerance: float

    def __call__(self, a: Any, b: Any) -> bool:
        if identical(a, b):
            return True
        found = difference(a, b)
        return found is not None and found.largest <= self.tolerance


def near(tolerance: float) -> Near:
    """``same=near(1e-4)``: fingerprints agree if no two of their numbers differ by more than that."""
    if not tolerance >= 0:
        raise BadInput(f"near needs a tolerance of at least 0, not {tolerance!r:.40}")
    return Near(tolerance)


def agree(same: Same, a: Any, b: Any) -> bool:
    """What the caller's function says. Raises BadInput if it fails."""
    try:
        return bool(same(a, b))
    except BadInput:
        raise
    except Exception as error:
        name = getattr(same, "__name__", type(same).__name__)
        raise BadInput(f"same: {name}() of two fingerprints failed: {type(error).__name__}: {error}") from error


def difference(a: Any, b: Any) -> Difference | None:
    """How far two fingerprints are apart, None if nothing can be said. One may know that itself (``differs_from``)."""
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
    apart = np.where((one == two) | (np.isnan(one) & np.isnan(two)), 0.0, np.abs(one - two)).ravel()
    index = int(np.argmax(apart))                     # a NaN on one side only is the largest
    place = f" at index {index} of {one.size}" if one.size > 1 else ""
    return Difference(float(apart[index]), f"largest difference {apart[index]:.3g}{place}")


def shown(value: Any) -> str:
    """A fingerprint in at most ``ECHOED`` characters; of an array its type, its shape and its first numbers."""
    if hasattr(value, "shape") and hasattr(value, "tolist"):
        numbers = _numbers(value)
        first = [] if numbers is None else [f"{one:.6g}" for one in numbers.ravel()[:FIRST]]
        more = ", ..." if numbers is not None and numbers.size > FIRST else ""
        return cut(f"{getattr(value, 'dtype', 'array')}{list(value.shape)}: {', '.join(first)}{more}", ECHOED)
    return cut(str(value), ECHOED)


def _plain(value: Any) -> Any:
    """Arrays as their shape and lists of numbers."""
    if hasattr(value, "shape") and hasattr(value, "tolist"):
        return tuple(value.shape), value.tolist()
    return value


def _numbers(value: Any) -> np.ndarray[Any, np.dtype[np.float64]] | None:
    """The numbers of a fingerprint, None if it has none."""
    plain = value.tolist() if hasattr(value, "tolist") else value
    if isinstance(plain, str | bytes | Mapping | int) or plain is None:
        return None                                   # one integer is a digest: its size means nothing
    if isinstance(plain, Sequence) and any(hasattr(one, "tolist") for one in plain):
        plain = [one.tolist() if hasattr(one, "tolist") else one for one in plain]
    try:
        return np.asarray(plain, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        return None


def _of_texts(a: str, b: str) -> Difference | None:
    """Worth saying only where the shown beginnings do not say it."""
    index = next((i for i, (one, two) in enumerate(zip(a, b, strict=False)) if one != two), min(len(a), len(b)))
    if max(len(a), len(b)) <= ECHOED:
        return None
    return Difference(float("nan"), f"first difference at character {index} of {len(a)}")
