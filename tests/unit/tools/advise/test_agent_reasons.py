"""Reasons of settings for agents, in sentences."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from cachesim.engines.registry import engine_of
from cachesim.tools.advise.agent_reasons import reason_text, reasons_data
from cachesim.tools.advise.agent_search import AgentAdvice, AgentCost, CostlySetting, FittedSetting


@pytest.mark.parametrize("found, text", [
    ({"decided": "context", "slot": 4096, "longest_request": 9000},
     "the largest context that fits: 4,096 tokens for a slot; the longest request has 9,000"),
    ({"decided": "context", "slot": 9000, "longest_request": 9000},
     "each slot holds the longest request (9,000 tokens)"),
    ({"decided": "filled"}, "as many as fit into the memory"),
    ({"decided": "untried"}, "no other value ran on all servers"),
])  # fmt: skip
def test_a_reason_is_a_sentence(found, text):
    assert reason_text(found) == text


GIB = 1 << 30
ENGINE = engine_of("llama_cpp@b11549")


def costly(evaluated=500, gib=1, unanswered=0, imprecise=False, wrong=0, **options):
    setting = FittedSetting(options, gib * GIB, 4096, imprecise)
    return CostlySetting(setting, AgentCost(10_000, evaluated, 90, 20, unanswered, wrong))


def reasons(best, ran=(), wrong=(), first=(), filled=(), longest=900):
    """The reasons of the best setting by option."""
    load, agents = SimpleNamespace(longest=longest), SimpleNamespace(filled=filled)
    search = SimpleNamespace(engine=ENGINE, load=load, agents=agents, flag_named=ENGINE.manual.flag)
    advice = AgentAdvice([best], wrong, [best, *first], (), [best, *ran])
    return {found["name"]: found for found in reasons_data(search, advice)}


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
    assert found["text"] == "5.00 % of the prompt tokens are evaluated; with -np 1, 6.00 %"


def test_wrong_settings_are_compared_where_no_other_ran():
    found = reasons(BEST, wrong=[costly(100, parallel=1, wrong=7)], first=[costly(600, parallel=4)])["parallel"]
    assert (found["decided"], found["compared_on"]) == ("wrong", "all")
    assert found["text"] == "with -np 1, 7 of 20 answers are wrong"


@pytest.mark.parametrize(("rival", "decided", "text"), [
    (costly(400, parallel=1), "not run",
     "-np 1 did not run on all servers; it evaluates 400 instead of 500 tokens on the servers with the longest "
     "requests"),
    (costly(600, parallel=1), "evaluated",
     "5.00 % of the prompt tokens are evaluated; with -np 1, 6.00 % on the servers with the longest requests"),
])  # fmt: skip
def test_a_setting_that_ran_on_a_part_is_compared_last(rival, decided, text):
    found = reasons(BEST, first=[rival])["parallel"]
    assert (found["decided"], found["compared_on"], found["text"]) == (decided, "part", text)


def test_on_a_part_of_the_servers_the_best_setting_has_its_cost_there():
    load, agents = SimpleNamespace(longest=900), SimpleNamespace(filled=())
    search = SimpleNamespace(engine=ENGINE, load=load, agents=agents, flag_named=ENGINE.manual.flag)
    there = BEST._replace(cost=BEST.cost._replace(evaluated=700))
    advice = AgentAdvice([BEST], (), [there, costly(800, parallel=1)], (), [BEST])
    (found,) = reasons_data(search, advice)
    assert (found["compared_on"], found["here"]["evaluated"], found["there"]["evaluated"]) == ("part", 700, 800)


def test_a_value_that_nothing_was_compared_with_is_untried():
    found = reasons(BEST, ran=[costly(parallel=2, cache_ram=0)])["parallel"]
    assert (found["decided"], found["there"], found["other"], found["here"]) == ("untried", None, "", HERE)


def test_an_option_that_a_setting_lacks_has_its_default():
    default = ENGINE.manual.flag("cache_ram").default
    found = reasons(costly(cache_ram=default), ran=[costly(600), costly(700, cache_ram=0)])["cache_ram"]
    assert (found["other"], found["there"]["evaluated"]) == ("--cache-ram 0", 700)


def test_options_that_one_flag_sets_have_one_reason():
    load, agents = SimpleNamespace(longest=900), SimpleNamespace(filled=())
    flag = ENGINE.manual.flag("parallel")
    search = SimpleNamespace(engine=ENGINE, load=load, agents=agents, flag_named=lambda _: flag)
    best = costly(parallel=2, again=2, other=3)
    found = [*reasons_data(search, AgentAdvice([best], (), [best], (), [best]))]
    assert [(one["name"], one["flag"]) for one in found] == [("parallel", "-np 2"), ("other", "-np 3")]


def test_the_context_and_what_fills_the_memory_are_not_compared():
    best = costly(ctx_size=4096, parallel=2, cache_ram=9)
    found = reasons(best, ran=[costly(900, ctx_size=9, parallel=1, cache_ram=1)], filled=("cache_ram",), longest=5000)
    assert (found["ctx_size"]["decided"], found["cache_ram"]["decided"]) == ("context", "filled")
    assert found["ctx_size"]["slot"] < 5000 == found["ctx_size"]["longest_request"]
    assert found["parallel"]["slot"] is None


NUMBERS = {"here": {**HERE, "evaluated": 400}, "there": {**HERE, "bytes": 2 * GIB, "unanswered": 3}, "other": "-np 1",
           "compared_on": "all"}  # fmt: skip


@pytest.mark.parametrize(("decided", "text"), [
    ("unanswered", "with -np 1, 3 of 20 requests have no answer; here 0"),
    ("precision", "with -np 1, 5.00 % of the prompt tokens are evaluated instead of 4.00 %: the less precise rows save "
                  "1 % of the prompt tokens or more"),
    ("memory", "-np 1 evaluates 500 instead of 400 tokens, a tie at 0.1 %, and takes more memory (2.0 GiB instead of "
               "1.0 GiB)"),
    ("tie", "-np 1 evaluates 500 instead of 400 tokens, a tie at 0.1 %"),
    ("not run", "-np 1 did not run on all servers; it evaluates 500 instead of 400 tokens"),
])  # fmt: skip
def test_a_comparison_is_a_sentence(decided, text):
    assert reason_text({**NUMBERS, "decided": decided}) == text


def test_sentences_of_equal_memory_and_of_less_precise_rivals():
    equal = {**NUMBERS, "there": HERE, "decided": "tie"}
    assert reason_text(equal).endswith("a tie at 0.1 %, and takes as much memory (1.0 GiB)")
    less = {**NUMBERS, "there": {**HERE, "less_precise": True}, "decided": "precision"}
    assert reason_text(less).endswith(": less precise rows must save 1 % of the prompt tokens")
    none = {**NUMBERS, "here": {**HERE, "prompt_tokens": 0}, "decided": "evaluated"}
    assert reason_text(none) == "0 % of the prompt tokens are evaluated; with -np 1, 5.00 %"
