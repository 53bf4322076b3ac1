"""Paths of the recordings and tiny models of real servers in ``../shared``, next to the checkout, and helpers for
steps.

Tests that read ``../shared`` are skipped if it is absent. ``tests/data`` contains a selection.
"""

from __future__ import annotations

import time
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, Iterable, Mapping

from cachesim.base import pool
from cachesim.engines import registry, rule_files
from cachesim.engines.base import Request
from cachesim.engines.rule import RULES
from cachesim.scenarios.notation.tree import Action, LineRequest
from cachesim.scenarios.schema import Step

ROOT = Path(__file__).resolve().parents[1]
SHARED = ROOT.parent / "shared"
TRACES = SHARED / "traces"
MODELS = SHARED / "models"

SMALL = {"ctx_size": 1024, "batch_size": 64, "ubatch_size": 16, "parallel": 1}
"""Options of a llama-server with a single slot, in which few tokens make many micro-batches."""


ADDITIONS, USUAL = 1_000_000, 0.06
"""Loop that measures a machine, and the CPU seconds that it takes on the machine for which limits were chosen."""


@cache
def slowness() -> float:
    """Return how many times as slow as usual this machine is, at least 1. A test that limits CPU time multiplies."""
    return max(1.0, min(_loop() for _ in range(3)) / USUAL)


def _loop() -> float:
    """Return the CPU seconds of the loop."""
    start = time.process_time()
    total = 0
    for number in range(ADDITIONS):
        total += number
    return time.process_time() - start


def alike(asked: Iterable[LineRequest | Action], **fields: Any) -> tuple[LineRequest | Action, ...]:
    """Return the steps with these fields set in every request."""
    return tuple(step._replace(**fields) if isinstance(step, LineRequest) else step for step in asked)


def altered(step: Step, action: Action | None = None, request: Mapping[str, Any] | None = None, **fields: Any) -> Step:
    """Return the step as this action, or with changed fields of its notation and of its server request."""
    if action is not None:
        return Step(Request(()), action, step.why)
    (asked,) = alike([step.asked], **fields)
    return Step(replace(step.request, **(request or {})), asked, step.why)


def forget_engines(patch: Any) -> None:
    """Give the registry, the executed rule files and the calls of new workers the state of a new process; the patch
    undoes it. The registry's object stays: a module that a test imports first would keep another object, with the
    engines of that test, for all later tests."""
    for name, value in vars(registry.Engines()).items():
        patch.setattr(registry.ENGINES, name, value)
    patch.setattr(rule_files, "_files", {})
    patch.setattr(pool, "_init_calls", [])


def restore_rules(before: Mapping[str, Any]) -> None:
    """Give every id of a rule the rule that it had ``before``. Rules of the package that were imported meanwhile stay:
    their modules are not imported again."""
    for name, rule in [*RULES.items()]:
        if not str(rule.__module__).startswith("cachesim."):
            del RULES[name]
    RULES.update(before)


def absent(path: Path) -> str:
    """Return the reason for skipping a test that reads this path."""
    return f"../{path.relative_to(ROOT.parent)} is absent (recordings and models; tests/data has a selection)"


def needs(path: Path) -> Any:
    """Return the mark of a test that reads a file or folder of ``../shared``."""
    import pytest  # here, because programs that import this module may lack pytest

    return pytest.mark.skipif(not path.exists(), reason=absent(path))


def each(pattern: str) -> list[Any]:
    """Return the recordings that match the pattern, as test parameters named after their files; [] if they are
    absent."""
    import pytest

    return [pytest.param(path, id=path.stem) for path in sorted(TRACES.glob(pattern))]
