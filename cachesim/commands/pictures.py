"""``--html FILE`` and ``--svg FILE``: the runs of a command as a picture, in one file."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Sequence

from cachesim.errors import BadInput

if TYPE_CHECKING:
    from cachesim.scenarios.schema import Scenario


def add_pictures(parser: ArgumentParser) -> None:
    """``--html`` and ``--svg``."""
    parser.add_argument("--html", metavar="FILE", default="", help="write a page: picture and decisions, one file")
    parser.add_argument("--svg", metavar="FILE", default="", help="write the picture alone")


def write_pictures(args: Namespace, runs: Sequence[tuple[Scenario, dict[str, Any]]]) -> None:
    """Write what was asked for; ``runs`` are those of one scenario, as ``run_data`` has them. Raises BadInput for runs
    of several, and for a file that cannot be written."""
    if not (args.html or args.svg) or not runs:
        return
    from cachesim.files import write_whole
    from cachesim.picture.page import page
    from cachesim.picture.scene import scene
    from cachesim.picture.svg import draw
    from cachesim.reports.console import complain

    if len({scenario.id for scenario, _ in runs}) > 1:
        raise BadInput("a picture shows one scenario", hint="name one, with as many -p as you like")
    scenes = [scene(scenario, data) for scenario, data in runs]
    texts = {args.svg: draw(scenes)} if args.svg else {}
    if args.html:
        texts[args.html] = page(scenes, [_decisions(scenario, data) for scenario, data in runs], _command(runs))
    for file, text in texts.items():
        write_whole(Path(file), text.encode())
        complain(f"wrote {file}")


def _decisions(scenario: Scenario, data: dict[str, Any]) -> list[Any]:
    """The decisions of a run in order, in words; it is played once more for them, without judging."""
    from cachesim.api import run
    from cachesim.events import Decided
    from cachesim.picture.page import Step
    from cachesim.reports.sentences import sentence

    found, log = [], run(scenario, data["profile"]).log
    for number in range(len(scenario.steps)):
        for event in log.of(number):
            says = sentence(event.rule, event.value, event.because) if isinstance(event, Decided) else ""
            if says and isinstance(event, Decided):
                found.append(Step(number, event.rule, says))
    return found


def _command(runs: Sequence[tuple[Scenario, dict[str, Any]]]) -> str:
    """What shows the same in a terminal."""
    scenario = runs[0][0]
    profiles = " ".join(f"-p {data['profile']}" for _, data in runs)
    return f"cachesim run {scenario.id} {profiles}" if scenario.file else f"cachesim try '{scenario!r}' {profiles}"
