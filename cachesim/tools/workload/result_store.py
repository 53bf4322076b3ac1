"""Lines of a workload in a folder. A completed job is a line of a file and is not run again.

The first line of a file lists the ids of all jobs of the workload; every other line is a job's id and its numbers. A
line is appended and synced in a single step. An incomplete last line, left by a killed process, is removed on resume.
An id is a digest of everything that the numbers depend on (the bytes of the sessions, not their folders), so that files
from several machines can be merged and a job that occurs in two files counts once.
"""

from __future__ import annotations

import hashlib
import json
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Iterable, Iterator, Mapping, NamedTuple, Sequence

from cachesim.base.code_version import code_version
from cachesim.base.errors import BadInput
from cachesim.base.files import add_line, locked, make_folder, write_new, write_whole
from cachesim.base.json_shapes import INT64, anything, check, each, integer, number, optional, record, text, wanted
from cachesim.base.limits import TRACE_BYTES
from cachesim.base.shard import WHOLE, Shard
from cachesim.base.untrusted_files import parse_json, path_of, read_bytes, real_path
from cachesim.engines.rule_files import rule_file_digest
from cachesim.tools.workload.cell_jobs import CellJob, model_of

FORM = 2                # format version of these files
Line = dict[str, Any]

_count = integer(0, INT64, "a count")


def _pair(value: Any) -> None:
    """Accept a list of two numbers."""
    each(number)(value)
    if len(value) != 2:
        raise wanted("two numbers", value)


_COUNTS = ("sessions", "agents", "requests", "answered", "refused", "died", "prompt", "evaluated", "kept", "restored",
           "loaded", "generated", "least")  # fmt: skip
_TEXTS = ("session", "form", "profile", "model", "layers", "how")
_LINE_FIELDS = {
    **dict.fromkeys(_TEXTS, text), **dict.fromkeys(_COUNTS, _count), "scale": integer(1, INT64, "a scale"),
    "given": record({}, others=anything), "flags": record({}, others=anything),
    "scaled": record({}, others=_pair), "peak_checkpoints": number, "peak_cache": number,
    "wrong": optional(_count), "undecided": optional(_count), "unlimited": optional(_count),
    "lost": optional(record({}, others=_count)),
}  # fmt: skip
_KNOWN = {**_LINE_FIELDS, "predicted": _count}           # older files lack "predicted"
_HEAD = record({"cachesim": text, "form": _count, "jobs": each(text)}, needs=("cachesim", "form", "jobs"))
_ENTRY = record({"id": text, "line": record(_KNOWN, needs=tuple(_LINE_FIELDS))}, needs=("id", "line"))


def id_of(job: CellJob) -> str:
    """Return the id of a job; equal ids mean equal lines. Raise BadInput if a file of the job cannot be read."""
    files = [(Path(file).name, hashlib.sha256(read_bytes(Path(file), TRACE_BYTES, "workload")).hexdigest())
             for file in job.files]  # fmt: skip
    digest = rule_file_digest(job.profile)
    told = [files, job.profile, digest, job.model, model_of(job.model), dict(job.given), *job[4:]]
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:16]


class StoredLines(NamedTuple):
    """Content of a file: the ids of all jobs of the workload, and the lines of completed jobs, by id."""

    jobs: tuple[str, ...]
    lines: Mapping[str, Line]


