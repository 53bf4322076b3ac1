"""Where are the recordings and the tiny models of real servers? In ``../shared``, beside the checkout.

Not everybody has them: a test that reads them is skipped then, always with the same words. ``tests/data`` holds a
selection.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
SHARED = ROOT.parent / "shared"
TRACES = SHARED / "traces"
MODELS = SHARED / "models"


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
