"""``cachesim replay FILE...``: does the simulator decide what a real server decided, as recorded?"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Any, Callable

from cachesim.commands import exits
from cachesim.commands.common import add_json, count
from cachesim.errors import BadInput
from cachesim.reports.console import complain, progress, say_json, show


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("files", metavar="FILE", nargs="+", help="recorded trace, or a folder of them")
    parser.add_argument("--mode", choices=("none", "provenance", "exact"), default="none",
                        help="judge answers too: by provenance, or by bits (default none)")  # fmt: skip
    parser.add_argument("--in-scope", action="store_true", help="leave traces out of scope aside")
    parser.add_argument("-j", "--jobs", metavar="N", type=count, default=1, help="processes to use (default 1)")
    add_json(parser)


def run(args: Namespace) -> int:
    files = _files(args.files)
    jobs = [(file, args.mode) for file in files]
    traces = [data for data in progress(_replay_all(jobs, args.jobs), len(jobs), "replaying") if not _aside(data, args)]
    if not traces:
        complain("no trace left to replay")
        return exits.NOTHING
    from cachesim.reports.replay_report import replay_report, totals

    if args.json:
        say_json({"traces": traces, **totals(traces)})
    else:
        show(replay_report(traces))
    return _code(totals(traces), traces)


def _aside(data: dict[str, Any], args: Namespace) -> bool:
    return bool(args.in_scope and data["scope"] == "out")


def _files(names: list[str]) -> list[Path]:
    """The files named, and those in the folders named. Raises BadInput for what is not there."""
    out: list[Path] = []
    for name in names:
        path = Path(name)
        if not path.exists():
            raise BadInput("no such file or directory", file=name)
        out += sorted(path.rglob("*.json")) if path.is_dir() else [path]
    return out


def _replay_all(jobs: list[tuple[Path, str]], processes: int) -> Any:
    if processes < 2 or len(jobs) < 2:
        yield from map(replay_one, jobs)
        return
    from concurrent.futures import ProcessPoolExecutor

    with ProcessPoolExecutor(processes) as pool:
        yield from pool.map(replay_one, jobs, chunksize=4)


def replay_one(job: tuple[Path, str]) -> dict[str, Any]:
    """Replay and judge one file; the result as plain data. Raises BadInput."""
    from cachesim.engines.registry import profiles
    from cachesim.live.replay import replay
    from cachesim.live.trace import read_trace
    from cachesim.reports.replay_report import replay_data

    file, mode = job
    return replay_data(replay(read_trace(file, profiles()), mode, checker()))


def checker() -> Callable[..., bool | None]:
    """A check for ``replay``: one judge for the trace, told of the server at every answer."""
    from cachesim.engines.registry import engine_of
    from cachesim.judge.judge import Judge

    judges: list[Judge] = []

    def check(server: Any, request: Any, answer: Any) -> bool | None:
        if not judges:
            judges.append(Judge(server.context.model))
        kit = engine_of(server.rules.name)
        slot = kit.live(server, answer.id_slot) if answer.status == 200 and not answer.died else None
        return judges[0].judge(request, answer, slot).equal_cold

    return check


def _code(sums: dict[str, Any], traces: list[dict[str, Any]]) -> int:
    decided = sums["steps"] - sums["steps_undecided"]
    if sums["steps_agree"] < decided or sums["verdicts_agree"] < sums["verdicts"]:
        return exits.BROKEN
    return exits.UNDECIDED if sums["steps_undecided"] else exits.HOLDS
