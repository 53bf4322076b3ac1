"""Tests of the worker process: a result for each case, low limits, and no work that takes long."""

from __future__ import annotations

import asyncio

import pytest

from cachesim.base import limits
from cachesim.tools.playground.simulator import Simulator
from cachesim.tools.playground.worker import LIMITS

HEAVY = "/".join(f"S300.{name}40>{name.lower()}400" for name in "ABCDEFGHIJKL")
LLAMA = ["llama_cpp@b10587", "llama_cpp@b11549"]


@pytest.fixture(scope="module")
def answers():
    """Results of all cases of this file, of a single worker."""
    async def all_of_them():
        simulator = Simulator()
        try:
            return [await simulator.ask(case) for case, _ in CASES]
        finally:
            await simulator.close()

    return asyncio.run(all_of_them())


CASES = (
    ({"line": "A100/{save@0 f}/B50/{restore@0 f}/A", "profiles": LLAMA}, ""),          # writes a file of its own
    ({"line": "A100>4/A.r5", "profiles": ["mlx_lm@0.32.2"]}, ""),
    ({"line": "A1" + "/A" * 3000, "profiles": LLAMA[1:]}, "200 tokens"),
    ({"line": "S30.Q50>a100/S.Q.a.R40>b101", "model": "A", "profiles": LLAMA[1:]}, ""),
    ({"line": "A999999/A", "profiles": LLAMA}, "are allowed"),
    ({"line": "A1" + "/{restart}" * 900, "model": "A", "profiles": ["ik_llama@2491"]}, "are allowed"),
    ({"line": "A5/A", "model": "A" * 60, "profiles": LLAMA}, "16 layers"),
    ({"line": "A5/A", "profiles": LLAMA}, ""),                                         # limits are not used up
)


@pytest.mark.parametrize("number", range(len(CASES)))
def test_a_case_has_a_result_or_exceeds_a_limit(answers, number):
    found, says = answers[number], CASES[number][1]
    assert ("html" in found) != bool(says), found.get("error")
    if says:
        assert says in found["error"]


def test_a_case_has_a_limited_cpu_time_and_the_next_one_a_new_worker():
    async def work():
        simulator = Simulator(cpu=0.75)
        try:
            return [await simulator.ask({"line": line, "profiles": LLAMA}) for line in (HEAVY, "A5/A!!")]
        finally:
            await simulator.close()

    long, short = asyncio.run(work())
    assert "longer than 0.75 s of CPU time" in long["error"] and short["column"]


def test_every_limit_is_lower_than_elsewhere():
    assert all(most < limit.value for limit, most in LIMITS.items())
    assert {*limits.OF_A_RUN} - {limits.EXACT_WORK} <= LIMITS.keys()      # the playground computes no exact numbers
