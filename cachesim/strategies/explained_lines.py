"""Lines that Hypothesis names in its explanation of a failure.

The explanation lists lines that only failing examples ran. Of a cache's test these are lines of the cache; but a value
of cachesim is printed, and a rule reported, only when an example fails, so that lines of this package would stand
beside them, or in their place. Hypothesis keeps a list of files that it leaves out for this reason, such as those of
pytest. It is not a part of its documented interface: a release without it shows the lines.
"""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path
from typing import Any

PACKAGE = Path(__file__).resolve().parents[1]
_LITERAL = re.compile(r"[\w./: -]+")           # paths that mean themselves in a pattern of Hypothesis


def leave_out_package() -> None:
    """Add the files of this package to those that explanations leave out, once."""
    try:
        module: Any = import_module("hypothesis.internal.scrutineer")
        known = module.UNHELPFUL_LOCATIONS
    except (ImportError, AttributeError):
        return
    pattern = f"{PACKAGE.as_posix()}/**"
    if isinstance(known, tuple) and pattern not in known and _LITERAL.fullmatch(PACKAGE.as_posix()):
        module.UNHELPFUL_LOCATIONS = (*known, pattern)
