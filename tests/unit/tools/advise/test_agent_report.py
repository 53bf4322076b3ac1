"""Tests of the report for agents: reasons compare the best setting with the best of other values."""

import re
from random import Random

import pytest

from cachesim.base.console import as_text
from cachesim.engines.shared.memory_use import MIB
from cachesim.tools.advise.agent_report import NotedSearch, agents_data, agents_report, flags_of
from cachesim.tools.advise.agent_search import AgentAdvice, AgentCost, AgentSearch, CostlySetting, FittedSetting
from cachesim.tools.advise.agent_workload import recorded_workload
from tests.unit.tools.advise.test_agent_search import conversation

GIB = 1 << 30


def numbers(text):
    """Return the numbers of a sentence, and the flags with theirs."""
    return re.findall(r"-np \d|\d[\d,.]*(?<![,.])", text)


def shows(text, *parts):
    """True if a text contains these parts in this order."""
    return re.search(".*".join(map(re.escape, parts)), text, re.S) is not None


def costly(evaluated, gib=1.0, unanswered=0, imprecise=False, wrong=0, **options):
    setting = FittedSetting({"ctx_size": 4096, **options}, int(gib * GIB), 4096, 0, imprecise)
    return CostlySetting(setting, AgentCost(10_000, evaluated, 90, 20, unanswered, wrong))


def told(*tried, best=None, wrong=(), excluded=(), clients=2, tokens=4):
    """Return the data and the text of advice."""
    load = recorded_workload([conversation("s", tokens)], "recorded sessions", clients, 0)
    search = AgentSearch("llama_cpp@b11549", "qwen3", 8 * GIB, clients, load)
    best = tried[:4] if best is None else best
    advice = AgentAdvice(best, wrong, tried, excluded, best)
    data = agents_data(search, advice, "qwen3", 8 * GIB, None)
    return data, " ".join(as_text(*agents_report(data)).split())


@pytest.mark.parametrize(("rival", "decided", "shown"), [
    (costly(900, 2, parallel=1), "evaluated", ["5.00", "-np 1", "9.00"]),
    (costly(500, 2, parallel=1), "memory", ["-np 1", "500", "500", "0.1", "2.0", "1.0"]),
    (costly(496, 9, parallel=1), "memory", ["-np 1", "496", "500", "0.1", "9.0", "1.0"]),
    (costly(500, 1, parallel=4), "tie", ["-np 4", "500", "500", "0.1", "1.0"]),
    (costly(400, 1, unanswered=3, parallel=1), "unanswered", ["-np 1", "3", "20", "0"]),
    (costly(450, 1, imprecise=True, parallel=1), "precision", ["-np 1", "4.50", "5.00", "1"]),
])  # fmt: skip
def test_a_reason_names_what_decided_against_the_best_of_other_values(rival, decided, shown):
    data, text = told(costly(500, parallel=2), rival, costly(950, parallel=1, unanswered=9))
    (found,) = [one for one in data["reasons"] if one["name"] == "parallel"]
    assert (found["decided"], numbers(found["text"])) == (decided, shown) and f"-np 2: {found['text']}." in text


def test_a_setting_that_ranked_higher_on_a_part_of_the_servers_is_not_called_wrong():
    best, other = costly(500, parallel=2), costly(300, parallel=1)
    data, _ = told(best, other, best=[best])
    (found,) = [one for one in data["reasons"] if one["name"] == "parallel"]
    assert (found["decided"], numbers(found["text"])) == ("not run", ["-np 1", "300", "500"])
    data, _ = told(best, other, best=[best], wrong=[costly(300, wrong=7, parallel=1)])
    (found,) = [one for one in data["reasons"] if one["name"] == "parallel"]
    assert (found["decided"], numbers(found["text"])) == ("wrong", ["-np 1", "7", "20"])


def drawn(seed):
    """Return drawn settings with another number of slots each, the best first, and some that are wrong."""
    random = Random(seed)
    every = [costly(random.randrange(300, 900, 7), random.choice((1.0, 1.5, 2.0)), random.choice((0, 0, 0, 2)),
                    random.random() < 0.3, parallel=n) for n in (1, 2, 3, 4)]  # fmt: skip
    right = sorted(every[1:], key=lambda one: one.rank)
    return right, [every[0]._replace(cost=every[0].cost._replace(wrong=3))] * (seed % 2)


