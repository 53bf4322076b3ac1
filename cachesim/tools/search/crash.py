"""The simulator itself failed at a conversation, or a rule of the user did: what is told of that, and where it
happened."""

from __future__ import annotations

import traceback
from pathlib import Path

from cachesim.base.errors import CAUSE, BadInput, cut
from cachesim.engines.rule_files import blamed
from cachesim.tools.search.finding import SIMULATOR, USERS_RULE, PropertyFailure

PACKAGE = Path(__file__).resolve().parents[2]
OUTER, INNER = 8, 32         # frames of a traceback that are kept at most: the outermost and the innermost
WIDE = 200                   # characters of a line of it


def failed(error: Exception) -> PropertyFailure | None:
    """The finding that a rule of the user raised this or returned no decision, or that the simulator itself failed.
    None for what else cannot be played: that is no failure."""
    theirs = blamed(error)
    if theirs is not None:
        place = f"{Path(theirs.file).name}:{theirs.line}"
        return PropertyFailure(USERS_RULE, 0, type(error).__name__, {"error": str(theirs)}, place)
    return None if isinstance(error, BadInput) else crashed(error)


def told(error: Exception) -> PropertyFailure:
    """The same finding; where it is None the error is raised again."""
    finding = failed(error)
    if finding is None:
        raise error
    return finding


def crashed(error: Exception) -> PropertyFailure:
    """The finding that the simulator itself failed; ``causes`` is the traceback, the middle of a long one left out. Its
    group is the exception and the function of ours that it comes from."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if Path(frame.filename).is_relative_to(PACKAGE)] or frames
    told = [cut(f"{_short(frame.filename)}:{frame.lineno} in {frame.name}: {frame.line}", WIDE) for frame in frames]
    if (left := len(told) - OUTER - INNER) > 0:
        told[OUTER : OUTER + left] = [f"... {left} frames left out ..."]
    name = type(error).__name__
    text = cut(str(error) or name, CAUSE)
    return PropertyFailure(SIMULATOR, 0, name, {"error": text}, ours[-1].name if ours else "", causes=tuple(told))


def _short(file: str) -> str:
    path = Path(file)
    return str(path.relative_to(PACKAGE.parent)) if path.is_relative_to(PACKAGE) else path.name
