"""Every sentence about the past that ``run`` and ``why`` print names an event of its run."""

from __future__ import annotations

import re
from functools import cache
from itertools import count, islice

import pytest

from cachesim.base.errors import BadInput
from cachesim.scenarios.from_notation import from_line
from cachesim.scenarios.schema import Scenario
from tests.sentences.drawn import ORDER, draw_run
from tests.sentences.printed import Found, compare_sentences

SAMPLE, MORE, ALL = 4, 8, 400      # drawn runs of each engine, in `make test`, in `make long`, and with `-m slow`


def compared(engine: str, number: int) -> list[tuple[str, Found]]:
    """Return so many drawn runs of an engine, by name, with their sentences."""
    def each():
        for seed in count():
            if (run := draw_run(seed, engine)) is None:
                continue
            try:
                yield f"{engine} {seed} {run.profile}", compare_sentences(run.scenario, run.profile)
            except BadInput:
                continue

    return list(islice(each(), number))


@pytest.mark.parametrize("engine", ORDER)
@pytest.mark.parametrize("runs", [
    SAMPLE, pytest.param(MORE, marks=pytest.mark.long), pytest.param(ALL, marks=pytest.mark.slow)])  # fmt: skip
def test_every_sentence_names_an_event_of_its_run(engine, runs):
    found = compared(engine, runs)
    assert [(name, one.false) for name, one in found if one.false] == []
    assert sum(one.compared for _, one in found) > 8 * runs


@pytest.mark.parametrize("draw", [5629, 5726, 20040], ids=[
    "a hit in host memory", "a draft rejected as the request comes", "a prompt begun again after its slot was emptied"])
def test_a_run_that_was_read_wrongly_once_names_its_events(draw):
    run = draw_run(draw, "")
    assert run is not None and compare_sentences(run.scenario, run.profile).false == []


CASES = {
    "S40.A20>2/B30>2/S.A.C9": ({"parallel": 1, "ctx_size": 256, "batch_size": 64}, "GGGA", "llama_cpp@b11549"),
    "S20.A10>a5/S.A": ({"parallel": 1, "ctx_size": 256, "batch_size": 64}, "GGGA", "llama_cpp@b11549"),
    "A250>20/A": ({"parallel": 1, "ctx_size": 256, "context_shift": True}, "A", "llama_cpp@b11549"),
    "A20>2/B30>2/A.C9": ({"prompt_cache_size": 1}, "A", "mlx_lm@0.31.3"),
    "A40>2/A.B9": ({"block_size": 8}, "A", "vllm@0.33.0"),
}  # fmt: skip
PLANTED = [
    ("S20.A10>a5/S.A", 26, 20), ("S20.A10>a5/S.A", 26, 25), ("S40.A20>2/B30>2/S.A.C9", 61, 60),
    ("S40.A20>2/B30>2/S.A.C9", 31, 32), ("A250>20/A", 127, 126), ("A40>2/A.B9", 40, 48),
]  # fmt: skip
"""Conversation, a number in the sentences about it, and another number that is planted in its place."""


@cache
def case_of(line: str) -> Scenario:
    """Return the scenario of a line, of whose sentences none is false."""
    server, model, profile = CASES[line]
    scenario = from_line(line, model=model, profiles=(profile,), server=server)
    assert compare_sentences(scenario, profile).false == []
    return scenario


@pytest.mark.parametrize(("line", "true", "false"), PLANTED)
def test_a_planted_false_sentence_is_found(line, true, false):
    scenario = case_of(line)
    planted = 0

    def change(report: str) -> str:
        nonlocal planted
        text, times = re.subn(rf"\b{true}\b", str(false), report)
        planted += times
        return text

    assert compare_sentences(scenario, scenario.profiles[0], change).false != [] and planted
