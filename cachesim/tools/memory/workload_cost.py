"""What recorded sessions evaluate on the server whose memory is estimated, and with the smaller values of its
options."""

from __future__ import annotations

from pathlib import Path
from typing import Mapping, NamedTuple, Sequence

from cachesim.base.errors import BadInput
from cachesim.base.progress_bar import LateBar
from cachesim.engines.capabilities import Option
from cachesim.engines.registry import engine_of
from cachesim.tools.memory.estimate import Lowered, MemoryEstimate
from cachesim.tools.workload.cell_jobs import CellJob, read_all
from cachesim.tools.workload.curve_memory import server_memory
from cachesim.tools.workload.curve_point import CurveCell
from cachesim.tools.workload.workload_files import find_files
from cachesim.tools.workload.workload_jobs import Workload, WorkloadTask


class CostQuestion(NamedTuple):
    """Sessions that use the server at the same time. ``room``: memory of its caches [bytes], 0 = not given."""

    files: Sequence[str]
    model: str
    room: int
    scale: int
    jobs: int


class WorkloadCost(NamedTuple):
    """What all sessions together evaluate. ``unlimited``: evaluated tokens with unlimited memory; ``lower``: the
    numbers with each smaller value, None = the server does not start with it; ``at_a_time``: those with 1, 2, 4 and so
    on of the sessions at a time."""

    given: Mapping[str, Option]
    whole: CurveCell
    unlimited: int
    lower: Sequence[CurveCell | None]
    at_a_time: Mapping[int, CurveCell]


def workload_cost(question: CostQuestion, found: MemoryEstimate) -> WorkloadCost:
    """Run the sessions on the estimated server, with each smaller value of an option, and fewer at a time. Raise
    BadInput for invalid files, and if the server does not run with its own options."""
    files = tuple(str(file) for file in find_files(question.files))
    if not files:
        raise BadInput("the folders contain no workload", hint="files end in .json or .jsonl")
    with LateBar("reading sessions"):
        read_all([Path(file) for file in files])
    given = _filled(question, found)
    base = CellJob(files, found.rules.name, question.model, given, question.scale, bounds=True)
    at_a_time = _at_a_time(len(files))
    groups = {n: [files[first : first + n] for first in range(0, len(files), n)] for n in at_a_time}
    jobs = [base]
    jobs += [base._replace(given=_changed(given, one), bounds=False) for one in found.lower]
    jobs += [base._replace(files=group, bounds=False) for n in at_a_time for group in groups[n]]
    workload = Workload([WorkloadTask(job, "") for job in jobs], None, question.jobs)
    workload.play(resume=False)
    if 0 not in workload.lines:
        raise workload.errors[0]
    cells = [CurveCell.of(workload.lines[number]) if number in workload.lines else None for number in range(len(jobs))]
    whole = cells[0]
    assert whole is not None
    rest = iter(cells[1 + len(found.lower) :])
    counts: dict[int, CurveCell] = {}
    for n in at_a_time:
        parts = [next(rest) for _ in groups[n]]
        done = [cell for cell in parts if cell is not None]
        if len(done) == len(parts):
            counts[n] = CurveCell.summed(done)
    counts[len(files)] = whole
    return WorkloadCost(given, whole, int(workload.lines[0]["unlimited"]), cells[1 : 1 + len(found.lower)], counts)


def _at_a_time(files: int) -> list[int]:
    """Return 1, 2, 4 and so on, below the number of files."""
    found = []
    n = 1
    while n < files:
        found.append(n)
        n *= 2
    return found


def _filled(question: CostQuestion, found: MemoryEstimate) -> dict[str, Option]:
    """Return the options of the server that it simulates, with the value that fills the given memory."""
    engine = engine_of(found.rules.name)
    known = engine.manual.defaults
    given = {name: value for name, value in found.given.items() if name in known}
    forms = engine.capacity()
    size = forms.sizes[0] if forms else None
    if size is None or not size.filled or size.option in given or not question.room:
        return given
    memory = server_memory(found.rules.name, question.model, given, longest=0)
    return {**given, size.option: memory.largest(size, question.room, "the memory")}


def _changed(given: Mapping[str, Option], change: Lowered) -> dict[str, Option]:
    """Return the options with a smaller value."""
    return {**given, change.option: change.after}
