"""How is an error told? One line for the user's faults; for ours, what we need to mend it."""

from __future__ import annotations

import io
import sys
import traceback
from contextlib import suppress

from cachesim.base.console import complain
from cachesim.base.errors import BadInput, Crash


def report_bad_input(bad: BadInput) -> None:
    """File, line, cause and hint, in one line."""
    complain(str(bad))


def report_crash(error: BaseException) -> None:
    """What happened and where. A Crash says it itself; anything else shows its traceback."""
    if not isinstance(error, Crash):
        with suppress(OSError):
            traceback.print_exception(error, file=sys.stderr or io.StringIO())
    complain(f"{str(error) or type(error).__name__} (a fault of cachesim: please open an issue with this output)")
