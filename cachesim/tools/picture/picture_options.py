"""Options ``--html FILE``, ``--svg FILE`` and ``--trace FILE``: the runs of a command as a picture in a file."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Iterable, Sequence

from cachesim.base.errors import BadInput
from cachesim.base.escaping import shell_command, shell_word
from cachesim.tools.picture.shown import Shown as Shown

if TYPE_CHECKING:
    from cachesim.scenarios.schema import Scenario
    from cachesim.tools.picture.event_stream import Told
    from cachesim.tools.picture.scene import Scene

Runs = Sequence[tuple["Scenario", dict[str, Any]]]


def add_pictures(parser: ArgumentParser) -> None:
    """Add ``--html``, ``--svg`` and ``--trace``."""
    parser.add_argument("--html", metavar="FILE", default="", help="HTML file to write: picture and decisions")
    parser.add_argument("--svg", metavar="FILE", default="", help="SVG file to write: the picture alone")
    parser.add_argument("--trace", metavar="FILE", default="",
                        help="Chrome trace to write, for Perfetto and very long runs")  # fmt: skip


def wanted(args: Namespace) -> bool:
    """True if a picture option was given."""
    return bool(args.html or args.svg or args.trace)


def write_pictures(args: Namespace, runs: Runs, shown: Shown | None = None) -> None:
    """Write the requested pictures of ``runs``: scenarios with their ``run_data``. Raise BadInput for runs of several
    scenarios and for a file that cannot be written."""
    if not wanted(args) or not runs:
        return
    from cachesim.judging.equal_outcomes import fold
    from cachesim.tools.picture.event_sentences import told
    from cachesim.tools.picture.scene import scene

    if len({scenario.id for scenario, _ in runs}) > 1:
        raise BadInput("a picture can show one scenario only", hint="name one scenario; -p may be repeated")
    shown = (shown or Shown())._replace(command=(shown and shown.command) or _command(runs))
    groups = [[data] for _, data in runs] if shown.names else fold([data for _, data in runs])
    of = {id(data): scenario for scenario, data in runs}
    logs = [told(of[id(data)], data["profile"]) for data, *_ in groups] if args.html else []
    scenes = [scene(of[id(data)], data, [one["profile"] for one in same]) for data, *same in groups]
    write_scenes(args, scenes, logs, shown)


def draw_cases(args: Namespace, cases: Iterable[tuple[Scenario, str]], shown: Shown | None = None) -> None:
    """Run scenarios, each under a profile, and write the requested pictures. Raise BadInput if that fails."""
    if not wanted(args):
        return
    from cachesim.judging.judged_run import run_judged
    from cachesim.judging.run_data import run_data

    write_pictures(args, [(scenario, run_data(run_judged(scenario, profile, "provenance")))
                          for scenario, profile in cases], shown)  # fmt: skip


def draw_text(args: Namespace, text: str, shown: Shown | None = None) -> None:
    """Run the scenario file of this text under its first profile and write the requested pictures. The page shows the
    command for its line, or that of ``shown`` if a line cannot express the scenario. Raise BadInput if that fails."""
    if not wanted(args) or not text:
        return
    from cachesim.engines.registry import profiles
    from cachesim.judging.reproduce_command import case_words
    from cachesim.scenarios.load import load_text

    scenario = load_text(text, profiles().keys())
    words = case_words(scenario, scenario.profiles[0])
    if len(words) > 3:                                  # a line
        shown = (shown or Shown())._replace(command=shell_command(["cachesim", "run", *words]))
    draw_cases(args, [(scenario, scenario.profiles[0])], shown)


def write_scenes(args: Namespace, scenes: Sequence[Scene], told: Sequence[Told], shown: Shown) -> None:
    """Write the requested files. ``told``: event log of each run, () = none. Raise BadInput if that fails."""
    from cachesim.base.console import complain
    from cachesim.base.files import write_whole
    from cachesim.tools.picture.chrome_trace import chrome_trace
    from cachesim.tools.picture.page import page
    from cachesim.tools.picture.svg import draw

    texts = {args.svg: draw(scenes)} if args.svg else {}
    if args.html:
        texts[args.html] = page(scenes, shown, told)
    if args.trace:
        texts[args.trace] = chrome_trace(scenes)
    for file, text in texts.items():
        write_whole(Path(file), text.encode())
        complain(f"wrote {file}")


def _command(runs: Runs) -> str:
    """Return a command that shows the runs in a terminal; with a one-line scenario if a line can express it."""
    from cachesim.judging.reproduce_command import case_command
    scenario, data = runs[0]
    more = "".join(f" -p {shell_word(data['profile'])}" for _, data in runs[1:])
    return case_command(scenario, data["profile"]) + more
