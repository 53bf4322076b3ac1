"""Lines that Hypothesis names in its explanation of a failure.

The explanation lists lines that only failing examples ran. cachesim prints a value, and reports a rule, only when an
example fails. Lines of this package would therefore stand beside those of the tested cache, or in their place.
Hypothesis has a list of files that it leaves out for this reason, such as those of pytest. The list does not belong to
its documented interface: a release without it shows the lines.
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
