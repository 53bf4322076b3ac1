"""Tests of the worker process: a result for each case, low limits, and no work that takes long."""

from __future__ import annotations

import asyncio
import io
import json
from types import SimpleNamespace

import pytest

from cachesim.base import limits
from cachesim.tools.playground import worker
from cachesim.tools.playground.simulator import Simulator
from cachesim.tools.playground.worker import LIMITS

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
    ({"line": "A1" + "/A" * 3000, "profiles": LLAMA}, "at most 200 tokens are allowed"),
    ({"line": "A1" + "/A>r1" * 150, "profiles": LLAMA}, "at most 120 micro-batches are allowed"),
    ({"line": "A900/A", "flags": "-b 2 -ub 1", "profiles": LLAMA}, "at most 120 micro-batches are allowed"),
    ({"line": "A999999/A", "profiles": LLAMA}, "are allowed"),
    ({"line": "A1" + "/{restart}" * 900, "profiles": LLAMA}, "are allowed"),
    ({"line": "A5/A", "model": "A" * 60, "profiles": LLAMA}, "at most 16 layers are allowed"),
    ({"line": "A5/A", "profiles": LLAMA}, ""),                                         # limits are not used up
)


@pytest.mark.part(3)
@pytest.mark.parametrize("number", range(len(CASES)))
def test_a_case_has_a_result_or_exceeds_a_limit(answers, number):
    found, says = answers[number], CASES[number][1]
    assert ("html" in found) != bool(says), found.get("error")
    if says:
        assert says in found["error"]


def test_every_limit_is_lower_than_elsewhere():
    assert all(most < limit.value for limit, most in LIMITS.items())
    assert {*limits.OF_A_RUN} - {limits.EXACT_WORK} <= LIMITS.keys()      # the playground computes no exact numbers


class FlushedBytes(io.BytesIO):
    """Output that notes its length at each flush."""

    flushed = ()

    def flush(self):
        self.flushed = (*self.flushed, self.getvalue().count(b"\n"))


def test_a_worker_bounds_itself_and_then_answers_each_line_at_once(monkeypatch):
    called, out = [], FlushedBytes()
    for name in ("bound", "end_with_parent"):
        monkeypatch.setattr(worker, name, lambda *given, name=name: called.append((name, *given)))
    monkeypatch.setattr(worker, "answer", lambda case: {"asked": case, "limit": limits.NEW_TOKENS.now})
    lines = io.BytesIO(b'{"line": "A5"}\n{"line": "B5"}\n')
    monkeypatch.setattr(worker, "sys", SimpleNamespace(stdin=SimpleNamespace(buffer=lines),
                                                       stdout=SimpleNamespace(buffer=out)))  # fmt: skip
    try:
        worker.main(77)
    finally:
        limits.lift({})
    assert called == [("bound", 1024, 1 << 24), ("end_with_parent", 77)] and out.flushed == (1, 2)
    assert [json.loads(line) for line in out.getvalue().splitlines()] == [
        {"asked": {"line": "A5"}, "limit": 20_000}, {"asked": {"line": "B5"}, "limit": 20_000},
    ]  # fmt: skip
