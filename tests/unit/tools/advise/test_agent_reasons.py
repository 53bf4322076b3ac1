"""Reasons of settings for agents: what decided against the other values, and its numbers."""

from __future__ import annotations

import re

import pytest

from cachesim.engines.registry import engine_of
from cachesim.tools.advise.agent_reasons import reason_text, reasons_data
from cachesim.tools.advise.agent_search import AgentAdvice, AgentCost, AgentSearch, CostlySetting, FittedSetting
from cachesim.tools.advise.agent_workload import recorded_workload
from cachesim.tools.workload.recorded_session import RecordedRequest, WorkloadSession

GIB = 1 << 30
ENGINE = engine_of("llama_cpp@b11549")


def numbers(text):
    """Return the numbers of a sentence, and the flags with theirs."""
    return re.findall(r"-np \d|\d[\d,.]*(?<![,.])", text)


def costly(evaluated=500, gib=1, unanswered=0, imprecise=False, wrong=0, **options):
    setting = FittedSetting(options, gib * GIB, 4096, 0, imprecise)
    return CostlySetting(setting, AgentCost(10_000, evaluated, 90, 20, unanswered, wrong))


def searching(longest=900, filled=()):
    """Return a search on a session whose longest request has so many tokens."""
    request = RecordedRequest(0, 1, longest - 10, 10, tuple(range(1, longest // 64 + 1)))
    load = recorded_workload([WorkloadSession("s", "test", 64, (request,))], "sessions", 1, 0)
    search = AgentSearch("llama_cpp@b11549", "qwen3", 8 * GIB, 1, load)
    search.agents = search.agents._replace(filled=filled)
    return search


def reasons(best, ran=(), wrong=(), first=(), filled=(), longest=900):
    """The reasons of the best setting by option."""
    advice = AgentAdvice([best], wrong, [best, *first], (), [best, *ran])
    return {found["name"]: found for found in reasons_data(searching(longest, filled), advice)}


BEST = costly(parallel=2)
HERE = {"evaluated": 500, "prompt_tokens": 10_000, "units": 50, "bytes": GIB, "less_precise": False, "unanswered": 0,
        "requests": 20, "wrong": 0}  # fmt: skip


@pytest.mark.parametrize(("rival", "decided"), [
    (costly(parallel=1, unanswered=1), "unanswered"), (costly(400, parallel=1, imprecise=True), "precision"),
    (costly(600, parallel=1), "evaluated"), (costly(501, 2, parallel=1), "memory"), (costly(parallel=3), "tie"),
    (costly(400, parallel=1), "tie"),
])  # fmt: skip
def test_the_first_part_that_differs_decides(rival, decided):
    found = reasons(BEST, ran=[rival])["parallel"]
    assert (found["decided"], found["compared_on"]) == (decided, "all")
    assert found["here"] == HERE and found["there"]["evaluated"] == rival.cost.evaluated


def test_the_best_of_the_settings_with_another_value_is_compared():
    rivals = [costly(900, parallel=3), costly(600, parallel=1), costly(500, parallel=2, cache_ram=0)]
    found = reasons(BEST, ran=rivals)["parallel"]
    assert (found["flag"], found["other"], found["there"]["evaluated"]) == ("-np 2", "-np 1", 600)
    assert numbers(found["text"]) == ["5.00", "-np 1", "6.00"]


def test_wrong_settings_are_compared_where_no_other_ran():
    found = reasons(BEST, wrong=[costly(100, parallel=1, wrong=7)], first=[costly(600, parallel=4)])["parallel"]
    assert (found["decided"], found["compared_on"]) == ("wrong", "all")
    assert numbers(found["text"]) == ["-np 1", "7", "20"]


@pytest.mark.parametrize(("rival", "decided", "shown"), [
    (costly(400, parallel=1), "not run", ["-np 1", "400", "500"]),
    (costly(600, parallel=1), "evaluated", ["5.00", "-np 1", "6.00"]),
])  # fmt: skip
def test_a_setting_that_ran_on_a_part_is_compared_last(rival, decided, shown):
    found = reasons(BEST, first=[rival])["parallel"]
    assert (found["decided"], found["compared_on"], numbers(found["text"])) == (decided, "part", shown)


def test_on_a_part_of_the_servers_the_best_setting_has_its_cost_there():
    there = BEST._replace(cost=BEST.cost._replace(evaluated=700))
    advice = AgentAdvice([BEST], (), [there, costly(800, parallel=1)], (), [BEST])
    (found,) = reasons_data(searching(), advice)
    assert (found["compared_on"], found["here"]["evaluated"], found["there"]["evaluated"]) == ("part", 700, 800)


def test_a_value_that_nothing_was_compared_with_is_untried():
    found = reasons(BEST, ran=[costly(parallel=2, cache_ram=0)])["parallel"]
    assert (found["decided"], found["there"], found["other"], found["here"]) == ("untried", None, "", HERE)


def test_an_option_that_a_setting_lacks_has_its_default():
    default = ENGINE.manual.flag("cache_ram").default
    found = reasons(costly(cache_ram=default), ran=[costly(600), costly(700, cache_ram=0)])["cache_ram"]
    assert (found["other"], found["there"]["evaluated"]) == ("--cache-ram 0", 700)


def test_the_context_and_what_fills_the_memory_are_not_compared():
    best = costly(ctx_size=4096, parallel=2, cache_ram=9)
    found = reasons(best, ran=[costly(900, ctx_size=9, parallel=1, cache_ram=1)], filled=("cache_ram",), longest=5000)
    assert (found["ctx_size"]["decided"], found["cache_ram"]["decided"]) == ("context", "filled")
    assert found["ctx_size"]["slot"] < 5000 == found["ctx_size"]["longest_request"]
    assert found["parallel"]["slot"] is None


NUMBERS = {"here": {**HERE, "evaluated": 400}, "there": {**HERE, "bytes": 2 * GIB, "unanswered": 3}, "other": "-np 1",
           "compared_on": "all"}  # fmt: skip


@pytest.mark.parametrize(("decided", "more", "shown"), [
    ("unanswered", {}, ["-np 1", "3", "20", "0"]), ("precision", {}, ["-np 1", "5.00", "4.00", "1"]),
    ("memory", {}, ["-np 1", "500", "400", "0.1", "2.0", "1.0"]), ("tie", {}, ["-np 1", "500", "400", "0.1"]),
    ("tie", {"there": HERE}, ["-np 1", "500", "400", "0.1", "1.0"]), ("not run", {}, ["-np 1", "500", "400"]),
    ("evaluated", {"here": {**HERE, "prompt_tokens": 0}}, ["0", "-np 1", "5.00"]),
])  # fmt: skip
def test_a_comparison_has_its_numbers(decided, more, shown):
    assert numbers(reason_text({**NUMBERS, **more, "decided": decided})) == shown
