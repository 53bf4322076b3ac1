"""Which rule set of ours answers the same request wrong, and by which rule?"""

from __future__ import annotations

from typing import Iterator

from cachesim.errors import BadInput

MODELS = ("GA", "S", "W32 A", "W8 A", "A")


def who_does_that(line: str, request: int) -> Iterator[str]:
    """Rule sets under which the simulator answers the request (from 0) of a history wrong, with the rule behind it."""
    from cachesim.engines.registry import ENGINES
    from cachesim.scenarios.notation import from_line
    from cachesim.verdicts.judged_run import run_judged

    for engine in ENGINES.values():
        profile = engine.newest or (engine.line[-1] if engine.line else "")
        if not profile or not engine.manual.slots:
            continue
        for model in MODELS:
            try:
                scenario = from_line(_in_one_slot(line), model=model, profiles=(profile,))
                run = run_judged(scenario, profile, "provenance")
            except BadInput:
                continue
            if request in run.broken:
                yield f"{profile} answers it wrong on {model}: {run.requests[request].answer.deciding}"


def _in_one_slot(line: str) -> str:
    """The line with every request in slot 0, as it is played."""
    return "/".join(step if "{" in step else f"{step}@0" for step in line.split("/"))