@pytest.mark.parametrize("seed", range(20))
def test_what_decided_is_what_the_numbers_of_the_json_say(seed):
    right, wrong = drawn(seed)
    data, text = told(*right, best=right[: 1 + seed % 3], wrong=wrong)
    (found,) = [one for one in data["reasons"] if one["name"] == "parallel"]
    here, there, decided = found["here"], found["there"], found["decided"]
    assert f"-np {right[0].setting.options['parallel']}: {found['text']}." in text
    assert (decided == "wrong") is bool(there["wrong"])
    assert decided != "unanswered" or there["unanswered"] > here["unanswered"]
    assert decided != "precision" or there["less_precise"] != here["less_precise"]
    assert decided != "memory" or (here["units"] == there["units"] and there["bytes"] > here["bytes"])
    assert decided != "evaluated" or here["units"] < there["units"]


def test_a_context_holds_the_longest_request_or_is_the_largest_that_fits():
    data, _ = told(costly(500, parallel=1), clients=1, tokens=1)
    assert numbers(data["reasons"][0]["text"]) == ["4,096", "8,200"]
    large = FittedSetting({"ctx_size": 8448, "parallel": 1}, GIB, 0, 0, False)
    data, _ = told(costly(500)._replace(setting=large), tokens=1)
    assert numbers(data["reasons"][0]["text"]) == ["8,200"]


def test_what_costs_is_said_after_the_command_line():
    _, text = told(costly(500, parallel=1, imprecise=True), costly(600, unanswered=2, parallel=2))
    assert shows(text, "llama-server -m MODEL -c 4096 -np 1 5.00 %", "500 of 10,000", "0.90 %", "6.00 %", "2 of 20",
                 "1.0 GiB llama-server -m MODEL -c 4096 -np 2")  # fmt: skip


def test_what_was_left_out_is_said():
    big = FittedSetting({}, 9 * GIB + 512 * MIB, 0, 0, False)
    data, text = told(costly(500, parallel=1), wrong=[costly(400, wrong=7, parallel=2)], excluded=[big, big])
    assert data["excluded"] == 2 and data["smallest_excluded"] == big.total
    assert shows(text, "1 settings tried; 2 ", "8.0 GiB", "1 settings", "-c 4096 -np 2", "7 of 20")
    two = [costly(400, wrong=7, parallel=2), costly(300, wrong=8, parallel=4)]
    data, _ = told(costly(500, parallel=1), wrong=two)
    assert [one["wrong"] for one in data["wrong"]] == [7] and data["wrong_settings"] == 2
    data, text = told(costly(500, parallel=1), best=[], wrong=[costly(400, wrong=7, parallel=2)])
    assert data["best"] is None and "(1 tried)" in text


LOAD = {"source": "recorded sessions", "sessions": 9, "left_out": 2, "servers": 3, "longest": 8200}
SETTING = {"command": "server MODEL -np 2", "flags": "-np 2", "options": [], "bytes": GIB, "less_precise": False,
           "waits": False, "prompt_tokens": 20_000, "evaluated": 5_000, "share": 0.25, "bound": 1_000, "requests": 20,
           "unanswered": 0, "wrong": 0, "waiting": 0, "waiting_tokens": 0, "scale": 1}  # fmt: skip
DATA = {"model": "m", "profile": "p", "clients": 2, "memory": 8 * GIB, "weights": None, "room": 6 * GIB,
        "workload": LOAD, "scale": 1, "tried": 7, "excluded": 0, "best": SETTING, "next": [], "wrong": [],
        "wrong_settings": 0, "reasons": [{"flag": "-np 2", "text": "as many as fit"}]}  # fmt: skip


def text_of(**given):
    """The text of a report, with single spaces between words."""
    return " ".join(as_text(*agents_report({**DATA, **given})).split())


