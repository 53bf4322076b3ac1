"""Command ``cachesim replay FILE...``: compares the simulator with recordings of real servers."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable, Sequence

from cachesim.base import exits
from cachesim.base.console import complain, say_json, show
from cachesim.base.errors import BadInput, NothingFound
from cachesim.base.escaping import shell_word
from cachesim.base.limits import JSON_VALUES, ORDER_WORK, ORDERS, TRACE_BYTES
from cachesim.base.pool import KilledItem, finished_in_order
from cachesim.base.progress_bar import LateBar, progress
from cachesim.base.untrusted_files import FOLDER, files_in, kind, path_of
from cachesim.tools.picture.picture_options import (
    PictureFiles,
    PictureOptions,
    add_pictures,
    picture_files,
    write_scenes,
)
from cachesim.tools.run.arguments import add_json
from cachesim.tools.run.work_arguments import add_jobs_by_number, add_limits, processes_for

if TYPE_CHECKING:
    from cachesim.engines.base import Answer, Request
    from cachesim.engines.contract import Server

Data = dict[str, Any]
BAD, FAULT = "bad", "fault"
"""Scopes of a file that is not a recording, and of a file at which cachesim itself failed."""


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("files", metavar="FILE", nargs="+", help="recorded trace, or folder of recorded traces")
    parser.add_argument("--mode", choices=("none", "provenance", "exact"), default="none",
                        help="comparison of the answers with a cold run, default none")  # fmt: skip
    parser.add_argument("--in-scope", action="store_true", help="omit traces that this build cannot replay")
    add_jobs_by_number(parser)
    add_limits(parser, ORDERS, ORDER_WORK, TRACE_BYTES, JSON_VALUES)
    add_json(parser)
    add_pictures(parser)


def run(args: Namespace) -> int:
    files = find_traces(args.files)
    pictures = picture_files(args)
    if pictures.are_wanted() and len(files) != 1:
        raise BadInput(f"a picture shows a single recording, found {len(files)}", hint="name one file")
    if len(files) == 1:
        with LateBar("replaying"):
            found, ended = [replay_file(files[0], args.mode)], None
    else:
        found, ended = replay_all(files, args.mode, processes_for(args.jobs, len(files)))
    traces = [data for data in found if not (args.in_scope and data["scope"] == "out")]
    if ended is not None:
        complain(f"interrupted: {len(found)} of {len(files)} files replayed")
    elif not traces:
        raise NothingFound("no trace left to replay")
    from cachesim.tools.replay.report import replay_report, totals

    if args.json:
        say_json({"traces": traces, **totals(traces)})
    else:
        show(replay_report(traces))
    if pictures.are_wanted():
        _draw(pictures, files[0], args.mode, traces[0])
    return exits.interrupted(ended) if ended is not None else exits.worst(map(_code, traces))


def _draw(pictures: PictureFiles, file: Path, mode: str, data: Data) -> None:
    """Write a picture of the recording, with the first step at which the simulator differs."""
    from cachesim.engines.registry import profiles
    from cachesim.replay.recorded_trace import read_trace
    from cachesim.tools.replay.recorded_picture import SimulatorDifference, recorded_events, recorded_scene

    first = data["first_difference"]
    differs, note = None, ""
    if first is not None:
        text = ", ".join(f"{name} {value}" for name, value in first.items() if name != "step")
        differs = SimulatorDifference(first["step"], f"the simulator differs: {text}")
        note = f"Step {differs.step}: {differs.text}"
    trace = read_trace(file, profiles())
    scene = recorded_scene(trace, differs)
    command = f"cachesim replay {shell_word(str(file))} --mode {mode}"
    write_scenes(pictures, [scene], [recorded_events(trace)], PictureOptions(command, note))


def find_traces(names: Sequence[str | Path]) -> list[Path]:
    """Return the named files, whether they exist or not, and the recordings in the named folders. Raise BadInput for
    an empty name."""
    out: list[Path] = []
    for name in names:
        path = path_of(name)
        out += files_in(path, ".json") if kind(path) == FOLDER else [path]
    return out


def replay_all(files: Sequence[Path], mode: str, processes: int) -> tuple[list[Data], KeyboardInterrupt | None]:
    """Replay files in ``processes`` processes, with a progress bar on a terminal. A file that cannot be replayed is
    reported on stderr; its result has the reason, and the other results are unaffected. Return the results in the
    order of the files, and the interrupt that ended the replay early (None = complete)."""
    from cachesim.tools.replay.report import not_replayed

    found: dict[int, Data] = {}
    ended = None
    try:
        jobs = [(file, mode) for file in files]
        for one in progress(finished_in_order(replay_one, jobs, processes), len(jobs), "replaying"):
            data, file = one.result, str(one.share[0])
            if isinstance(data, KilledItem):
                data = not_replayed(one.share[0], FAULT, f"{file}: {data.how}, twice (a fault of cachesim)")
            if data["scope"] in (BAD, FAULT):
                complain(data["why"])
            found[one.number] = data
    except KeyboardInterrupt as error:
        ended = error
    return [found[number] for number in sorted(found)], ended


def replay_one(job: tuple[Path, str]) -> Data:
    """``replay_file`` for a worker process: an exception becomes the result of the file."""
    from cachesim.tools.replay.report import not_replayed

    file, mode = job
    try:
        return replay_file(file, mode)
    except BadInput as bad:
        return not_replayed(file, BAD, str(bad.at(str(file))))
    except Exception as error:
        return not_replayed(file, FAULT, f"{file}: {type(error).__name__}: {error} (a fault of cachesim)")


def replay_file(file: Path, mode: str) -> Data:
    """Replay and judge a file; return the result as plain data. Raise BadInput."""
    from cachesim.engines.registry import profiles
    from cachesim.replay.recorded_trace import read_trace
    from cachesim.replay.replay import replay
    from cachesim.tools.replay.report import replay_data

    return replay_data(replay(read_trace(file, profiles()), mode, checker()))


def checker() -> Callable[..., bool | None]:
    """Return a check for ``replay``: a judge for the trace that is called at every answer."""
    from cachesim.judging.compare_answer import Judge

    judges: list[Judge] = []

    def check(server: Server, request: Request, answer: Answer) -> bool | None:
        if not judges:
            judges.append(Judge(server.model))
        kept = answer.status == 200 and not answer.died and answer.id_slot >= 0
        slot = server.inspection.live(answer.id_slot) if kept else None
        return judges[0].judge(request, answer, slot).equal_cold

    return check


def _code(trace: Data) -> int:
    if trace["scope"] in (BAD, FAULT):
        return exits.BAD_INPUT if trace["scope"] == BAD else exits.CRASH
    decided = trace["steps"] - trace["steps_undecided"]
    if trace["steps_agree"] < decided or trace["verdicts_agree"] not in (None, decided):
        return exits.BROKEN
    return exits.UNDECIDED if trace["steps_undecided"] or not trace["steps"] else exits.HOLDS
