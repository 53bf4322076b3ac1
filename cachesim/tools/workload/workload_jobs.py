"""Execution of a workload for a command: here or on a cluster, with a folder that receives each line at once."""

from __future__ import annotations

import json
import os.path
from contextlib import closing
from pathlib import Path
from typing import Any, Generator, NamedTuple, Sequence

from cachesim.base.console import complain
from cachesim.base.errors import BadInput, Crash
from cachesim.base.pool import KilledItem, finished
from cachesim.base.progress_bar import progress
from cachesim.tools.run.run_jobs import run_on_cluster
from cachesim.tools.workload.cell_jobs import CellJob, line_of
from cachesim.tools.workload.result_store import WorkloadFolder, id_of

# Jobs of a workload and their lines as JSON strings, for machines that share only the files with this machine.

PLAY = "cachesim.tools.workload.workload_jobs:play"
"""Import path of ``play`` for a worker."""


def packed(job: CellJob, name: str) -> str:
    """Return the job and its id as a JSON object. Paths are absolute: a worker has another current folder."""
    model = os.path.abspath(job.model) if os.path.exists(job.model) else job.model
    files = tuple(map(os.path.abspath, job.files))
    return json.dumps({"id": name, "job": job._replace(files=files, model=model)._asdict()})


def unpacked(text: str) -> CellJob:
    """Parse a job from its JSON object. Raise KeyError, TypeError or ValueError if it is not a valid job."""
    job = CellJob(**json.loads(text)["job"])
    return job._replace(files=tuple(job.files))


def play(text: str) -> str:
    """Run a job. Return {"line": its line} or {"bad": an error of its files}, which includes a file whose bytes differ
    from those that the sender read."""
    try:
        job = unpacked(text)
        if id_of(job) != json.loads(text)["id"]:
            raise BadInput("the worker has a different version of this file", file=job.files[0])
        return json.dumps({"line": line_of(job)})
    except BadInput as bad:
        return json.dumps({"bad": str(bad)})


def line_in(text: str) -> dict[str, Any] | BadInput:
    """Parse the result that a worker returned."""
    data = json.loads(text)
    return dict(data["line"]) if "line" in data else BadInput(str(data["bad"]))


Line = dict[str, Any]
Results = Generator[tuple[int, Line | BadInput | KilledItem], None, None]
"""Pairs of a job's number and its result, in order of completion."""


class WorkloadTask(NamedTuple):
    """A job and its id; the id is "" if the job is neither stored nor sent."""

    job: CellJob
    id: str


def tasks(jobs: Sequence[CellJob]) -> list[WorkloadTask]:
    """Return the jobs with their ids, without duplicates. Raise BadInput if a file cannot be read."""
    named = {id_of(job): job for job in jobs}
    return [WorkloadTask(job, name) for name, job in named.items()]


class Workload:
    """Jobs of a workload. ``lines``: results of completed jobs, by the job's number. ``errors``: why jobs have no
    result, or have one that is not stored; printed at once. ``on``: address of a cluster, "" for this machine."""

    def __init__(self, todo: Sequence[WorkloadTask], folder: WorkloadFolder | None, jobs: int, on: str = "") -> None:
        self.todo = todo
        self.folder = folder
        self.jobs = jobs
        self.on = on
        self.lines: dict[int, Line] = {}
        self.errors: list[BadInput | Crash] = []

    def play(self, resume: bool) -> None:
        """Run the jobs that the folder does not have yet. Raise BadInput if the folder is unusable."""
        known = {} if self.folder is None else self.folder.begin(resume)
        self.lines = {number: known[one.id] for number, one in enumerate(self.todo) if one.id in known}
        left = [number for number in range(len(self.todo)) if number not in self.lines]
        with closing(self._elsewhere(left) if self.on else self._here(left)) as results:
            for number, found in progress(results, len(left), "running"):
                self._take(number, found)

    def _here(self, left: Sequence[int]) -> Results:
        for done in finished(_one, [self.todo[number].job for number in left], self.jobs):
            yield left[done.number], done.result

    def _elsewhere(self, left: Sequence[int]) -> Results:
        texts = (packed(*self.todo[number]) for number in left)
        for done in run_on_cluster(self.on, PLAY, texts):
            yield left[done.number], done.result if isinstance(done.result, KilledItem) else line_in(done.result)

    def _take(self, number: int, found: Line | BadInput | KilledItem) -> None:
        """Store a line, or print and store why it is missing or could not be stored."""
        task = self.todo[number]
        error: BadInput | Crash | None = None
        if isinstance(found, KilledItem):
            error = Crash(f"{task.job.files[0]}: {found.how}, twice (a fault of cachesim)")
        elif isinstance(found, BadInput):
            error = found
        else:
            self.lines[number] = found
            try:
                if self.folder is not None:
                    self.folder.keep(task.id, found)
            except BadInput as bad:
                error = bad
        if error is not None:
            complain(str(error))
            self.errors.append(error)


def _one(job: CellJob) -> Line | BadInput:
    """Return the line of a job; an error of its files becomes the result."""
    try:
        return line_of(job)
    except BadInput as bad:
        return bad.at(str(Path(job.files[0])))
