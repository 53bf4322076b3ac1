"""Options ``--html FILE``, ``--svg FILE`` and ``--trace FILE``: the runs of a command as a picture in a file."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Iterable, Mapping, NamedTuple, Sequence

from cachesim.base.errors import BadInput
from cachesim.base.escaping import shell_word
from cachesim.tools.picture.shown import PictureOptions as PictureOptions

if TYPE_CHECKING:
    from cachesim.tools.picture.event_stream import CaptionedWalk
    from cachesim.tools.picture.picture_recorder import PicturedRun, PictureRecorder
    from cachesim.tools.picture.scene import Scene


def add_pictures(parser: ArgumentParser) -> None:
    """Add ``--html``, ``--svg`` and ``--trace``."""
    parser.add_argument("--html", metavar="FILE", default="", help="HTML file to write: picture and decisions")
    parser.add_argument("--svg", metavar="FILE", default="", help="SVG file to write: the picture alone")
    parser.add_argument("--trace", metavar="FILE", default="",
                        help="Chrome trace to write, for Perfetto and very long runs")  # fmt: skip


class PictureFiles(NamedTuple):
    """The files that the picture options name; "" = without this option."""

    html: str = ""
    svg: str = ""
    trace: str = ""

    def are_wanted(self) -> bool:
        """True if a picture option was given."""
        return bool(self.html or self.svg or self.trace)


def picture_files(args: Namespace) -> PictureFiles:
    """Return the files that the options of ``add_pictures`` name."""
    return PictureFiles(html=args.html, svg=args.svg, trace=args.trace)


def recorder(pictures: PictureFiles, profile: str) -> PictureRecorder | None:
    """Return an observer of a run that is drawn; None if no picture option was given."""
    if not pictures.are_wanted():
        return None
    from cachesim.tools.picture.picture_recorder import PictureRecorder

    return PictureRecorder(profile, events=bool(pictures.html))


def check_one_scenario(ids: Iterable[str]) -> None:
    """Raise BadInput for runs of several scenarios, by their ids."""
    if len(set(ids)) > 1:
        raise BadInput("a picture can show one scenario only", hint="name one scenario; -p may be repeated")


def write_pictures(
    pictures: PictureFiles, runs: Sequence[PicturedRun], shown: PictureOptions | None = None
) -> None:
    """Write the requested pictures of runs. Raise BadInput for runs of several scenarios and for a file that cannot be
    written."""
    if pictures.are_wanted() and runs:
        _write(picture_texts(pictures, runs, shown))


def picture_texts(
    pictures: PictureFiles, runs: Sequence[PicturedRun], shown: PictureOptions | None = None
) -> dict[str, str]:
    """Return the requested pictures of runs by the names of their files. Raise BadInput for runs of several
    scenarios."""
    from cachesim.judging.equal_outcomes import fold

    check_one_scenario(run.scenario.id for run in runs)
    shown = (shown or PictureOptions())._replace(command=(shown and shown.command) or _command(runs))
    engines = {run.scenario.engine for run in runs}
    alone = bool(shown.names) or len(engines) > 1            # every engine has a bar of its own
    groups = [[run.data] for run in runs] if alone else fold([run.data for run in runs])
    of = {id(run.data): run for run in runs}
    logs = [of[id(data)].told() for data, *_ in groups] if pictures.html else []
    scenes = [of[id(data)].scene([one["profile"] for one in same]) for data, *same in groups]
    known = [log for log in logs if log is not None]
    return _scene_texts(pictures, scenes, known if len(known) == len(logs) else [], shown)


def write_scenes(
    pictures: PictureFiles, scenes: Sequence[Scene], told: Sequence[CaptionedWalk], shown: PictureOptions
) -> None:
    """Write the requested files. ``told``: event log of each run, () = none. Raise BadInput if that fails."""
    _write(_scene_texts(pictures, scenes, told, shown))


def _scene_texts(
    pictures: PictureFiles, scenes: Sequence[Scene], told: Sequence[CaptionedWalk], shown: PictureOptions
) -> dict[str, str]:
    """Return the requested pictures by the names of their files."""
    from cachesim.tools.picture.chrome_trace import chrome_trace
    from cachesim.tools.picture.page import page
    from cachesim.tools.picture.svg import draw

    texts = {pictures.svg: draw(scenes)} if pictures.svg else {}
    if pictures.html:
        texts[pictures.html] = page(scenes, shown, told)
    if pictures.trace:
        texts[pictures.trace] = chrome_trace(scenes)
    return texts


def _write(texts: Mapping[str, str]) -> None:
    """Write files, and say so. Raise BadInput if that fails."""
    from cachesim.base.console import complain
    from cachesim.base.files import write_whole

    for file, text in texts.items():
        write_whole(Path(file), text.encode())
        complain(f"wrote {file}")


def _command(runs: Sequence[PicturedRun]) -> str:
    """Return a command that shows the runs in a terminal; with a one-line scenario if a line can express it."""
    from cachesim.judging.reproduce_command import case_command
    first, *others = runs
    more = "".join(f" -p {shell_word(run.data['profile'])}" for run in others)
    return case_command(first.scenario, first.data["profile"]) + more
