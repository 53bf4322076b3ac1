"""The lines of a workload in a folder: a job that is done is a line of a file, and is never played again.

The first line of a file says which jobs the whole workload has, by their ids; every other one is a job's id and its
line of numbers. A line is added in one step and is on the disk then. What a killed process left of its last line is no
line: it is cut off by whoever goes on. An id is made from everything that the numbers depend on (the bytes of the
sessions, not where they lie), so that files from several machines merge, and a job that is in two of them counts once.
"""

from __future__ import annotations

import hashlib
import json
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Iterable, Iterator, Mapping, NamedTuple, Sequence

from cachesim import __version__
from cachesim.base.errors import BadInput
from cachesim.base.files import add_line, locked, make_folder, write_new, write_whole
from cachesim.base.json_shapes import INT64, anything, check, each, integer, number, optional, record, text
from cachesim.base.limits import TRACE_BYTES
from cachesim.base.shard import WHOLE, Shard
from cachesim.base.untrusted_files import parse_json, path_of, read_bytes
from cachesim.engines.rule_files import rule_file_digest
from cachesim.tools.workload.cell_jobs import CellJob, model_of

FORM = 2                # of these files
Line = dict[str, Any]

_count = integer(0, INT64, "a count")
_COUNTS = ("sessions", "agents", "requests", "answered", "refused", "died", "prompt", "evaluated", "kept", "restored",
           "loaded", "generated", "least")  # fmt: skip
_TEXTS = ("session", "form", "profile", "model", "layers", "how")
_LINE_FIELDS = {
    **dict.fromkeys(_TEXTS, text), **dict.fromkeys(_COUNTS, _count), "scale": integer(1, INT64, "a scale"),
    "given": record({}, others=anything), "flags": record({}, others=anything),
    "scaled": record({}, others=each(number)), "peak_checkpoints": number, "peak_cache": number,
    "wrong": optional(_count), "undecided": optional(_count), "unlimited": optional(_count),
    "lost": optional(record({}, others=_count)),
}  # fmt: skip
_KNOWN = {**_LINE_FIELDS, "predicted": _count}           # older files lack the last one
_HEAD = record({"cachesim": text, "form": _count, "jobs": each(text)}, needs=("cachesim", "form", "jobs"))
_ENTRY = record({"id": text, "line": record(_KNOWN, needs=tuple(_LINE_FIELDS))}, needs=("id", "line"))


def id_of(job: CellJob) -> str:
    """Equal ids mean equal lines. Raises BadInput where a file of the job cannot be read."""
    files = [(Path(file).name, hashlib.sha256(read_bytes(Path(file), TRACE_BYTES, "workload")).hexdigest())
             for file in job.files]  # fmt: skip
    digest = rule_file_digest(job.profile)
    told = [files, job.profile, digest, job.model, model_of(job.model), dict(job.given), *job[4:]]
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:16]


class StoredLines(NamedTuple):
    """What is in a file: the ids of all jobs of the workload, and the lines of those that are done, by id."""

    jobs: tuple[str, ...]
    lines: Mapping[str, Line]


class WorkloadFolder:
    """Where the lines of a workload, or of a part of it, are kept."""

    def __init__(self, path: Path, jobs: Sequence[str], shard: Shard = WHOLE) -> None:
        """Make the folder if it is missing, and try it. ``jobs``: the ids of all of the workload. Raises BadInput."""
        self.jobs = tuple(dict.fromkeys(jobs))
        name = hashlib.sha256(json.dumps(self.jobs).encode()).hexdigest()[:8]
        self.file = make_folder(path) / f"workload-{name}{shard.suffix}.jsonl"

    @contextmanager
    def held(self) -> Iterator[None]:
        """No other process works on this file inside. Raises BadInput if one does."""
        with locked(self.file.with_name(f".{self.file.name}.lock")) as free:
            if not free:
                raise BadInput("another process is at work on this workload", file=str(self.file))
            yield

    def begin(self, resume: bool) -> dict[str, Line]:
        """The lines that are there, by id. Raises BadInput if it is there and not to be resumed, or none of ours."""
        if write_new(self.file, self._head()):
            return {}
        if not resume:
            raise BadInput("this workload is here already", file=str(self.file), hint="--resume goes on with it")
        kept = read_lines(self.file)
        if kept.jobs != self.jobs:
            raise BadInput("not a workload to resume: other jobs", file=str(self.file))
        entries = (_entry(job, line) for job, line in kept.lines.items())
        write_whole(self.file, b"".join((self._head(), *entries)))
        return dict(kept.lines)

    def keep(self, job: str, line: Line) -> None:
        """Add a line. Raises BadInput where it cannot be written; the file is as it was then."""
        add_line(self.file, _entry(job, line))

    def _head(self) -> bytes:
        return json.dumps({"cachesim": __version__, "form": FORM, "jobs": self.jobs}).encode() + b"\n"


