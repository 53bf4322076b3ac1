"""Reader of workload files. The first line determines the format: a kv-cache-tester session (a JSON object), a
Mooncake trace or block ids (JSON lines). A scenario file (.toml) is read by ``scenario_session``. Files are
untrusted: size and structure are checked before use.

Mooncake   {"timestamp": 27482, "input_length": 6955, "output_length": 52, "hash_ids": [46, 47, 2353]}
           milliseconds, tokens, ids of blocks of 512 tokens, of which the last may be partial
block ids  {"block_size": 16}                                    optional first line, default 64 tokens
           {"blocks": [1, 2, 3], "answer": 5, "prompt": 40, "t": 0.5, "seconds": 1.5}
           only ``blocks`` is required; defaults: ``answer`` 1 token, ``prompt`` all blocks, ``t`` [s] that of the
           previous request, ``seconds`` (duration) 0: no overlap
Source: kvcache-ai/Mooncake FAST25-release/README.md; callanjfox/kv-cache-tester docs/trace_replay_tester.md, traces/
(94f6046).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Mapping, Sequence

from cachesim.base.errors import BadInput
from cachesim.base.json_shapes import (
    INT32,
    INT64,
    anything,
    check,
    each,
    integer,
    integers,
    number,
    one_of,
    record,
    text,
)
from cachesim.base.limits import TRACE_BYTES
from cachesim.base.untrusted_files import FOLDER, files_in, kind, parse_json, path_of, read_bytes
from cachesim.tools.workload.recorded_session import RecordedRequest, WorkloadSession, check_pasts
from cachesim.tools.workload.scenario_session import SUFFIX, scenario_session

MOONCAKE = "mooncake"
BLOCK_IDS = "block-ids"
KV_CACHE_TESTER = "kv-cache-tester"
FORMATS = "a kv-cache-tester session, or lines of a Mooncake trace or of block ids"
MOONCAKE_BLOCK, DEFAULT_BLOCK = 512, 64

count = integer(0, INT32, "a count (0 to 2147483647)")
ids = integers(0, INT64, "the id of a block (0 or larger)")
block_size = integer(1, 1 << 20, "the tokens of a block")
_MOONCAKE = record({"timestamp": number, "input_length": count, "output_length": count, "hash_ids": ids},
                   needs=("timestamp", "input_length", "output_length", "hash_ids"))  # fmt: skip
_HEAD = record({"block_size": block_size, "name": text}, needs=("block_size",))
_LINE = record({"blocks": ids, "answer": count, "prompt": count, "t": number, "seconds": number}, needs=("blocks",))
_REQUEST = record(
    {"t": number, "type": text, "in": integer(1, INT32, "a number of tokens"), "out": count, "hash_ids": ids,
     "api_time": number}, needs=("t", "in", "out", "hash_ids"), others=anything,
)  # fmt: skip
_BEFORE = {"tool_tokens": count, "system_tokens": count}
_AGENT = record({"t": number, "type": text, "duration_ms": number, "requests": each(_REQUEST), **_BEFORE},
                needs=("t", "requests"), others=anything)  # fmt: skip
_SESSION = record({"id": text, "block_size": block_size, "requests": each(one_of(_AGENT, _REQUEST)), **_BEFORE},
                  needs=("block_size", "requests"), others=anything)  # fmt: skip


def find_files(names: Sequence[str | Path]) -> list[Path]:
    """Return the named files and the .json and .jsonl files of named folders. Raise BadInput for an empty name."""
    out: list[Path] = []
    for name in names:
        path = path_of(name)
        out += sorted([*files_in(path, ".json"), *files_in(path, ".jsonl")]) if kind(path) == FOLDER else [path]
    return out


def read_session(path: Path) -> WorkloadSession:
    """Read the session in a file. Raise BadInput with the position for an unknown format, a file without requests and
    contradicting ids."""
    if path.suffix == SUFFIX:
        return scenario_session(path)
    data = read_bytes(path, TRACE_BYTES, "workload")
    name, file = path.name.partition(".")[0], str(path)
    first = data.lstrip().partition(b"\n")[0]
    if _is_whole(data, first):
        found = _of_object(parse_json(data, file, "workload"), name, file)
    else:
        found = _of_lines(data, name, file)
    if not found.requests:
        raise BadInput("the workload has no requests", file=file)
    check_pasts(found, file)
    return found


def _is_whole(data: bytes, first: bytes) -> bool:
    """True if the file is a single JSON object, not an object per line. kv-cache-tester sessions have ``requests``."""
    return b'"requests"' in first or not first.rstrip().endswith(b"}")


def _of_lines(data: bytes, name: str, file: str) -> WorkloadSession:
    values: list[tuple[int, Any]] = []
    for at, line in enumerate(data.split(b"\n"), 1):
        if line.strip():
            try:
                values.append((at, parse_json(line, file, "line")))
            except BadInput as bad:
                raise BadInput(bad.cause, file=file, line=at, hint=bad.hint) from None
    head = values[0][1]                          # a file without a line is read as a whole, and refused
    if isinstance(head, dict) and "hash_ids" in head:
        return WorkloadSession(name, MOONCAKE, MOONCAKE_BLOCK, _ordered([_mooncake(v, at, file) for at, v in values]))
    size = DEFAULT_BLOCK
    if isinstance(head, dict) and "block_size" in head:
        _checked(head, _HEAD, 1, file)
        size, name = head["block_size"], head.get("name", name)[:80]
        values = values[1:]
    requests, now = list[RecordedRequest](), 0.0
    for at, value in values:
        requests.append(_block_ids(value, at, file, size, now))
        now = requests[-1].start
    return WorkloadSession(name, BLOCK_IDS, size, _ordered(requests))


def _checked(value: Any, shape: Any, line: int, file: str) -> None:
    try:
        check(value, shape, file)
    except BadInput as bad:
        raise BadInput(bad.cause, file=file, line=line, hint=bad.hint) from None


def _mooncake(value: Any, line: int, file: str) -> RecordedRequest:
    _checked(value, _MOONCAKE, line, file)
    start = value["timestamp"] / 1000
    n = value["input_length"]
    blocks = tuple(value["hash_ids"])
    most = len(blocks) * MOONCAKE_BLOCK
    if not most - MOONCAKE_BLOCK < n <= most:
        raise BadInput(f"{n} tokens do not fill {len(blocks)} blocks of {MOONCAKE_BLOCK}", file=file, line=line)
    return RecordedRequest(start, start, n, max(1, value["output_length"]), blocks)


def _block_ids(value: Any, line: int, file: str, size: int, now: float) -> RecordedRequest:
    _checked(value, _LINE, line, file)
    blocks, start = tuple(value["blocks"]), float(value.get("t", now))
    n = value.get("prompt", len(blocks) * size)
    if n < (len(blocks) - 1) * size or not n:
        raise BadInput(f"{n} tokens do not fill {len(blocks)} blocks of {size}", file=file, line=line)
    return RecordedRequest(start, start + max(0.0, value.get("seconds", 0)), n, max(1, value.get("answer", 1)), blocks)


def _ordered(requests: list[RecordedRequest]) -> tuple[RecordedRequest, ...]:
    return tuple(sorted(requests, key=lambda one: one.start))


def _of_object(value: Any, name: str, file: str) -> WorkloadSession:
    """Read a kv-cache-tester session: a single object, with the requests of sub-agents nested among its own. Raise
    BadInput for an invalid structure.

    The ``t`` of a sub-agent is its end: it began ``duration_ms`` before, and the ``t`` of its requests are relative to
    the beginning. Ids are unique within the session, including sub-agents. A partial block has no id."""
    if not isinstance(value, dict) or "requests" not in value:
        raise BadInput(f"not a recorded session (expected {FORMATS})", file=file)
    check(value, _SESSION, file)
    size = value["block_size"]
    found = [_request(entry, value, 0.0, "") for entry in value["requests"] if "requests" not in entry]
    agents = [entry for entry in value["requests"] if "requests" in entry]
    for number_of, entry in enumerate(agents, 1):
        began = entry["t"] - entry.get("duration_ms", 0) / 1000
        found += [_request(one, entry, began, f"agent {number_of}") for one in entry["requests"]]
    for one in found:
        if not len(one.blocks) * size <= one.n_prompt:
            raise BadInput(f"{one.n_prompt} tokens do not fill {len(one.blocks)} blocks of {size}", file=file)
    return WorkloadSession(name, KV_CACHE_TESTER, size, tuple(sorted(found, key=lambda one: one.start)))


def _request(entry: Mapping[str, Any], owner: Mapping[str, Any], began: float, agent: str) -> RecordedRequest:
    """Convert a request. Without a recorded time its duration is 0."""
    start = began + entry["t"]
    before = owner.get("tool_tokens", 0) + owner.get("system_tokens", 0)
    return RecordedRequest(
        start, start + max(0.0, entry.get("api_time", 0)), entry["in"], max(1, entry["out"]),
        tuple(entry["hash_ids"]), before if before < entry["in"] else 0, agent,
    )  # fmt: skip
