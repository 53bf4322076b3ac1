"""Tests of the report for agents: reasons compare the best setting with the best of other values."""

import pytest

from cachesim.base.console import as_text
from cachesim.engines.shared.memory_use import MIB
from cachesim.tools.advise.agent_report import agents_data, agents_report
from cachesim.tools.advise.agent_search import AgentAdvice, AgentCost, AgentSearch, CostlySetting, FittedSetting
from cachesim.tools.advise.agent_workload import recorded_workload
from tests.unit.tools.advise.test_agent_search import conversation

GIB = 1 << 30


def costly(evaluated, gib=1.0, unanswered=0, imprecise=False, wrong=0, **options):
    setting = FittedSetting({"ctx_size": 4096, **options}, int(gib * GIB), 4096, imprecise)
    return CostlySetting(setting, AgentCost(10_000, evaluated, 90, 20, unanswered, wrong))


def told(*tried, best=None, wrong=(), excluded=(), clients=2, tokens=4):
    """Return the data and the text of advice."""
    load = recorded_workload([conversation("s", tokens)], "recorded sessions", clients, 0)
    search = AgentSearch("llama_cpp@b11549", "qwen3", 8 * GIB, clients, load)
    best = tried[:4] if best is None else best
    advice = AgentAdvice(best, wrong, tried, excluded)
    data = agents_data(search, advice, "qwen3", 8 * GIB, None)
    return data, " ".join(as_text(*agents_report(data)).split())


@pytest.mark.parametrize(("rival", "reason"), [
    (costly(900, 2, parallel=1), "9.00 %: 5.00"), (costly(500, 2, parallel=1), "but takes more memory (2.0 GiB"),
    (costly(500, 1, parallel=1), "-np 1 evaluates as many tokens, in as much memory"),
    (costly(400, 1, unanswered=3, parallel=1), "with -np 1, 3 of 20 requests have no answer, at best"),
    (costly(300, 1, parallel=1), "fewer tokens, but its answers are wrong or its rows less precise"),
])  # fmt: skip
def test_a_reason_names_the_best_of_other_values(rival, reason):
    data, _ = told(costly(500, parallel=2), rival, costly(950, parallel=1, unanswered=9))
    (found,) = [one["text"] for one in data["reasons"] if one["name"] == "parallel"]
    if reason.startswith("9.00"):
        assert found == "5.00 % of the prompt tokens are evaluated; with -np 1, 9.00 % at best"
    else:
        assert reason in found


def test_a_context_holds_the_longest_request_or_is_the_largest_that_fits():
    data, _ = told(costly(500, parallel=1), clients=1, tokens=1)
    assert "largest context that fits: 4,096 tokens for a slot; the longest request has 8,200" in str(data["reasons"])
    large = FittedSetting({"ctx_size": 8448, "parallel": 1}, GIB, 0, False)
    data, _ = told(costly(500)._replace(setting=large), tokens=1)
    assert "each slot holds the longest request (8,200 tokens)" in str(data["reasons"])


def test_what_costs_is_said_after_the_command_line():
    _, text = told(costly(500, parallel=1, imprecise=True), costly(600, unanswered=2, parallel=2))
    assert text.startswith("llama-server -m MODEL -c 4096 -np 1 5.00 % of the prompt tokens evaluated (500 of 10,000)")
    assert "any server: at least 0.90 %, requests wait for a slot, less precise rows" in text
    assert "next: 6.00 %, 2 of 20 requests unanswered, 1.0 GiB llama-server -m MODEL -c 4096 -np 2 why:" in text


def test_what_was_left_out_is_said():
    big = FittedSetting({}, 9 * GIB + 512 * MIB, 0, False)
    data, text = told(costly(500, parallel=1), wrong=[costly(400, wrong=7, parallel=2)], excluded=[big, big])
    assert data["excluded"] == 2 and data["smallest_excluded"] == big.total
    assert "1 settings tried; 2 more do not fit into 8.0 GiB" in text
    assert "Left out for wrong answers: 1 settings, such as -c 4096 -np 2 (7 of 20 answers)" in text
    data, text = told(costly(500, parallel=1), best=[], wrong=[costly(400, wrong=7, parallel=2)])
    assert data["best"] is None and text.startswith("every setting gives wrong answers (1 tried)")
