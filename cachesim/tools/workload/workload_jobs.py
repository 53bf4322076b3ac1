"""A workload as a command plays it: here or on a cluster, with a folder that takes each line when it is known."""

from __future__ import annotations

import json
import os.path
from contextlib import closing
from pathlib import Path
from typing import Any, Generator, NamedTuple, Sequence

from cachesim.base import exits
from cachesim.base.console import complain, progress
from cachesim.base.errors import BadInput
from cachesim.base.pool import Unfinished, finished
from cachesim.tools.run.run_jobs import played_elsewhere
from cachesim.tools.workload.cell_jobs import CellJob, line_of
from cachesim.tools.workload.result_store import WorkloadFolder, id_of

# A job of a workload and its line as JSON strings, for a machine that shares nothing with this one but the files.

PLAY = "cachesim.tools.workload.workload_jobs:play"
"""The name under which a worker imports ``play``."""


def packed(job: CellJob, name: str) -> str:
    """The job and its id as a JSON object; files by their whole paths, since a worker has another current folder."""
    model = os.path.abspath(job.model) if os.path.exists(job.model) else job.model
    files = tuple(map(os.path.abspath, job.files))
    return json.dumps({"id": name, "job": job._replace(files=files, model=model)._asdict()})


def unpacked(text: str) -> CellJob:
    """The job of a JSON object. Raises KeyError, TypeError or ValueError for what is none."""
    job = CellJob(**json.loads(text)["job"])
    return job._replace(files=tuple(job.files))


def play(text: str) -> str:
    """Play a job: {"line": its line}, or {"bad": what is wrong with its files}. A file with other bytes than those that
    were asked for is not played."""
    try:
        job = unpacked(text)
        if id_of(job) != json.loads(text)["id"]:
            raise BadInput("this file is another one on a worker", file=job.files[0])
        return json.dumps({"line": line_of(job)})
    except BadInput as bad:
        return json.dumps({"bad": str(bad)})


def line_in(text: str) -> dict[str, Any] | BadInput:
    """What a worker told."""
    data = json.loads(text)
    return dict(data["line"]) if "line" in data else BadInput(str(data["bad"]))


Line = dict[str, Any]
Results = Generator[tuple[int, Line | BadInput | Unfinished], None, None]
"""Pairs of the number of a job and what came of it, as they come."""


class WorkloadTask(NamedTuple):
    """A job, and its id where it is kept or sent ("" where it is neither)."""

    job: CellJob
    id: str


def tasks(jobs: Sequence[CellJob]) -> list[WorkloadTask]:
    """Each job with its id, each id once. Raises BadInput where a file cannot be read."""
    named = {id_of(job): job for job in jobs}
    return [WorkloadTask(job, name) for name, job in named.items()]


class Workload:
    """Jobs of a workload. ``lines``: those that are done, by the number of the job; ``codes``: the exit codes of what
    could not be played or kept, all of which is told. ``on``: the address of a cluster; "" = this machine."""

    def __init__(self, todo: Sequence[WorkloadTask], folder: WorkloadFolder | None, jobs: int, on: str = "") -> None:
        self.todo, self.folder, self.jobs, self.on = todo, folder, jobs, on
        self.lines: dict[int, Line] = {}
        self.codes: list[int] = []

    def play(self, resume: bool) -> None:
        """Play what is not in the folder yet. Raises BadInput where there is a folder that cannot be taken."""
        known = {} if self.folder is None else self.folder.begin(resume)
        self.lines = {number: known[one.id] for number, one in enumerate(self.todo) if one.id in known}
        left = [number for number in range(len(self.todo)) if number not in self.lines]
        with closing(self._elsewhere(left) if self.on else self._here(left)) as results:
            for number, found in progress(results, len(left), "playing"):
                self._take(number, found)

    def _here(self, left: Sequence[int]) -> Results:
        for done in finished(_one, [self.todo[number].job for number in left], self.jobs):
            yield left[done.number], done.result

    def _elsewhere(self, left: Sequence[int]) -> Results:
        texts = (packed(*self.todo[number]) for number in left)
        for done in played_elsewhere(self.on, PLAY, texts):
            yield left[done.number], done.result if isinstance(done.result, Unfinished) else line_in(done.result)

    def _take(self, number: int, found: Line | BadInput | Unfinished) -> None:
        """Keep a line, or tell why there is none, or why it cannot be kept."""
        task = self.todo[number]
        if isinstance(found, Unfinished):
            complain(f"{task.job.files[0]}: {found.how}, twice (a fault of cachesim)")
            self.codes.append(exits.CRASH)
        elif isinstance(found, dict):
            self.lines[number] = found
            try:
                if self.folder is not None:
                    self.folder.keep(task.id, found)
            except BadInput as bad:
                found = bad
        if isinstance(found, BadInput):
            complain(str(found))
            self.codes.append(exits.BAD_INPUT)


def _one(job: CellJob) -> Line | BadInput:
    """The line of a job; what is wrong with its files becomes the result."""
    try:
        return line_of(job)
    except BadInput as bad:
        return bad.at(str(Path(job.files[0])))
