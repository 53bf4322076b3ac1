"""Which engines and rule sets do installed packages bring? Their entry points, imported only when somebody asks.

    [project.entry-points."cachesim.engines"]
    mine = "my_package:ENGINE"              # an Engine
    [project.entry-points."cachesim.profiles"]
    mine = "my_package.rules"               # a RuleSet, a list of them, or a module that holds some

One that cannot be loaded is told in a line on stderr and left out; the others are there.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import Any, Callable, Iterator

from cachesim.base.errors import BadInput, cut

ENGINES, PROFILES = "cachesim.engines", "cachesim.profiles"


def load_entry_points(group: str, take: Callable[[Any, str], None]) -> None:
    """Give ``take`` what every entry point of a group names, and the words for where it is from. What it raises is told
    as what loading raises."""
    if not _any():
        return
    from importlib.metadata import entry_points  # 18 ms

    for point in sorted(entry_points(group=group), key=lambda one: one.name):
        origin = f"plug-in {point.name}" + (f" ({point.dist.name} {point.dist.version})" if point.dist else "")
        try:
            take(point.load(), origin)
        except BadInput as bad:
            _tell(f"{origin} is left out: {bad}")
        except (Exception, SystemExit) as error:
            _tell(f"{origin} is left out: {type(error).__name__}: {error}")


def _any() -> bool:
    """Does any installed package name one of our groups? Looking for it takes half a millisecond, where importing
    ``importlib.metadata`` takes 18."""
    return any(b"[cachesim.engines]" in text or b"[cachesim.profiles]" in text for text in _tables())


def _tables() -> Iterator[bytes]:
    """The files with entry points of all installed packages; of an archive on the path, that it may hold one."""
    for folder in dict.fromkeys(sys.path):
        if os.path.isfile(folder):
            yield f"[{ENGINES}]".encode()
            continue
        with suppress(OSError), os.scandir(folder or os.curdir) as entries:
            for entry in entries:
                if entry.name.endswith((".dist-info", ".egg-info")):
                    with suppress(OSError), open(os.path.join(entry.path, "entry_points.txt"), "rb") as file:
                        yield file.read()


def _tell(line: str) -> None:
    """One line on stderr, once: not from the processes that share the work."""
    from multiprocessing import parent_process

    if sys.stderr is not None and parent_process() is None:
        with suppress(OSError):
            sys.stderr.write(f"cachesim: {cut(line, 400)}\n")
