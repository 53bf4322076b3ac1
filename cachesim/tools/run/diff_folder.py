"""Command ``cachesim diff FOLDER``: run every scenario of a folder under two rule sets and sum up the differences."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Sequence

from cachesim.base import exits
from cachesim.base.console import complain, say_json, show
from cachesim.base.errors import BadInput
from cachesim.base.pool import KilledItem, finished_in_order
from cachesim.base.progress_bar import progress
from cachesim.tools.run.arguments import complain_of, load_files, modes
from cachesim.tools.run.run_jobs import JobFailure, answers_code, result_or_failure
from cachesim.tools.run.work_arguments import processes_for

if TYPE_CHECKING:
    from cachesim.scenarios.schema import Scenario


class ScenarioPair(NamedTuple):
    """A scenario to run under two profiles, ``a`` and ``b``. ``mode``: "exact" or "provenance"; ``log``: compare the
    lines of the log, too."""

    scenario: Scenario
    a: str
    b: str
    mode: str
    log: bool = False

    def __str__(self) -> str:
        return self.scenario.file or self.scenario.id


def compare_folder(
    folder: str, a: str, b: str, *, mode: str, log: bool, processes: int | None, as_json: bool, plot: str = ""
) -> int:
    """Run every scenario in a folder that belongs to the profiles' engine under both profiles, and print the
    differences. Return the exit code. Raise BadInput.

    ``mode``: "exact" or "provenance" for all scenarios, "" = by their length; ``log``: compare the lines of the log,
    too; ``processes``: None = by the number of scenarios; ``plot``: file for a plot, "" = none.
    """
    from cachesim.engines.registry import engine_of
    from cachesim.tools.run.diff_folder_report import diff_table, totals

    engine = engine_of(a)
    if engine_of(b) is not engine:
        raise BadInput(f"{a} and {b} are of different engines", hint="expected two rule sets of one engine")
    scenarios, bad = load_files([folder])
    own = [scenario for scenario in scenarios if scenario.engine == engine.name]
    complain_of(bad, nothing_left=not own, what=f"no scenario of {engine.name} found in {folder}")
    pairs = [
        ScenarioPair(scenario, a, b, own_mode, log)
        for scenario, own_mode in zip(own, modes(own, mode), strict=True)
    ]
    files, codes, interrupt = _compare(pairs, processes)
    codes += [exits.BAD_INPUT for _ in bad]
    data = {
        "a": a, "b": b, "folder": folder, "other_engines": len(scenarios) - len(own), "failed": len(codes),
        "totals": totals(files), "files": files,
    }  # fmt: skip
    if as_json:
        say_json(data)
    else:
        show(diff_table(data))
    if plot:
        from cachesim.tools.picture.plot_file import write_plots
        from cachesim.tools.run.diff_folder_plot import folder_plots

        write_plots(plot, folder_plots(data), diff_table(data))
    if interrupt is not None:
        complain(f"interrupted: compared {len(files)} of {len(own)} scenarios")
        return exits.interrupted(interrupt)
    answers = (answer for file in files for answer in file["answers"])
    return exits.worst([*codes, answers_code((answer["equal"], answer["told"]) for answer in answers)])


def _compare(
    pairs: Sequence[ScenarioPair], jobs: int | None
) -> tuple[list[dict[str, Any]], list[int], KeyboardInterrupt | None]:
    """Return the differences of each scenario in order, the exit codes of failed scenarios (whose errors are printed),
    and the interrupt that ended the comparison early, if any."""
    found: dict[int, dict[str, Any]] = {}
    codes: list[int] = []
    interrupt = None
    try:
        results = finished_in_order(compare_one, pairs, processes_for(jobs, len(pairs)))
        for done in progress(results, len(pairs), "comparing"):
            result = done.result
            if isinstance(result, KilledItem):
                result = JobFailure(exits.CRASH, f"{done.share}: {result.how}, twice")
            if isinstance(result, JobFailure):
                complain(result.why)
                codes.append(result.code)
            else:
                found[done.number] = result
    except KeyboardInterrupt as error:
        interrupt = error
    return [found[number] for number in sorted(found)], codes, interrupt


def compare_one(pair: ScenarioPair) -> dict[str, Any] | JobFailure:
    """Compare a pair in a worker process; return a JobFailure instead of raising."""
    return result_or_failure(_compared, pair, str(pair))


def _compared(pair: ScenarioPair) -> dict[str, Any]:
    from cachesim.judging.judged_run import run_judged
    from cachesim.judging.run_data import run_data
    from cachesim.tools.run.diff_folder_report import file_data
    from cachesim.tools.run.diff_report import observed_data

    a, b = (run_judged(pair.scenario, name, pair.mode, with_ledger=False) for name in (pair.a, pair.b))
    return file_data(str(pair), run_data(a), run_data(b), observed_data(a, b, pair.log))
