"""Where are the recordings and the tiny models of real servers? In ``../shared``, beside the checkout. And what several
folders of tests do with steps.

Not everybody has them: a test that reads them is skipped then, always with the same words. ``tests/data`` holds a
selection.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, Iterable, Mapping

from cachesim.engines.base import Request
from cachesim.scenarios.notation.tree import Action, Asked
from cachesim.scenarios.schema import Step

ROOT = Path(__file__).resolve().parents[1]
SHARED = ROOT.parent / "shared"
TRACES = SHARED / "traces"
MODELS = SHARED / "models"

SMALL = {"ctx_size": 1024, "batch_size": 64, "ubatch_size": 16, "parallel": 1}
"""Options of a llama-server with one slot, where few tokens make many micro-batches."""


def alike(asked: Iterable[Asked | Action], **fields: Any) -> tuple[Asked | Action, ...]:
    """The steps, in every request these fields."""
    return tuple(one._replace(**fields) if isinstance(one, Asked) else one for one in asked)


def altered(step: Step, action: Action | None = None, request: Mapping[str, Any] | None = None, **fields: Any) -> Step:
    """The step as this action, or with other fields of what is asked and of the server's request."""
    if action is not None:
        return Step(Request(()), action, step.why)
    (asked,) = alike([step.asked], **fields)
    return Step(replace(step.request, **(request or {})), asked, step.why)


def absent(path: Path) -> str:
    """Why a test that reads this cannot run."""
    return f"../{path.relative_to(ROOT.parent)} is absent (recordings and models; tests/data has a selection)"


def needs(path: Path) -> Any:
    """The mark of a test that reads a file or folder of ``../shared``."""
    import pytest  # here, because the programs beside the tests do without it

    return pytest.mark.skipif(not path.exists(), reason=absent(path))


def each(pattern: str) -> list[Any]:
    """The recordings that the pattern matches, as parameters named like their files; none if they are absent."""
    import pytest

    return [pytest.param(path, id=path.stem) for path in sorted(TRACES.glob(pattern))]
