"""Comparison of what `import` and `watch` state about logs of slow prompts with the truth beside each log.

``python -m tests.logs.slow_truth [LOG...] [--last N]`` prints the false statements and the share of the reused and
evaluated counts that are stated. ``--last N`` reads only the last N lines of each log.
"""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Any, Iterator, Mapping, NamedTuple, Sequence

from cachesim.tools.watch.log_rows import LogRows
from tests.logs.importer import statements
from tests.shared import SHARED

SLOW = SHARED / "logs" / "slow"
TRUE_NAMES = {
    "n_tokens": "prompt", "cache_n": "reused", "prompt_n": "evaluated", "predicted_n": "generated", "end": "end",
    "held": "slot_held", "lcp": "common_slot", "lost": "again_slot",
}  # fmt: skip
"""Names of the truth by the names of statements."""
ROW_NAMES = {"prompt": "prompt", "reused": "reused", "evaluated": "evaluated", "generated": "generated"}
"""Names of the truth by the names of rows of `watch`."""
FROM_SLOT = frozenset({"held", "lcp", "lost"})
COUNTED = ("cache_n", "prompt_n")

Truth = Mapping[str, Any]


class SlowResult(NamedTuple):
    """False statements, and how many reused and evaluated counts are stated exactly, of how many."""

    false: list[str]
    stated: int
    total: int


def compare_slow(log: Path, last: int = 0) -> SlowResult:
    """Return the comparison of a log with the truth in the JSON file beside it. ``last``: lines read, 0 = all."""
    truth = json.loads(log.with_suffix(".json").read_text("utf-8"))
    requests = {(one["slot"], one["task"]): one for one in truth["requests"] if one["task"] is not None}
    lines = log.read_text("utf-8").splitlines()[-last:]
    shown = {key for key in requests if any(f"task {key[1]} " in line for line in lines)}
    said = [one for one in statements(lines) if one["what"] == "request"]
    found = [*_false_statements(said, requests, lines), *_false_rows(lines, requests)]
    exact = {(one["slot"], one["task"], name) for one in said for name, value in one["numbers"].items()
             if name in COUNTED and isinstance(value, int)}  # fmt: skip
    known = {(*key, name) for key in shown for name in COUNTED if requests[key][TRUE_NAMES[name]] is not None}
    return SlowResult([f"{log.name}: {text}" for text in found], len(exact & known), len(known))


def _false_statements(
    said: Sequence[Truth], requests: Mapping[Any, Truth], lines: Sequence[str]
) -> Iterator[str]:
    """Yield the statements about requests that the truth contradicts."""
    loaded = any("found better prompt" in line for line in lines)
    for one in said:
        truth = requests.get((one["slot"], one["task"]))
        for name, value in one["numbers"].items():
            true = None if truth is None else truth[TRUE_NAMES[name]]
            if true is not None and not (loaded and name in FROM_SLOT) and not _contains(value, true):
                yield f"task {one['task']}: {name} = {value}, true {true} ({one['says']})"
            if true is None and truth is not None and truth["cancelled"]:
                yield from _beyond_end(one["task"], name, value, truth)


def _beyond_end(task: int, name: str, value: Any, truth: Truth) -> Iterator[str]:
    """Yield a count of a cancelled request that its tokens in the slot or its prompt exclude."""
    most = truth["prompt"] if truth["end"] is None else max(truth["prompt"], truth["end"])
    low = value if isinstance(value, int) else value[0]
    evaluated = name == "prompt_n" and truth["end"] is not None and low > truth["end"]
    if low > most or evaluated:
        yield f"task {task}: {name} = {value}, more than the {most} tokens of the cancelled request"


def _false_rows(lines: Sequence[str], requests: Mapping[Any, Truth]) -> Iterator[str]:
    """Yield the numbers in rows of `watch` that the truth contradicts."""
    rows = LogRows()
    for row in (*rows.read(lines), *rows.idle()):
        truth = requests.get((row["slot"], row["task"]), {})
        for name, true_name in ROW_NAMES.items():
            true = truth.get(true_name)
            if true is not None and row[name] is not None and not _contains(row[name], true):
                yield f"watch, task {row['task']}: {name} = {row[name]}, true {true}"


def _contains(value: Any, true: int) -> bool:
    """True if a number or a range contains the true value."""
    low, high = value if isinstance(value, list) else (value, value)
    return (low is None or low <= true) and (high is None or true <= high)


def main(args: Sequence[str]) -> int:
    """Print the comparison of logs; return 1 if a statement is false."""
    parser = ArgumentParser()
    parser.add_argument("logs", nargs="*", type=Path)
    parser.add_argument("--last", type=int, default=0)
    given = parser.parse_args(args)
    found = [compare_slow(log, given.last) for log in given.logs or sorted(SLOW.glob("*.log"))]
    for result in found:
        print(*result.false, sep="\n", end="\n" if result.false else "")
    stated, total = sum(one.stated for one in found), sum(one.total for one in found)
    print(f"{sum(len(one.false) for one in found)} false; {stated} of {total} reused and evaluated counts stated")
    return int(any(one.false for one in found))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
