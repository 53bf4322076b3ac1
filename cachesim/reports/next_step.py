"""What to type next: one line on stderr, which is no result."""

from __future__ import annotations

import shlex
import sys
from argparse import Namespace
from contextlib import suppress
from typing import Any, Sequence

Data = dict[str, Any]


def say_next(args: Namespace, *commands: Sequence[str]) -> None:
    """``next:`` and the commands, as they are typed; nothing with --json or -q, and nothing where there is none."""
    if commands and not (args.json or getattr(args, "quiet", False)) and sys.stderr is not None:
        lines = " | ".join(shlex.join(["cachesim", *words]) for words in commands)
        with suppress(OSError):
            print(f"next: {lines}", file=sys.stderr, flush=True)


def worst_request(runs: Sequence[Data]) -> tuple[Data, int] | None:
    """The run and the request that deserve a look: the first wrong answer that no file expects, then the first wrong
    one, then the one with the most tokens that were evaluated again; None = there is none."""
    for run in sorted(runs, key=lambda run: run["as_expected"] is not False):
        if run["broken"]:
            return run, run["broken"][0]
    lost = [(sum(charge["tokens"] for charge in run["lost"] if charge["request"] == i), -number, run, i)
            for number, run in enumerate(runs) for i in {charge["request"] for charge in run["lost"]}]  # fmt: skip
    most = max(lost, key=lambda one: one[:2], default=None)
    return None if most is None or not most[0] else (most[2], most[3])
