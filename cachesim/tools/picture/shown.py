"""Text around the pictures of a command."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Mapping, NamedTuple, Sequence

if TYPE_CHECKING:
    from rich.console import RenderableType


class PictureOptions(NamedTuple):
    """Additions to a picture: the command that reproduces it, the result in a sentence, the request that a page is
    about (None = all), a name for each run (() = their rule sets, equal ones in one picture), the reports of the
    command in short and with -v, in their form for terminals, and the data of runs whose steps are shown."""

    command: str = ""
    note: str = ""
    focus: int | None = None
    names: Sequence[str] = ()
    report: RenderableType | None = None
    verbose: RenderableType | None = None
    schedules: Sequence[Mapping[str, Any]] = ()