class WorkloadFolder:
    """File in a folder with the lines of a workload or of a shard of it."""

    def __init__(self, path: Path, jobs: Sequence[str], shard: Shard = WHOLE) -> None:
        """Create the folder if it is missing. ``jobs``: ids of the whole workload. Raise BadInput if it is unusable."""
        self.jobs = tuple(dict.fromkeys(jobs))
        name = hashlib.sha256(json.dumps(self.jobs).encode()).hexdigest()[:8]
        self.file = make_folder(path) / f"workload-{name}{shard.suffix}.jsonl"

    @contextmanager
    def held(self) -> Iterator[None]:
        """Lock the file against other processes. Raise BadInput if another process holds the lock."""
        with locked(self.file.with_name(f".{self.file.name}.lock")) as free:
            if not free:
                raise BadInput("another process is running this workload", file=str(self.file))
            yield

    def begin(self, resume: bool) -> dict[str, Line]:
        """Return the stored lines by id. Raise BadInput if the file exists without ``resume``, or is invalid."""
        if write_new(self.file, self._head()):
            return {}
        if not resume:
            raise BadInput("this workload already exists", file=str(self.file), hint="--resume continues it")
        kept = read_lines(self.file)
        if kept.jobs != self.jobs:
            raise BadInput("not a workload to resume: other jobs", file=str(self.file))
        entries = (_entry(job, line) for job, line in kept.lines.items())
        write_whole(self.file, b"".join((self._head(), *entries)))
        return dict(kept.lines)

    def keep(self, job: str, line: Line) -> None:
        """Append a line. Raise BadInput if it cannot be written; the file is unchanged then."""
        add_line(self.file, _entry(job, line))

    def _head(self) -> bytes:
        return json.dumps({"cachesim": code_version(), "form": FORM, "jobs": self.jobs}).encode() + b"\n"


def _entry(job: str, line: Line) -> bytes:
    return json.dumps({"id": job, "line": line}).encode() + b"\n"


def read_lines(file: Path) -> StoredLines:
    """Read a file that the same code wrote. Raise BadInput with the line number if it is invalid."""
    try:
        whole, _, _ = read_bytes(file, TRACE_BYTES, "workload").rpartition(b"\n")    # drop an incomplete line
    except BadInput as bad:
        raise BadInput(f"not a workload: {bad.cause}", file=str(file)) from None      # `merge` lacks the limit's option
    head, *rest = whole.split(b"\n")
    data = _checked(head, _HEAD, file, 1)
    if (data["cachesim"], data["form"]) != (code_version(), FORM):
        raise BadInput("not a workload: written by other code of cachesim", file=str(file))
    jobs, lines = dict.fromkeys(data["jobs"]), dict[str, Line]()
    for at, one in enumerate(rest, 2):
        entry = _checked(one, _ENTRY, file, at)
        if entry["id"] not in jobs:
            raise BadInput("job is not in the list of the first line", file=str(file), line=at)
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
    """Add a line. Raise BadInput if the job has a different line in another file."""
    if lines.setdefault(job, line) != line:
        raise BadInput(f"job {job} has different numbers in another file", file=str(file),
                       hint="made by different versions of cachesim?")  # fmt: skip


# Merging of files


class MergedWorkload(NamedTuple):
    """A merged workload: its jobs, the lines of completed jobs by id, and its files."""

    jobs: tuple[str, ...]
    lines: Mapping[str, Line]
    files: Sequence[Path]

    @property
    def in_order(self) -> list[Line]:
        """Return the lines in the order of the jobs."""
        return [self.lines[job] for job in self.jobs if job in self.lines]


def files_of(folder: Path) -> list[Path]:
    """Return the workload files in a folder, sorted."""
    return sorted(folder.glob("workload-*.jsonl"))


def merged(files: Iterable[Path]) -> list[MergedWorkload]:
    """Merge the files of each workload, in order of first occurrence. Raise BadInput for an invalid file and for
    different lines of the same job."""
    found: dict[tuple[str, ...], tuple[dict[str, Line], list[Path]]] = {}
    for file in {real_path(file): file for file in files}.values():
        kept = read_lines(file)
        lines, mine = found.setdefault(kept.jobs, ({}, []))
        mine.append(file)
        for job, line in kept.lines.items():
            _enter(lines, job, line, file)
    return [MergedWorkload(jobs, lines, mine) for jobs, (lines, mine) in found.items()]


def write_merged(workload: MergedWorkload, folder: Path) -> None:
    """Write a merged workload as a single run would. Existing lines stay. Raise BadInput if it cannot be written."""
    place = WorkloadFolder(path_of(folder), workload.jobs)
    with place.held():
        known = place.begin(resume=True)
        for job in workload.jobs:
            if job in workload.lines and job not in known:
                place.keep(job, workload.lines[job])