def test_a_report_without_more_to_say():
    found = text_of()
    assert shows(found, "server MODEL -np 2 25.00 %", "5,000 of 20,000", "5.00 %", "1.0 GiB", "8.0 GiB", "--weights N",
                 "-np 2: as many as fit.", "m under p, 2 clients: 9 recorded sessions", "2", "8,200", "2 ", "7 ")
    assert found.count("GiB") == 2


@pytest.mark.parametrize("scale, is_named", [(1, False), (2, True), (3, True)])
def test_a_scale_is_named_from_two_tokens_on(scale, is_named):
    assert (text_of(scale=scale) != text_of(scale=1)) is is_named
    assert not is_named or f" {scale} tokens" in text_of(scale=scale)


def test_a_report_with_all_that_can_be_said():
    best = {**SETTING, "less_precise": True, "waits": True, "unanswered": 3}
    other = {**SETTING, "command": "server MODEL -np 1", "share": 0.5, "unanswered": 1, "bytes": GIB // 2,
             "waits": True}  # fmt: skip
    wrong = {**SETTING, "flags": "-np 9", "wrong": 4}
    found = text_of(best=best, next=[other], wrong=[wrong], wrong_settings=2, excluded=5, scale=64, weights=2 * GIB)
    assert shows(found, "server MODEL -np 2 25.00 %", "wait", "less precise", "3 of 20", "1.0 GiB", "8.0 GiB",
                 "2.0 GiB", "50.00 %", "1 of 20", "0.5 GiB", "wait", "server MODEL -np 1", "7 settings tried; 5 ",
                 "6.0 GiB", "64 tokens", "2 settings", "-np 9", "4 of 20", "Less precise rows")  # fmt: skip


@pytest.mark.parametrize(("waiting", "says"), [
    ({"waits": True}, "0 of 20 requests wait for a slot"),
    ({"waits": True, "waiting": 4, "waiting_tokens": 4_004}, "4 of 20 requests wait for a slot, on average until the "
     "server has evaluated and generated 1,001 tokens for others"),
])  # fmt: skip
def test_waiting_for_a_slot_has_numbers(waiting, says):
    assert says in text_of(best={**SETTING, **waiting})


def test_a_report_without_a_setting():
    load = {**LOAD, "source": "a workload", "left_out": 0}
    wrong = {**SETTING, "wrong": 20}
    found = text_of(best=None, reasons=[], wrong=[wrong], wrong_settings=3, workload=load, clients=1)
    assert shows(found, "(3 tried)", "m under p, 1 client: a workload", "8,200", "3 settings", "-np 2", "20 of 20")


def test_a_share_is_rounded_to_four_digits():
    data, _ = told(costly(500, parallel=2)._replace(cost=AgentCost(30_000, 12_346, 0, 3, 0, 0)))
    assert data["best"]["share"] == 0.4115


def test_an_empty_workload_has_no_share():
    cost = AgentCost(0, 0, 0, 0, 0, 0)
    data, _ = told(costly(500, parallel=2)._replace(cost=cost))
    assert (data["best"]["share"], data["best"]["evaluated"]) == (0.0, 0)


def test_a_search_is_noted_while_it_runs(capsys):
    load = recorded_workload([conversation("s", 4)], "recorded sessions", 2, 0)
    search = AgentSearch("llama_cpp@b11549", "qwen3", 8 * GIB, 2, load)
    noted = NotedSearch(search, "m.gguf")
    noted.begins(1)
    noted.leads("on all sessions", costly(500, parallel=2, unanswered=1))
    out, err = capsys.readouterr()
    assert out == "" and shows(err, "m.gguf under llama_cpp@b11549, 2 clients", "32,776", "1 setting\n",
                               "llama-server -m m.gguf -c 4096 -np 2: 5.00 %", "1 of 20")  # fmt: skip


def test_a_flag_without_a_value_that_is_off_is_not_written():
    load = recorded_workload([conversation("s", 4)], "recorded sessions", 2, 0)
    search = AgentSearch("llama_cpp@b11549", "qwen3", 8 * GIB, 2, load)
    assert [*flags_of({"parallel": 2, "kv_unified": False, "swa_full": False}, search)] == ["-np 2", "-no-kvu"]
    assert [*flags_of({"kv_unified": True, "swa_full": True}, search)] == ["-kvu", "--swa-full"]
