"""Sizes of a pool that a scenario does not give."""

from __future__ import annotations

import pytest

from cachesim.base.errors import BadInput
from cachesim.engines.registry import present_name
from cachesim.scenarios.from_notation import from_line
from cachesim.scenarios.runner import AnswerCollector, play
from cachesim.scenarios.server_settings import assumed_options

TALKS = (
    "P9000>20/P.Q200>9/R9000>3/P>2",
    "P6000>5/Q6000>5{together}/R6000>5{together}/P.Z9>1/Q>1/R>1",
    "P3000>300/P.A40>200/P.A.B7000>1/P.A>1/P>1",
)


@pytest.mark.parametrize(("model", "line"), [*(("A", line) for line in TALKS), ("W64 A", TALKS[1]), ("GA", TALKS[2])])
@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_an_assumed_pool_changes_nothing_that_a_larger_one_would_not(engine: str, model: str, line: str) -> None:
    case = from_line(line, model=model, profiles=(present_name(engine),))
    assumed = assumed_options(case)
    larger = {name: 4 * int(size) for name, size in assumed.items()}
    ample = from_line(line, model=model, profiles=case.profiles, server=larger)
    assert assumed and not assumed_options(ample)
    found = [AnswerCollector(), AnswerCollector()]
    for scenario, answers in zip((case, ample), found, strict=True):
        play(scenario, case.profiles[0], "none", answers)
    numbers = [[(answer.status, answer.cache_n) for _, answer in one.found.values()] for one in found]
    assert numbers[0] == numbers[1] and {status for status, _ in numbers[0]} == {200}


def test_a_size_that_is_given_is_not_assumed() -> None:
    given = {"max_total_tokens": 4096}
    case = from_line("P9", model="GA", profiles=("sglang@0.5.23",), server=given)
    assert assumed_options(case).keys() == {"max_mamba_cache_size"}
    assert not assumed_options(from_line("P9", model="GA"))


@pytest.mark.parametrize(("given", "starts"), [
    ({"num_gpu_blocks": 512}, True), ({"num_gpu_blocks": 512, "max_model_len": 8176}, True),
    ({"num_gpu_blocks": 512, "max_model_len": 8177}, False), ({"max_model_len": 32768}, True),
])  # fmt: skip
def test_a_given_pool_below_the_given_context_does_not_start(given: dict[str, int], starts: bool) -> None:
    case = from_line("P9", model="AAAA", profiles=("vllm@0.33.0",), server=given)
    if starts:
        assert play(case, "vllm@0.33.0", "none").events
        return
    with pytest.raises(BadInput, match="does not start: a request of max_model_len, 8177 tokens, needs 512 blocks"):
        play(case, "vllm@0.33.0", "none")
