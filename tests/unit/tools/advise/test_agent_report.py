"""Tests of the report for agents: reasons compare the best setting with the best of other values."""

import re
from random import Random

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
    advice = AgentAdvice(best, wrong, tried, excluded, best)
    data = agents_data(search, advice, "qwen3", 8 * GIB, None)
    return data, " ".join(as_text(*agents_report(data)).split())


@pytest.mark.parametrize(("rival", "decided", "reason"), [
    (costly(900, 2, parallel=1), "evaluated", "5.00 % of the prompt tokens are evaluated; with -np 1, 9.00 %"),
    (costly(500, 2, parallel=1), "memory",
     "-np 1 evaluates 500 instead of 500 tokens, a tie at 0.1 %, and takes more memory (2.0 GiB instead of 1.0 GiB)"),
    (costly(496, 9, parallel=1), "memory",
     "-np 1 evaluates 496 instead of 500 tokens, a tie at 0.1 %, and takes more memory (9.0 GiB instead of 1.0 GiB)"),
    (costly(500, 1, parallel=4), "tie",
     "-np 4 evaluates 500 instead of 500 tokens, a tie at 0.1 %, and takes as much memory (1.0 GiB)"),
    (costly(400, 1, unanswered=3, parallel=1), "unanswered", "with -np 1, 3 of 20 requests have no answer; here 0"),
    (costly(450, 1, imprecise=True, parallel=1), "precision",
     "with -np 1, 4.50 % of the prompt tokens are evaluated instead of 5.00 %: less precise rows must save 1 % of the "
     "prompt tokens"),
])  # fmt: skip
def test_a_reason_names_what_decided_against_the_best_of_other_values(rival, decided, reason):
    data, text = told(costly(500, parallel=2), rival, costly(950, parallel=1, unanswered=9))
    (found,) = [one for one in data["reasons"] if one["name"] == "parallel"]
    assert (found["decided"], found["text"]) == (decided, reason) and f"-np 2: {reason}." in text


def test_a_setting_that_ranked_higher_on_a_part_of_the_servers_is_not_called_wrong():
    best, other = costly(500, parallel=2), costly(300, parallel=1)
    data, _ = told(best, other, best=[best])
    (found,) = [one for one in data["reasons"] if one["name"] == "parallel"]
    assert found["text"] == ("-np 1 did not run on all servers; it evaluates 300 instead of 500 tokens on the servers "
                             "with the longest requests")  # fmt: skip
    data, _ = told(best, other, best=[best], wrong=[costly(300, wrong=7, parallel=1)])
    (found,) = [one for one in data["reasons"] if one["name"] == "parallel"]
    assert found["text"] == "with -np 1, 7 of 20 answers are wrong"


def drawn(seed):
    """Return drawn settings with another number of slots each, the best first, and some that are wrong."""
    random = Random(seed)
    every = [costly(random.randrange(300, 900, 7), random.choice((1.0, 1.5, 2.0)), random.choice((0, 0, 0, 2)),
                    random.random() < 0.3, parallel=n) for n in (1, 2, 3, 4)]  # fmt: skip
    right = sorted(every[1:], key=lambda one: one.rank)
    return right, [every[0]._replace(cost=every[0].cost._replace(wrong=3))] * (seed % 2)


@pytest.mark.parametrize("seed", range(60))
def test_a_sentence_says_what_the_numbers_of_its_json_say(seed):
    right, wrong = drawn(seed)
    ran = right[: 1 + seed % 3]
    data, text = told(*right, best=ran, wrong=wrong)
    (found,) = [one for one in data["reasons"] if one["name"] == "parallel"]
    here, there = found["here"], found["there"]
    sentence = found["text"]
    assert f"-np {right[0].setting.options['parallel']}: {sentence}." in text
    for word, value in shown(sentence):
        assert value in {f"{one[word]:,}" if word != "percent" else f"{100 * one['evaluated'] / 10_000:.2f}"
                         for one in (here, there)}  # fmt: skip
    tie = here["units"] == there["units"]
    assert ("a tie" in sentence) <= tie and ("takes more memory" in sentence) <= (there["bytes"] > here["bytes"])
    assert ("answers are wrong" in sentence) is bool(there["wrong"])
    assert ("no answer" in sentence) <= (there["unanswered"] > here["unanswered"])
    assert ("less precise" in sentence) <= (there["less_precise"] != here["less_precise"])
    if found["decided"] == "evaluated":
        assert here["units"] < there["units"]


def shown(sentence):
    """Yield the numbers of a sentence, each with its name in the JSON."""
    for percent in re.findall(r"([\d.]+) % of the prompt tokens are|with -np \d, ([\d.]+) %$", sentence):
        yield "percent", "".join(percent)
    for tokens in re.findall(r"evaluates ([\d,]+) instead of ([\d,]+) tokens", sentence):
        yield from (("evaluated", number) for number in tokens)
    for number in re.findall(r"(\d+) of \d+ answers are wrong", sentence):
        yield "wrong", number


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
