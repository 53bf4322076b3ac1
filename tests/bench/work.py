"""Work of a run without a clock: calls of Python functions, rules asked, digests mixed, tokens copied.

Calls and rules are counted for every function; digests and tokens at the functions of ``SIZES``, whose arguments have
their number. Counts are equal in every run with one Python version.
"""

from __future__ import annotations

import sys
from importlib import import_module
from math import log2
from types import CodeType, FrameType
from typing import Any, Callable, Mapping, NamedTuple

from cachesim.engines import rule
from cachesim.model import hash_mixing
from tests.bench.drivers import DRIVERS, load
from tests.bench.spellings import find_modules
from tests.shared import ROOT


class Size(NamedTuple):
    """Function whose argument or variable tells how much it works. ``what``: field of ``Work``."""

    what: str
    module: str
    name: str
    size: Callable[[Mapping[str, Any]], int]


def _mixed(names: Mapping[str, Any]) -> int:
    """Return the digests that a call of ``mix`` mixes itself; it mixes longer arrays in parts."""
    size: int = names["z"].size
    return size if size <= hash_mixing._PART else 0


SIZES = (
    Size("digests", "cachesim.model.hash_mixing", "mix", _mixed),
    Size("digests", "cachesim.model.hash_mixing", "mix_int", lambda names: 1),
    Size("copied", "cachesim.judging.token_radix", "TokenRadix._walk", lambda names: len(names["tokens"])),
    Size("copied", "cachesim.judging.compare_answer", "begins", lambda names: len(names["tokens"])),
    Size("copied", "cachesim.engines.sglang.managers.req", "Req.token_identities",
         lambda names: names["stop"] - names["start"]),
)  # fmt: skip


class Work(NamedTuple):
    """Work of a run."""

    calls: int
    rules: int
    digests: int
    copied: int               # tokens of lists that are copied, compared or walked


def function(module: str, name: str) -> Any:
    """Return the function of this name. Raise AttributeError if the module lacks it."""
    found = import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    return found


def count(run: Callable[[], object]) -> Work:
    """Return the work of a call."""
    sizes: dict[CodeType, Size] = {function(size.module, size.name).__code__: size for size in SIZES}
    stamp = rule._stamped(len, "", checked=False).__code__
    counts = {"calls": 0, "rules": 0, "digests": 0, "copied": 0}

    def profile(frame: FrameType, event: str, _: object) -> None:
        if event != "call":
            return
        counts["calls"] += 1
        if frame.f_code is stamp:
            counts["rules"] += 1
        elif (size := sizes.get(frame.f_code)) is not None:
            counts[size.what] += size.size(frame.f_locals)

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        run()
    finally:
        sys.setprofile(before)
    return Work(**counts)


def work_of(driver: str, size: int) -> Work:
    """Return the work of a driver of ``drivers`` at a size, on this checkout."""
    modules = load(find_modules(ROOT))
    return count(lambda: DRIVERS[driver](modules, size))


def growth(driver: str, size: int) -> dict[str, float]:
    """Return the exponent of each kind of work between a size and twice as much; 0.0 where there is none."""
    DRIVERS[driver](load(find_modules(ROOT)), 8)         # what is loaded and cached once
    less, more = work_of(driver, size), work_of(driver, 2 * size)
    pairs = zip(Work._fields, less, more, strict=True)
    return {name: round(log2(b / a), 2) if a and b else 0.0 for name, a, b in pairs}
