"""Jobs of a workload: sessions under a rule set, a model and a setting, and the resulting lines of numbers.

Jobs and lines are plain data, so that they can be sent, stored and merged. Tokens in a line are tokens of the
recording: for a scaled workload, simulated tokens times the scale.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, Mapping, NamedTuple, Sequence

from cachesim.base.errors import BadInput
from cachesim.base.limits import NEW_TOKENS, WORKLOAD_TOKENS
from cachesim.engines.capabilities import Option
from cachesim.engines.registry import engine_of
from cachesim.engines.shared.model_sizes import ModelSizes, known_sizes, sizes_of
from cachesim.tools.workload.block_tokens import SessionRequest, played
from cachesim.tools.workload.recorded_session import WorkloadSession, merged
from cachesim.tools.workload.run_cell import COUNTED, Cell, cell
from cachesim.tools.workload.simulated_servers import served, unlimited
from cachesim.tools.workload.workload_files import read_session

TOKENS = ("prompt", "evaluated", "kept", "restored", "loaded", "generated", "least")
"""Numbers of a cell that count tokens."""


class CellJob(NamedTuple):
    """A cell of a workload table: sessions, rule set, model and options."""

    files: tuple[str, ...]                  # sessions that use a server at the same time
    profile: str
    model: str
    given: Mapping[str, Option]             # options of the server
    scale: int = 1
    how: str = COUNTED                      # level of detail
    bounds: bool = False                    # also run with unlimited memory


def line_of(job: CellJob) -> dict[str, Any]:
    """Run a job and return its line. Raise BadInput for invalid files or options."""
    session = read_all([Path(file) for file in job.files])
    return line(session, played_within(session, job.scale), job)


def read_all(files: Sequence[Path]) -> WorkloadSession:
    """Read these files as a single session. Raise BadInput for an invalid file and for different block sizes."""
    sessions = [read_session(file) for file in files]
    sizes = {one.block_size for one in sessions}
    if len(sizes) > 1:
        raise BadInput(f"sessions on a server have different block sizes: {', '.join(map(str, sorted(sizes)))} tokens")
    return merged(sessions)


def played_within(session: WorkloadSession, scale: int) -> list[SessionRequest]:
    """Return the requests as tokens. Raise BadInput for more tokens than allowed. The tokens that must be evaluated or
    generated (blocks counted once, and tokens without a block) have a lower limit, checked before any is created."""
    requests = session.requests
    size = session.block_size
    what = f"workload {session.name}"
    WORKLOAD_TOKENS.check(sum(one.n_prompt + one.n_answer for one in requests) // scale, what)
    blocks = len({block for one in requests for block in one.blocks})
    rest = sum(max(0, one.n_prompt - len(one.blocks) * size) + one.n_answer for one in requests)
    NEW_TOKENS.check((blocks * size + rest) // scale, what)
    return played(session, scale)


def model_of(word: str) -> ModelSizes | str:
    """Return a real model with its sizes; for layers the word itself (sizes of the tiny models). Raise BadInput."""
    small = any(letter.islower() for letter in word)
    return sizes_of(word) if small or word in known_sizes() else word


def line(session: WorkloadSession, requests: Sequence[SessionRequest], job: CellJob) -> dict[str, Any]:
    """Return the line of requests that were already converted. Raise BadInput for invalid options."""
    model, room = model_of(job.model), max(one.n_prompt + one.n_answer for one in session.requests)
    server = served(job.profile, model, job.given, room, job.scale)
    found = cell(requests, server, job.how)
    return {
        "session": session.name, "form": session.form, "sessions": len(job.files), "agents": session.agents,
        "profile": job.profile, "model": job.model, "layers": server.model.partition("@")[0], "given": dict(job.given),
        "scale": job.scale, "scaled": {name: list(pair) for name, pair in server.shown.items()},
        "flags": dict(server.flags), "how": job.how, **in_recorded_tokens(found, job.scale),
        "unlimited": evaluated_unlimited(session, requests, job, model) if job.bounds else None,
    }  # fmt: skip


def in_recorded_tokens(found: Cell, scale: int) -> dict[str, Any]:
    """Return the numbers of a cell, tokens multiplied by the scale."""
    data = found.data()
    data |= {name: data[name] * scale for name in TOKENS}
    if found.lost is not None:
        data["lost"] = {event: n * scale for event, n in found.lost.items()}
    return data


def evaluated_unlimited(
    session: WorkloadSession, requests: Sequence[SessionRequest], job: CellJob, model: ModelSizes | str
) -> int:
    """Return the tokens that these rules evaluate with unlimited memory. Raise BadInput for invalid options."""
    total = sum(one.n_prompt + one.n_answer for one in session.requests)
    given = unlimited(engine_of(job.profile), job.given, total)
    return cell(requests, served(job.profile, model, given, total, job.scale)).evaluated * job.scale


def totals_of(lines: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return a sum for each rule set, in order of first occurrence."""
    names = dict.fromkeys(one["profile"] for one in lines)
    return [summed([one for one in lines if one["profile"] == name]) for name in names]


def summed(lines: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Sum the lines of a rule set, model and setting: counts are added, peaks are maxima. A number that is unknown
    (None) in any line is unknown in the sum."""
    out = dict(lines[0])
    counts = (*TOKENS, "requests", "answered", "refused", "died", "wrong", "undecided", "predicted", "unlimited")
    for name in counts:
        values = [one.get(name, 0) for one in lines]
        out[name] = None if None in values else sum(values)
    for name in ("peak_checkpoints", "peak_cache"):
        out[name] = max(one[name] for one in lines)
    causes = Counter[str]()
    for one in lines:
        causes.update(one["lost"] or {})
    out["lost"] = None if any(one["lost"] is None for one in lines) else dict(causes.most_common())
    for name in ("agents", "sessions"):
        out[name] = sum(one[name] for one in lines)
    out["servers"] = len(lines)
    return out | {"session": lines[0]["session"] if len(lines) == 1 else f"{out['sessions']} sessions"}
