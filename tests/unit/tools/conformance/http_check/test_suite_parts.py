"""Tests of the parts of a check: the sections that are run, the noise, the sizes of prompts, and the last report."""

from __future__ import annotations

import pytest

from cachesim.tools.conformance.http_check.dialect import identify_server
from cachesim.tools.conformance.http_check.suite import CheckOptions, check
from cachesim.tools.conformance.report import SECTIONS
from tests.unit.tools.conformance.http_check.in_process import InProcess, Toy


@pytest.mark.parametrize(("only", "judged"), [
    ("books", {"books"}), ("reuse", {"reuse"}), ("same", {"same"}), ("known", {"known", "same"}),
    ("drawn", {"drawn", "same"}), ("parallel", {"parallel", "same", "isolation", "faults"}),
])  # fmt: skip
def test_a_section_is_run_with_those_that_judge_its_histories(only, judged):
    http = InProcess(Toy(), most=20)
    wanted = CheckOptions((only,), examples=1, tolerance=0.005, rounds=1, images=False)
    found = check(http, identify_server(http), wanted)
    assert {*SECTIONS} - {*found.report.skipped} == judged
