"""What a search draws for llama.cpp: servers, request fields and lists of adapters."""

from __future__ import annotations

import pytest

from cachesim.engines.capabilities import DrawnServer, ServerLoad
from cachesim.engines.llama_cpp.manual import MANUAL, draw


class FixedDraws:
    """Draws the element with this index (or the last), and True for each chance of at least ``least`` percent."""

    def __init__(self, least, place=0):
        self.least, self.place = least, place

    def chance(self, percent):
        return percent >= self.least

    def one(self, values):
        return values[min(self.place, len(values) - 1)]

    def below(self, n):
        return 0

    def between(self, low, high):
        return low


ALWAYS = {"batch_size", "ubatch_size", "ctx_size", "parallel"}
OPTIONS = {10: {"cache_reuse"}, 15: {"swa_full", "spec_type", "spec_draft_n_max"},
           40: {"kv_unified", "slot_prompt_similarity", "ctx_checkpoints", "cache_ram"}, 60: {"checkpoint_min_step"}}


@pytest.mark.parametrize("percent", [*OPTIONS])
def test_an_option_is_drawn_with_its_chance(percent):
    drawn, rarer = ({*draw(FixedDraws(least), "A").server} for least in (percent, percent + 1))
    assert drawn == ALWAYS.union(*(names for chance, names in OPTIONS.items() if chance >= percent))
    assert drawn - rarer == OPTIONS[percent]


@pytest.mark.parametrize(("model", "least", "place", "server"), [
    ("A", 100, 0, DrawnServer("llama_cpp", "A", {"batch_size": 512, "ubatch_size": 512, "ctx_size": 512, "parallel": 1},
                              (1, 4, 5, 8, 512, 512, 64, 256, 512), 496)),
    ("A", 100, 7, DrawnServer("llama_cpp", "A", {"batch_size": 2, "ubatch_size": 1, "ctx_size": 2048, "parallel": 1},
                              (1, 4, 5, 8, 1, 2, 64, 256, 512), 48)),
    ("W8", 51, 7, DrawnServer(
        "llama_cpp", "W8",
        {"batch_size": 2, "ubatch_size": 1, "ctx_size": 2048, "parallel": 1, "checkpoint_min_step": 8192},
        (1, 4, 5, 8, 1, 2, 64, 256, 512, 130, 256, 264, 300, 400, 130, 264, 300), 48)),
    ("W8", 50, 7, DrawnServer(
        "llama_cpp", "W8",
        {"batch_size": 64, "ubatch_size": 16, "ctx_size": 2048, "parallel": 1, "checkpoint_min_step": 8192},
        (1, 4, 5, 8, 16, 64, 64, 256, 512, 130, 256, 264, 300, 400, 130, 264, 300), 768)),
    ("A", 40, 0, DrawnServer(
        "llama_cpp", "A",
        {"batch_size": 512, "ubatch_size": 512, "ctx_size": 256, "parallel": 2, "kv_unified": True,
         "slot_prompt_similarity": 0.0, "ctx_checkpoints": 0, "checkpoint_min_step": 0, "cache_ram": 0},
        (1, 4, 5, 8, 512, 512, 64, 256, 512), 240)),
])  # fmt: skip
def test_a_drawn_server(model, least, place, server):
    assert draw(FixedDraws(least, place), model) == server


def test_slots_with_separate_contexts_have_a_share_each():
    class Separate(FixedDraws):
        def chance(self, percent):
            return percent == 40

    assert draw(Separate(40, 3), "A") == DrawnServer(
        "llama_cpp", "A",
        {"batch_size": 64, "ubatch_size": 64, "ctx_size": 2048, "parallel": 3, "kv_unified": False,
         "slot_prompt_similarity": 0.5, "ctx_checkpoints": 3, "cache_ram": -1},
        (1, 4, 5, 8, 64, 64, 64, 256, 512), 2048 // 3 - 16)  # fmt: skip


@pytest.mark.parametrize(("percents", "unified"), [({40, 50}, True), ({40, 49, 51}, False)])
def test_half_of_the_servers_with_several_slots_have_one_context(percents, unified):
    class Exactly(FixedDraws):
        def chance(self, percent):
            return percent in percents

    assert draw(Exactly(0), "A").server["kv_unified"] is unified


def test_the_values_that_options_are_drawn_from():
    servers = [draw(FixedDraws(10, place), "A").server for place in range(6)]
    names = [name for name in servers[0] if name not in ("batch_size", "ubatch_size", "kv_unified", "swa_full")]
    assert {name: sorted({server[name] for server in servers}) for name in names} == {
        "ctx_size": [256, 512, 2048], "parallel": [2, 3], "slot_prompt_similarity": [0.0, 0.1, 0.5],
        "ctx_checkpoints": [0, 1, 2, 3], "checkpoint_min_step": [0, 2, 8, 32, 8192], "cache_ram": [-1, 0, 1],
        "cache_reuse": [1, 4, 16], "spec_type": ["ngram-simple"], "spec_draft_n_max": [1, 2, 4],
    }  # fmt: skip
    alone = [draw(FixedDraws(41, place), "A").server["ctx_size"] for place in range(4)]
    assert alone == [512, 1024, 1024, 2048]


@pytest.mark.parametrize(("scaled", "lists"), [
    ("", ()), ("1", ("0:1", "0:1", "0:1", "0:0", "0:0.5", "0:-1")),
    ("1,0.5@7", ("0:1", "1:1", "0:1", "1:1", "0:1,1:1", "0:0", "0:0.5", "1:-1")),
    ("1,1,1,1", ("0:1", "1:1", "2:1", "0:1", "1:1", "2:1", "0:1,1:1,2:1", "0:0", "0:0.5", "3:-1")),
])  # fmt: skip
def test_lists_of_adapters(scaled, lists):
    assert MANUAL.adapter_lists({"lora_scaled": scaled}) == lists


def test_a_server_without_adapters_has_no_lists():
    assert MANUAL.adapter_lists({}) == () and "extra" not in MANUAL.draw_fields(FixedDraws(5), {})


@pytest.mark.parametrize(("slots", "fields"), [(2, {"id_slot": 0, "n_cmpl": 2}), (1, {})])
def test_a_request_to_several_slots_may_have_several_completions(slots, fields):
    assert MANUAL.draw_fields(FixedDraws(5), {"parallel": slots}) == fields


@pytest.mark.parametrize(("least", "extra"), [(70, (("lora", "0:1"),)), (71, None)])
def test_most_requests_to_a_server_with_adapters_have_a_list(least, extra):
    assert MANUAL.draw_fields(FixedDraws(least), {"lora_scaled": "1"}).get("extra") == extra


def test_slots_are_tried_with_one_context_with_separate_ones_and_alone():
    now = {**MANUAL.defaults, "parallel": 2, "ctx_size": 4096, "kv_unified": False}
    found = [one for one in MANUAL.tries(now, ServerLoad(2000, 5000, 3)) if {"parallel", "kv_unified"} & {*one}]
    assert found == [
        {"parallel": 3, "kv_unified": True, "ctx_size": 5120},
        {"parallel": 3, "ctx_size": 6144, "kv_unified": False},
        {"parallel": 3, "ctx_size": 6144, "slot_prompt_similarity": 0.9},
        {"parallel": 1}, {"kv_unified": True},
    ]  # fmt: skip
    alone = MANUAL.tries({**now, "parallel": 1}, ServerLoad(2000, 2000, 1))
    assert not any({"parallel", "kv_unified"} & {*one} for one in alone)
