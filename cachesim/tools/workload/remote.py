"""A job of a workload and its line as JSON strings, for a machine that shares nothing with this one but the files."""

from __future__ import annotations

import json
import os.path
from typing import Any

from cachesim.base.errors import BadInput
from cachesim.tools.workload.lines import id_of
from cachesim.tools.workload.run import CellJob, line_of

PLAY = "cachesim.tools.workload.remote:play"
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
