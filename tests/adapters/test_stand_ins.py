"""Tests that the suite finds the faults of released packages in their stand-ins, and that adapters are short and
pinned.

    python -m tests.adapters.test_stand_ins transformers_append        the stand-ins of an adapter
"""

from __future__ import annotations

import re
import sys
from functools import partial
from pathlib import Path

import pytest

from cachesim.tools.conformance import conform
from tests.adapters import stand_ins
from tests.adapters.table import ADAPTERS
from tests.conformance.naive import FixedCache

HERE = Path(__file__).parent
STAND_INS = {
    "transformers_append": [
        (stand_ins.Appends, {}), (stand_ins.Positions, {"append": "A1>a1/A.a.B1", "branch": "A1/A.B1",
                                                        "prefix": "A1>a1/A.a"}),
        (stand_ins.ZeroState, {"append": "A1>a1/A.a.B1", "branch": "A1/A.B2"}),
    ],
    "transformers_crop": [(partial(stand_ins.Crops, None), {}), (stand_ins.Crops, None)],
    "mlx_omni_server_pool": [(stand_ins.Pool, {
        "stored": "A1", "append": "A1{cancel_after=0}/A.B1", "branch": "A1/A.B1", "prefix": "A1>a1/A.a",
        "cancel": "A1>2{cancel_after=0}/A.B1",
    })],
    "mlx_lm_lru": [(FixedCache, {})], "vllm_mlx_memory": [(FixedCache, {})], "rapid_mlx_memory": [(FixedCache, {})],
    "sglang_radix": [(partial(stand_ins.Blocks, size=1, count=60), {})], "nano_vllm": [(stand_ins.Blocks, {})],
    "vllm_blocks": [(stand_ins.Blocks, {}), (partial(stand_ins.Blocks, early=True), None)],
}  # fmt: skip
"""Stand-ins of each adapter with the shortest history of each failing property; None = any."""

CASES = [(module, make, lines) for module, cases in STAND_INS.items() for make, lines in cases]


def failing(make):
    """Return the shortest failing history of each property that fails."""
    report = conform(make, tokens=range(3, 400), max_examples=80, max_prompt=40, near=[4], check=False)
    assert not [one for one in report.results if one.state == "undecided"]
    return {one.name: one.finding.line for one in report.failing}


@pytest.mark.long
@pytest.mark.parametrize(("module", "make", "lines"), CASES, ids=lambda value: value if isinstance(value, str) else "")
def test_the_suite_finds_what_it_found_in_the_packages(module, make, lines):
    found = failing(make)
    assert found == lines if lines is not None else found


def test_every_adapter_has_a_stand_in():
    assert STAND_INS.keys() == {one.module for one in ADAPTERS}


@pytest.mark.parametrize("adapter", ADAPTERS, ids=[one.module for one in ADAPTERS])
def test_an_adapter_is_short_pinned_and_says_its_version(adapter):
    text = (HERE / f"{adapter.module}.py").read_text("utf-8")
    assert len(text.splitlines()) < 60
    version = re.search(r"(\d+\.\d+\.\d+): ", text)[1]
    assert any(package.endswith(f"=={version}") for package in (*adapter.packages, *adapter.alone))
    assert f"python -m tests.adapters.{adapter.module} " in text


def main():
    """Report on the stand-ins of an adapter; return the exit code."""
    for make, lines in STAND_INS[sys.argv[1]]:
        found = failing(make)
        print(f"  {getattr(make, 'func', make).__name__}: {found or 'OK'}")
        if found != lines if lines is not None else not found:
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
