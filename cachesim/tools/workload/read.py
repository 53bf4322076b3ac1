"""How is a workload read? The form is known by its first line: a kv-cache-tester session (one JSON object), a Mooncake
trace or block ids (JSON lines). Files are data: bounded, and checked before anything is used.

Mooncake   {"timestamp": 27482, "input_length": 6955, "output_length": 52, "hash_ids": [46, 47, 2353]}
           milliseconds, tokens, ids of blocks of 512 tokens, the last one perhaps not full
block ids  {"block_size": 16}                                    first line; without it a block has 64 tokens
           {"blocks": [1, 2, 3], "answer": 5, "prompt": 40, "t": 0.5, "seconds": 1.5}
           only ``blocks`` must be there: ``answer`` is 1 token, ``prompt`` all of the blocks, ``t`` the time of the
           request before, ``seconds`` how long it took (0: nothing overlaps it)
Source: kvcache-ai/Mooncake FAST25-release/README.md; callanjfox/kv-cache-tester docs/trace_replay_tester.md.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Sequence

from cachesim.base.errors import BadInput
from cachesim.base.limits import TRACE_BYTES
from cachesim.base.reading import FOLDER, files_in, kind, parse_json, path_of, read_bytes
from cachesim.base.shapes import INT32, INT64, check, integer, integers, number, record, text
from cachesim.tools.workload.kv_cache_tester import from_object
from cachesim.tools.workload.session import RecordedRequest, WorkloadSession, check_pasts

MOONCAKE, BLOCK_IDS = "mooncake", "block-ids"
MOONCAKE_BLOCK, DEFAULT_BLOCK = 512, 64

count = integer(0, INT32, "a count (0 to 2147483647)")
ids = integers(0, INT64, "the id of a block (0 or larger)")
_MOONCAKE = record(
    {"timestamp": number, "input_length": count, "output_length": count, "hash_ids": ids},
    needs=("timestamp", "input_length", "output_length", "hash_ids"),
)
_HEAD = record({"block_size": integer(1, 1 << 20, "the tokens of a block"), "name": text}, needs=("block_size",))
_LINE = record({"blocks": ids, "answer": count, "prompt": count, "t": number, "seconds": number}, needs=("blocks",))


def find_files(names: Sequence[str | Path]) -> list[Path]:
    """The files named, and those of the folders named that end in .json or .jsonl. Raises BadInput for an empty
    name."""
    out: list[Path] = []
    for name in names:
        path = path_of(name)
        out += sorted([*files_in(path, ".json"), *files_in(path, ".jsonl")]) if kind(path) == FOLDER else [path]
    return out


def read_session(path: Path) -> WorkloadSession:
    """The session in a file. Raises BadInput, with the place, for one of no known form, without requests, or whose
    ids contradict each other."""
    data = read_bytes(path, TRACE_BYTES, "workload")
    name, file = path.name.partition(".")[0], str(path)
    first = data.lstrip().partition(b"\n")[0]
    if _is_whole(data, first):
        found = from_object(parse_json(data, file, "workload"), name, file)
    else:
        found = _of_lines(data, name, file)
    if not found.requests:
        raise BadInput("the workload has no request", file=file)
    check_pasts(found, file)
    return found


def _is_whole(data: bytes, first: bytes) -> bool:
    """Is the file one JSON object, and not one for each line? A session of kv-cache-tester has ``requests``."""
    return b'"requests"' in first or not first.rstrip().endswith(b"}")


def _of_lines(data: bytes, name: str, file: str) -> WorkloadSession:
    lines = [(number, line) for number, line in enumerate(data.split(b"\n"), 1) if line.strip()]
    values: list[tuple[int, Any]] = []
    for at, line in lines:
        try:
            values.append((at, parse_json(line, file, "line")))
        except BadInput as bad:
            raise BadInput(bad.cause, file=file, line=at, hint=bad.hint) from None
    if not values:
        raise BadInput("the file is empty", file=file)
    head = values[0][1]
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
    start, n, blocks = value["timestamp"] / 1000, value["input_length"], tuple(value["hash_ids"])
    most = len(blocks) * MOONCAKE_BLOCK
    if not most - MOONCAKE_BLOCK < n <= most:
        raise BadInput(f"{n} tokens are not {len(blocks)} blocks of {MOONCAKE_BLOCK}", file=file, line=line)
    return RecordedRequest(start, start, n, max(1, value["output_length"]), blocks)


def _block_ids(value: Any, line: int, file: str, size: int, now: float) -> RecordedRequest:
    _checked(value, _LINE, line, file)
    blocks, start = tuple(value["blocks"]), float(value.get("t", now))
    n = value.get("prompt", len(blocks) * size)
    if n < (len(blocks) - 1) * size or not n:
        raise BadInput(f"{n} tokens are not {len(blocks)} blocks of {size}", file=file, line=line)
    return RecordedRequest(start, start + max(0.0, value.get("seconds", 0)), n, max(1, value.get("answer", 1)), blocks)


def _ordered(requests: list[RecordedRequest]) -> tuple[RecordedRequest, ...]:
    return tuple(sorted(requests, key=lambda one: one.start))
