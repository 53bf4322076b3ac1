"""``cachesim workload FILE... -p PROFILE``: computes the cost of recorded workloads under the rules of a server."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError, Namespace
from typing import TYPE_CHECKING, Any, Mapping, NamedTuple, Sequence

from cachesim.base import exits
from cachesim.base.console import complain, say_json, show
from cachesim.base.errors import BadInput, error_data
from cachesim.base.limits import JSON_VALUES, TRACE_BYTES, WORKLOAD_TOKENS
from cachesim.base.untrusted_files import path_of
from cachesim.tools.picture.plot_file import add_plot, plot_file
from cachesim.tools.run import arguments, work_arguments
from cachesim.tools.run.run_jobs import check_cluster_profiles

if TYPE_CHECKING:
    from cachesim.tools.workload.cell_jobs import CellJob
    from cachesim.tools.workload.workload_jobs import Workload

DETAIL = {"counts": "counted", "answers": "judged", "causes": "billed"}


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("files", metavar="FILE", nargs="+", help="recorded sessions (kv-cache-tester, Mooncake, JSON "
                        "lines of block ids, a scenario that an import wrote), or folders of them")  # fmt: skip
    arguments.add_profiles(parser)
    arguments.add_settings(parser)
    parser.add_argument("--model", default="qwen3-next",
                        help="real model by name, its config.json or GGUF, or layers (default qwen3-next)")  # fmt: skip
    parser.add_argument("--scale", metavar="N", type=_at_least_one, default=1, help="tokens simulated as one; flags "
                        "that count tokens are scaled, too (default 1)")  # fmt: skip
    parser.add_argument("--sessions", metavar="N", type=_at_least_one, default=1,
                        help="files that use one server at the same time (default 1)")  # fmt: skip
    parser.add_argument("--detail", choices=DETAIL, help="count tokens, also judge answers, or also find the cause of "
                        "every re-evaluated token (default; counts for a curve)")  # fmt: skip
    parser.add_argument("--curve", metavar="NAME[=VALUE,...]", help="evaluated tokens along an axis: a server flag "
                        "(num_gpu_blocks, cache_ram=0,8192), memory (=16GiB,32GiB), or sessions at a time")  # fmt: skip
    parser.add_argument("--direct", action="store_true", help="run each value of a curve, also where one run tells all")
    work_arguments.add_replicas(parser)
    work_arguments.add_jobs(parser)
    work_arguments.add_cluster(parser, "jobs (sessions under each rule set)")
    parser.add_argument("--out", metavar="FOLDER", help="folder for the results, written as soon as they are known")
    parser.add_argument("--resume", action="store_true", help="continue the workload in the folder")
    work_arguments.add_limits(parser, TRACE_BYTES, JSON_VALUES, WORKLOAD_TOKENS)
    arguments.add_json(parser)
    add_plot(parser, "with --curve, evaluated tokens against the values")


def _at_least_one(text: str) -> int:
    found = work_arguments.count(text)
    if not found:
        raise ArgumentTypeError("must be at least 1")
    return found


class JobOptions(NamedTuple):
    """How recorded sessions are simulated."""

    model: str                      # real model by name or file, or layers
    profiles: Sequence[str] = ()    # rule sets, () = the default one
    settings: Sequence[str] = ()    # server options key=value
    sessions: int = 1               # files that use one server at the same time
    scale: int = 1                  # tokens simulated as one
    detail: str = "causes"          # a key of DETAIL


def run(args: Namespace) -> int:
    from cachesim.base.shard import WHOLE
    from cachesim.tools.workload.result_store import WorkloadFolder
    from cachesim.tools.workload.workload_jobs import Workload, WorkloadTask, tasks

    if args.resume and args.out is None:
        raise BadInput("--resume needs a folder", hint="add --out FOLDER")
    if plot_file(args) and not args.curve:
        raise BadInput("--plot needs --curve")
    options = JobOptions(
        model=args.model, profiles=args.profiles, settings=args.settings, sessions=args.sessions, scale=args.scale,
        detail=args.detail or ("counts" if args.curve else "causes"),
    )  # fmt: skip
    replicas = work_arguments.replica_options(args)
    todo = jobs(args.files, options)
    check_cluster_profiles(args.on, [job.profile for job in todo])
    if replicas is not None:
        return _run_replicas(args, todo, replicas)
    if args.curve:
        return _run_curve(args, todo)
    if args.direct:
        raise BadInput("--direct needs --curve")
    every = tasks(todo) if args.on or args.out is not None else [WorkloadTask(job, "") for job in todo]
    part = args.shard or WHOLE
    mine = every[slice(*part.span(len(every)))]
    if args.out is None:
        return _play(Workload(mine, None, args.jobs, args.on or ""), resumes=args.resume, as_json=args.json)
    folder = WorkloadFolder(path_of(args.out), [one.id for one in every], part)
    with folder.held():
        return _play(Workload(mine, folder, args.jobs, args.on or ""), resumes=args.resume, as_json=args.json)


def _run_replicas(args: Namespace, todo: Sequence[CellJob], options: work_arguments.ReplicaOptions) -> int:
    """Run a workload on several servers and print what they evaluate. Return the exit code."""
    from cachesim.tools.run.replicas.fleet_report import fleet_data, fleet_report
    from cachesim.tools.workload.replica_jobs import replica_cases

    for name, value in (("--curve", args.curve), ("--on", args.on), ("--out", args.out), ("--shard", args.shard)):
        if value is not None:
            raise BadInput(f"--replicas does not go with {name}")
    if args.detail not in (None, "counts"):
        raise BadInput(f"--replicas counts tokens: --detail {args.detail} is for one server")
    found = replica_cases(todo, options, args.jobs)
    codes = [error.code if isinstance(error, BadInput) else exits.CRASH for error in found.errors]
    if args.json and (found.cases or not found.errors):
        say_json(fleet_data(found.cases))
    elif args.json:
        say_json(error_data("input", exits.worst(codes), found.errors[-1]))
    else:
        show(*fleet_report(fleet_data(found.cases), shows_requests=False))
    return exits.worst(codes)


def _run_curve(args: Namespace, todo: Sequence[CellJob]) -> int:
    """Compute and print the curves of a workload. ``todo``: its jobs without a curve. Return the exit code."""
    from cachesim.tools.workload.curve import CurveSetup, curves, plan
    from cachesim.tools.workload.curve_axis import parse_request
    from cachesim.tools.workload.curve_report import curves_data, curves_report
    from cachesim.tools.workload.workload_files import find_files

    if args.out is not None or args.shard is not None:
        raise BadInput("--curve does not store results: --out and --shard are for workloads without a curve")
    if args.detail not in (None, "counts"):
        raise BadInput(f"--curve counts tokens: --detail {args.detail} is for workloads without a curve")
    setup = CurveSetup(
        request=parse_request(args.curve),
        files=[str(file) for file in find_files(args.files)],
        is_direct=args.direct,
        jobs=args.jobs,
        on=args.on or "",
    )
    found = curves(setup, plan(setup, todo))
    codes = [error.code if isinstance(error, BadInput) else exits.CRASH for error in found.errors]
    data = curves_data(found.curves)
    if args.json and (found.curves or not found.errors):
        say_json(data)
    elif args.json:
        last = found.errors[-1]
        say_json(error_data("input" if isinstance(last, BadInput) else "crash", exits.worst(codes), last))
    else:
        show(*curves_report(data))
    if args.plot:
        from rich.console import Group

        from cachesim.tools.picture.plot_file import write_plots
        from cachesim.tools.workload.curve_plot import curve_plots

        write_plots(args.plot, curve_plots(data), Group(*curves_report(data)))
    return exits.worst(codes)


def _play(whole: Workload, *, resumes: bool, as_json: bool) -> int:
    """Run the jobs of a workload and print the numbers. ``resumes``: continue the workload in its folder. Return the
    exit code."""
    ended = None
    try:
        whole.play(resumes)
    except KeyboardInterrupt as error:
        ended = error
        complain("interrupted: results so far")
    codes = [error.code if isinstance(error, BadInput) else exits.CRASH for error in whole.errors]
    if whole.lines or not codes:
        codes = [*codes, *_tell([whole.lines[number] for number in sorted(whole.lines)], as_json)]
    elif as_json and not ended:
        last = whole.errors[-1]
        say_json(error_data("input" if isinstance(last, BadInput) else "crash", exits.worst(codes), last))
    return exits.interrupted(ended) if ended else exits.worst(codes)


def _tell(lines: Sequence[dict[str, Any]], as_json: bool) -> list[int]:
    """Print the lines and their sums. Return the exit code of each sum."""
    from cachesim.tools.workload.cell_jobs import totals_of
    from cachesim.tools.workload.report import workload_data, workload_report

    data = workload_data(lines, totals_of(lines))
    if as_json:
        say_json(data)
    elif lines:
        show(*workload_report(data))
    else:
        complain("no results: no job was run")
    return [code_of(one) for one in data["totals"]]


def jobs(names: Sequence[str], options: JobOptions) -> list[CellJob]:
    """Return a job for each server and rule set. ``names``: files of recorded sessions, or folders of them. Raise
    BadInput for invalid options and if there are no files."""
    from cachesim.scenarios.option_checks import check_has, check_profile, parse_settings
    from cachesim.scenarios.schema import DEFAULT_PROFILE
    from cachesim.tools.workload.cell_jobs import CellJob, model_of
    from cachesim.tools.workload.workload_files import find_files

    files = find_files(names)
    if not files:
        raise BadInput("the folders contain no workload", hint="files end in .json or .jsonl")
    sessions = options.sessions
    groups = [tuple(map(str, files[i : i + sessions])) for i in range(0, len(files), sessions)]
    model_of(options.model)
    out = []
    for profile in dict.fromkeys(options.profiles or [DEFAULT_PROFILE]):
        engine = profile.partition("@")[0]
        check_profile(profile, engine, arguments.known_profiles())
        check_has(options.model, engine)
        given = parse_settings(options.settings, engine)
        detail = DETAIL[options.detail]
        out += [CellJob(group, profile, options.model, given, options.scale, detail, True) for group in groups]
    return out


def code_of(total: Mapping[str, Any]) -> int:
    """Return the exit code of a sum: BROKEN if an answer is wrong or a server died, UNDECIDED, or HOLDS."""
    if total["wrong"] or total["died"]:
        return exits.BROKEN
    return exits.UNDECIDED if total["undecided"] else exits.HOLDS