def _entry(job: str, line: Line) -> bytes:
    return json.dumps({"id": job, "line": line}).encode() + b"\n"


def read_lines(file: Path) -> StoredLines:
    """What is in a file of this version. Raises BadInput, with the line, for what is none."""
    whole, _, _ = read_bytes(file, TRACE_BYTES, "workload").rpartition(b"\n")    # behind the last end: cut short
    head, *rest = whole.split(b"\n")
    data = _checked(head, _HEAD, file, 1)
    if (data["cachesim"], data["form"]) != (__version__, FORM):
        raise BadInput("not a workload: of another version of cachesim", file=str(file))
    jobs, lines = dict.fromkeys(data["jobs"]), dict[str, Line]()
    for at, one in enumerate(rest, 2):
        entry = _checked(one, _ENTRY, file, at)
        if entry["id"] not in jobs:
            raise BadInput("a job that the workload does not have", file=str(file), line=at)
        _enter(lines, entry["id"], entry["line"], file)
    return StoredLines(tuple(jobs), lines)


def _checked(data: bytes, shape: Any, file: Path, at: int) -> Any:
    try:
        value = parse_json(data, str(file), "line")
        check(value, shape, str(file))
    except BadInput as bad:
        raise BadInput(f"not a workload: {bad.cause}", file=str(file), line=at) from None
    return value


def _enter(lines: dict[str, Line], job: str, line: Line, file: Path) -> None:
    """One more line. A job has one line, wherever it was played. Raises BadInput."""
    if lines.setdefault(job, line) != line:
        raise BadInput(f"job {job} has other numbers elsewhere", file=str(file), hint="was it the same cachesim?")


# Parts become one


class MergedWorkload(NamedTuple):
    """A workload that was put together: its jobs, the lines of those that are done, by id, and its files."""

    jobs: tuple[str, ...]
    lines: Mapping[str, Line]
    files: Sequence[Path]

    @property
    def in_order(self) -> list[Line]:
        """The lines as one process would have made them."""
        return [self.lines[job] for job in self.jobs if job in self.lines]


def files_of(folder: Path) -> list[Path]:
    """The files of workloads in a folder."""
    return sorted(folder.glob("workload-*.jsonl"))


def merged(files: Iterable[Path]) -> list[MergedWorkload]:
    """One for each workload, in the order in which they come. Raises BadInput for a file that is none, and for two
    that say different things of one job."""
    found: dict[tuple[str, ...], tuple[dict[str, Line], list[Path]]] = {}
    for file in {file.resolve(): file for file in files}.values():
        kept = read_lines(file)
        lines, mine = found.setdefault(kept.jobs, ({}, []))
        mine.append(file)
        for job, line in kept.lines.items():
            _enter(lines, job, line, file)
    return [MergedWorkload(jobs, lines, mine) for jobs, (lines, mine) in found.items()]


def write_merged(one: MergedWorkload, folder: Path) -> None:
    """Write it as if it had been played in one place; what is there already stays. Raises BadInput."""
    place = WorkloadFolder(path_of(folder), one.jobs)
    with place.held():
        known = place.begin(resume=True)
        for job in one.jobs:
            if job in one.lines and job not in known:
                place.keep(job, one.lines[job])
