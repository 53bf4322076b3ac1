"""Lines of LMCache in logs of vLLM."""

import pytest

from cachesim.engines.shared.log_totals import LoggedNumbers
from cachesim.engines.vllm.log_lines import GRAMMAR
from cachesim.engines.vllm.log_others import MEANINGS, OTHERS, totals
from cachesim.tools.server_logs.lines.logical_lines import logical_lines

HEAD = "(EngineCore_DP0 pid=7) [2025-10-08 06:08:20,036] LMCache INFO: "
PLACE = " (vllm_v1_adapter.py:1189:lmcache.integration.vllm.vllm_v1_adapter)"


@pytest.mark.parametrize(("text", "kind", "numbers"), [
    ("Reqid: 0, Total tokens 700, LMCache hit tokens: 256, need to load: 128", "lmcache_lookup",
     {"n_tokens": 700, "hit": 256, "load": 128}),
    ("Reqid: chatcmpl-7, Total tokens 700, Inference Engine computed tokens: 128, LMCache hit tokens: 256, need to "
     "load: 128", "lmcache_lookup", {"n_tokens": 700, "computed": 128, "hit": 256, "load": 128}),
    ("Reqid: 0, Total tokens 700, Inference Engine computed tokens: 128, LMCache hit tokens: 256, but need to load: "
     "127 < min_retrieve 512, skip retrieve but record for save skip", "lmcache_lookup",
     {"n_tokens": 700, "computed": 128, "hit": 256, "too_few": 127, "least": 512}),
    ("Stored 640 out of total 700 tokens. size: 1.3747 gb, cost 31.4314 ms", "lmcache_stored",
     {"stored": 640, "n_tokens": 700}),
    ("[req_id=0] Retrieved 128 out of 256 required tokens (from 256 total tokens). size: 0.1 gb", "lmcache_loaded",
     {"loaded": 128, "required": 256}),
])  # fmt: skip
@pytest.mark.parametrize(("head", "place"), [("", ""), (HEAD, PLACE)])
def test_the_numbers_of_a_line(text, kind, numbers, head, place):
    [found] = logical_lines(GRAMMAR, [f"{head}{text}{place}"])
    assert (found.read.line.ev, dict(found.read.numbers), found.read.line.by) == (kind, numbers, "LMCache")


def test_every_kind_of_line_has_a_meaning():
    assert {line.ev for line in OTHERS} == {*MEANINGS}


def test_lookups_are_counted_with_what_was_loaded():
    lines = [LoggedNumbers(1, "lmcache_lookup", {"n_tokens": 700, "hit": 256, "load": 128}),
             LoggedNumbers(2, "lmcache_stored", {"stored": 640, "n_tokens": 700}),
             LoggedNumbers(3, "lmcache_lookup", {"n_tokens": 1_300, "hit": 1_024, "too_few": 127})]  # fmt: skip
    [total] = totals(lines)
    assert total.says == "LMCache had 1,280 of 2,000 looked-up tokens, 64.0 %; 128 were to be loaded"
    assert (total.lines, dict(total.numbers)) == ((1, 3), {"n_tokens": 2_000, "hit": 1_280, "load": 128})
    assert not [*totals(lines[1:2])]


def test_a_prompt_of_which_the_server_has_more_loads_nothing():
    lines = [LoggedNumbers(1, "lmcache_lookup", {"n_tokens": 700, "hit": 256, "load": -128}),
             LoggedNumbers(2, "lmcache_lookup", {"n_tokens": 700, "hit": 512, "load": 128})]  # fmt: skip
    assert [total.numbers["load"] for total in totals(lines)] == [128]


@pytest.mark.parametrize("text", [
    "Reqid: 0, Total tokens many, LMCache hit tokens: 256, need to load: 128",
    "Reqid: 0, Total tokens 700, LMCache hit tokens: 0.5, need to load: 128",
    "Reqid: 0, Total tokens 700, LMCache hit tokens: None, need to load: 128",
])  # fmt: skip
def test_a_line_without_its_numbers_counts_nothing(text):
    [found] = logical_lines(GRAMMAR, [text])
    assert not [*totals([LoggedNumbers(1, "lmcache_lookup", found.read.numbers)])]


def test_a_load_that_is_no_number_counts_nothing():
    [found] = logical_lines(GRAMMAR, ["Reqid: 0, Total tokens 700, LMCache hit tokens: 256, need to load: all"])
    [total] = totals([LoggedNumbers(1, found.read.line.ev, found.read.numbers)])
    assert (total.numbers["hit"], total.numbers["load"]) == (256, 0)
