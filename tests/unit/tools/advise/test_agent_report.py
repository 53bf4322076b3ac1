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
    two = [costly(400, wrong=7, parallel=2), costly(300, wrong=8, parallel=4)]
    data, _ = told(costly(500, parallel=1), wrong=two)
    assert [one["wrong"] for one in data["wrong"]] == [7] and data["wrong_settings"] == 2
    data, text = told(costly(500, parallel=1), best=[], wrong=[costly(400, wrong=7, parallel=2)])
    assert data["best"] is None and text.startswith("every setting gives wrong answers (1 tried)")


LOAD = {"source": "recorded sessions", "sessions": 9, "left_out": 2, "servers": 3, "longest": 8200}
SETTING = {"command": "server MODEL -np 2", "flags": "-np 2", "options": [], "bytes": GIB, "less_precise": False,
           "waits": False, "prompt_tokens": 20_000, "evaluated": 5_000, "share": 0.25, "bound": 1_000, "requests": 20,
           "unanswered": 0, "wrong": 0, "scale": 1}  # fmt: skip
DATA = {"model": "m", "profile": "p", "clients": 2, "memory": 8 * GIB, "weights": None, "room": 6 * GIB,
        "workload": LOAD, "scale": 1, "tried": 7, "excluded": 0, "best": SETTING, "next": [], "wrong": [],
        "wrong_settings": 0, "reasons": [{"flag": "-np 2", "text": "as many as fit"}]}  # fmt: skip


def words_of(**given):
    """The words of a report, whatever its lines."""
    return as_text(*agents_report({**DATA, **given})).split()


def words(*lines):
    return " ".join(lines).split()


ABOUT = ("m under p, 2 clients: 9 recorded sessions, up to 2 on a server, requests of up to 8,200 tokens; 2 longer "
         "sessions left out")  # fmt: skip
BEST = ["server MODEL -np 2",
        "25.00 % of the prompt tokens evaluated (5,000 of 20,000); any server: at least 5.00 %",
        "at most 1.0 GiB for caches, 8.0 GiB given; weights and compute buffers are not counted (--weights N)"]


def test_a_report_without_more_to_say():
    assert words_of() == words(*BEST, "why:", "-np 2: as many as fit.", ABOUT, "7 settings tried.")


@pytest.mark.parametrize("scale, words_of_scale", [(1, 0), (2, 1), (3, 1)])
def test_a_scale_is_named_from_two_tokens_on(scale, words_of_scale):
    assert words_of(scale=scale).count("unscaled.") == words_of_scale


def test_a_report_with_all_that_can_be_said():
    best = {**SETTING, "less_precise": True, "waits": True, "unanswered": 3}
    other = {**SETTING, "command": "server MODEL -np 1", "share": 0.5, "unanswered": 1, "bytes": GIB // 2,
             "waits": True}  # fmt: skip
    wrong = {**SETTING, "flags": "-np 9", "wrong": 4}
    found = words_of(best=best, next=[other], wrong=[wrong], wrong_settings=2, excluded=5, scale=64, weights=2 * GIB)
    assert found == words(
        BEST[0], f"{BEST[1]}, requests wait for a slot, less precise rows",
        "3 of 20 requests have no answer: they do not fit into a slot's context",
        "at most 1.0 GiB for caches, 8.0 GiB given, 2.0 GiB of them for weights; compute buffers are not counted",
        "next: 50.00 %, 1 of 20 requests unanswered, 0.5 GiB, requests wait for a slot server MODEL -np 1",
        "why: -np 2: as many as fit.", ABOUT,
        "7 settings tried; 5 more do not fit into 6.0 GiB. 64 tokens run as one, the best setting again unscaled.",
        "Left out for wrong answers: 2 settings, such as -np 9 (4 of 20 answers)",
        "Less precise rows save 1 % of the prompt tokens or more; their errors are not simulated.",
    )  # fmt: skip


def test_a_report_without_a_setting():
    load = {**LOAD, "source": "a workload", "left_out": 0}
    wrong = {**SETTING, "wrong": 20}
    found = words_of(best=None, reasons=[], wrong=[wrong], wrong_settings=3, workload=load, clients=1)
    assert found == words(
        "every setting gives wrong answers (3 tried)",
        "m under p, 1 client: a workload, up to 1 on a server, requests of up to 8,200 tokens", "7 settings tried.",
        "Left out for wrong answers: 3 settings, such as -np 2 (20 of 20 answers)",
    )  # fmt: skip


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
    assert out == "" and " ".join(err.split()) == (
        "cachesim: m.gguf under llama_cpp@b11549, 2 clients: 1 recorded sessions, up to 2 on a server, requests of "
        "up to 32,776 tokens: comparing 1 setting cachesim: so far: llama-server -m m.gguf -c 4096 -np 2: 5.00 %, "
        "1 of 20 requests unanswered of the prompt tokens evaluated (on all sessions)")  # fmt: skip


def test_a_flag_without_a_value_that_is_off_is_not_written():
    load = recorded_workload([conversation("s", 4)], "recorded sessions", 2, 0)
    search = AgentSearch("llama_cpp@b11549", "qwen3", 8 * GIB, 2, load)
    assert [*flags_of({"parallel": 2, "kv_unified": False, "swa_full": False}, search)] == ["-np 2", "-no-kvu"]
    assert [*flags_of({"kv_unified": True, "swa_full": True}, search)] == ["-kvu", "--swa-full"]
