"""Repetition of recordings on a real server: ``python -m tests.live.again --server PATH RECORDING...``

Every script is run on a server with the recorded flags, and the result is compared with the recording: answers, events,
the server's facts, the inexact steps. Not compared: positions of `cancel` (meaningless), sizes of log-probability
differences (they depend on the processor), and stack frames. A step that depends on timing (`racy`) may differ, and
then all steps after it.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import dataclass, field
from pathlib import Path

from cachesim.base.errors import BadInput
from cachesim.tools.live.llama_server.recorder import Recorder, ServerStart

RESULTS = ("i", "response", "events", "cold", "racy", "died", "stuck", "server")
LOOSE = ("max_dlogprob", "cold_margin", "confirmed_fresh_process")
WINDOWS_ROUNDING = 1e-2          # the weights of tiny-gemma3* amplify rounding


@dataclass
class Compared:
    """Result for a recording. ``differs``: number of the step and the first differing place."""

    steps: int = 0
    racy: int = 0
    differs: list[tuple[int | str, str]] = field(default_factory=list)
    excused: list[tuple[int, str]] = field(default_factory=list)


def again(file: Path, server: Path, models: Path) -> Compared:
    """Run a recording's script and compare."""
    trace = json.loads(file.read_text("utf-8"))
    start = ServerStart(
        server, models / trace["model"], tuple(trace["flags"]), trace["commit"], tuple(trace["base_flags"])
    )
    out = Compared()
    rounding = {"rounding": WINDOWS_ROUNDING} if "gemma3" in trace["model"] else {}
    with Recorder(start, **rounding) as recorder:
        for step in trace["steps"]:
            wrong = difference(kept(step), kept(recorder.play(script(step))))
            out.steps += 1
            out.racy += bool(step.get("racy"))
            if wrong:
                (out.excused if step.get("racy") or out.excused else out.differs).append((step["i"], wrong))
        ours = recorder.trace()
    for name in ("server", "inexact"):
        wrong = difference(without(trace[name]), without(ours[name]))
        if wrong and not out.excused:
            out.differs.append((name, wrong))
    return out


def script(step):
    """Return a step without its results."""
    out = {name: value for name, value in step.items() if name not in RESULTS}
    if "steps" in out:
        out["steps"] = [script(member) for member in out["steps"]]
    return out


def kept(step):
    """Return the compared part of a step's results."""
    out = without(step)
    out["events"] = [event for event in out.get("events", ()) if event["ev"] != "cancel"]
    if "died" in out:
        out["died"] = out["died"]["returncode"]
    return out


def without(value):
    """Return a decoded JSON value without the parts that are never compared."""
    if isinstance(value, dict):
        return {name: without(inner) for name, inner in value.items() if name not in LOOSE}
    return [without(inner) for inner in value] if isinstance(value, list | tuple) else value


def difference(a, b, place="") -> str:
    """Return the first place in which two decoded values differ, else ""."""
    if isinstance(a, dict) and isinstance(b, dict):
        if a.keys() != b.keys():
            return f"{place}: only one has {', '.join(sorted(a.keys() ^ b.keys()))}"
        return next((wrong for name in a if (wrong := difference(a[name], b[name], f"{place}.{name}"))), "")
    if isinstance(a, list) and isinstance(b, list):
        found = (difference(one, other, f"{place}[{i}]") for i, (one, other) in enumerate(zip(a, b, strict=False)))
        return next(filter(None, found), "" if len(a) == len(b) else f"{place}: {len(a)} and {len(b)} entries")
    return "" if a == b else f"{place}: recorded {a!r:.80}, now {b!r:.80}"


def main(argv: list[str]) -> int:
    """Return 1 if a step differs that does not depend on timing."""
    parser = argparse.ArgumentParser(prog="python -m tests.live.again", description=__doc__)
    parser.add_argument("--server", type=Path, required=True)
    parser.add_argument("--models", type=Path, default=Path("../shared/models"))
    parser.add_argument("files", type=Path, nargs="+", help="recordings, or folders of them")
    args = parser.parse_args(argv)
    files = [one for path in args.files for one in (sorted(path.glob("*.json")) if path.is_dir() else [path])]
    total, same = Compared(), 0
    for file in files:
        try:
            found = again(file, args.server, args.models)
        except BadInput as bad:
            print(f"{file.name}: {bad}", file=sys.stderr)
            return 2
        total.steps, total.racy, same = total.steps + found.steps, total.racy + found.racy, same + (not found.differs)
        total.differs += found.differs
        total.excused += found.excused
        for step, wrong in found.differs:
            print(f"{file.name} step {step}{wrong}")
    print(f"{len(files)} recordings, {same} come out the same; {total.steps} steps ({total.racy} depend on timing), "
          f"{len(total.differs)} differ, {len(total.excused)} more for timing's sake")  # fmt: skip
    return 1 if total.differs else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
