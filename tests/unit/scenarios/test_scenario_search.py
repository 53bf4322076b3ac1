"""Tests of the search for scenarios by users' descriptions."""

from __future__ import annotations

import pytest

from cachesim.scenarios.corpus import corpus_root
from cachesim.scenarios.scenario_search import COMMON, matching
from cachesim.scenarios.symptoms import SYMPTOMS
from tests.scenarios.whole import corpus

CORPUS = corpus()
LINES = [line.split(": ") for line in (corpus_root() / COMMON).read_text("utf-8").splitlines()]
SYMPTOM = {one.id: one.symptom for one in CORPUS}


@pytest.mark.parametrize(("text", "first"), [
    # most are titles of issues of the servers, or sentences in them
    ("forcing full prompt re-processing due to lack of cache data",
     "lc-77-reasoning-removed lc-15-edited-user-message"),
    ("cache not used", "lc-77-reasoning-removed"),
    ("prompt cache misses", "lc-77-reasoning-removed lc-15-edited-user-message lc-77-date-in-front"),
    ("slow second prompt", "lc-77-reasoning-removed"),
    ("caching is not working any more, it reprocesses prefill from start", "lc-77-reasoning-removed"),
    ("Prompt cache is not reused for repeated identical chat/completions request", "repeat-clears-the-slot"),
    ("requests with the same prompt do not utilize the KV cache", "repeat-clears-the-slot"),
    ("kv cache starts back from 0 every other turn", "lc-77-reasoning-removed"),
    ("cached_tokens 0 on every request", "lc-77-reasoning-removed"),
    ("time to first token is the same for every message", "repeat-clears-the-slot"),
    ("SWA", "lc-16-dynamic-context-window d6-hybrid-window-extension"),
    ("gemma 3 reprocesses the whole conversation", "lc-16-dynamic-context-window"),
    ("gpt-oss prompt caching doesn't work", "lc-16-dynamic-context-window d6-hybrid-window-extension"),
    ("qwen3 next reprocess", "lc-77-reasoning-removed lc-15-edited-user-message"),
    ("thinking model reprocesses the last answer", "lc-77-reasoning-removed seed-929-append-only-thinking"),
    ("tool calls invalidate the cache", "lc-21-tool-calls d12-tool-loop"),
    ("date in system prompt breaks the cache", "lc-77-date-in-front"),
    ("--cache-reuse does not work", "lc-81-insertion-hybrid lc-81-insertion-refused"),
    ("--cache-ram limit is not enforced", "lc-37-byte-limit"),
    ("prompt cache grows to 8 GiB of host RAM", "lc-37-byte-limit pr24143-growth"),
    ("switching between two agents reprocesses the prompt", "lc-34-siblings"),
    ("gibberish with parallel requests", "d2-padding-into-the-state"),
    ("cache makes output non-deterministic", "one-token-qwen35"),
    ("GGML_ASSERT crash after context shift", "d21-shift-without-base-layers"),
    ("server crashes with speculative decoding", "draft-trim-qwen35 lc-26-refused-cut-of-the-draft"),
    ("MTP speculative decoding breaks prompt cache", "d14-stop-inside-draft d12-accepted-behind-the-stop"),
    ("slot restore loses the cache", "lc-29-scattered-cells restore-without-room"),
])  # fmt: skip
def test_what_people_type_brings_their_case_first(text, first):
    assert [one.id for one in matching(text, CORPUS)][: len(first.split())] == first.split()


@pytest.mark.parametrize(("text", "engine"), [
    ("mlx_lm.server prompt cache does not work for hybrid models", "mlx_lm"), ("mlx-lm reprocesses", "mlx_lm"),
    ("ik_llama.cpp reprocesses everything", "ik_llama"),
])  # fmt: skip
def test_an_engine_that_is_named_comes_first(text, engine):
    assert {one.engine for one in matching(text, CORPUS)[:5]} == {engine}


@pytest.mark.parametrize("text", ["SWA", "sliding window", "gemma", "gpt oss 120b"])
def test_a_kind_of_model_alone_is_asked_for_all_of_its_scenarios(text):
    found = matching(text, CORPUS)
    assert found[0].symptom == "re-processed" and {one.symptom for one in found} >= {"wrong-answer", "crash"}
    assert all("W" in one.model or "window" in one.id + one.title + one.why or one.model.startswith(("gemma", "lfm2s"))
               for one in found[:20])  # fmt: skip


@pytest.mark.parametrize("text", ["", "cat sat mat", "qwertz", "?!", "x" * 5000, "\x00"])
def test_other_words_find_nothing(text):
    assert matching(text, CORPUS) == []


def test_all_scenarios_of_the_symptom_come_and_those_with_the_words_first():
    found = matching("re-processes everything with a sliding window", CORPUS)
    assert {one.symptom for one in found} == {"re-processed"}
    assert len(found) == sum(one.symptom == "re-processed" for one in CORPUS)
    assert "window" in found[0].title + found[0].why


def test_a_repair_comes_after_what_it_mends():
    found = [one.file for one in matching("wrong output", CORPUS)]
    assert found and "repairs" in found[-1] and "repairs" not in found[0]


def test_words_of_titles_find_scenarios_where_no_symptom_is_meant():
    assert [one.id for one in matching("rerankers", CORPUS)] == ["reranker-in-chunks"]


@pytest.mark.parametrize(("symptom", "ids"), LINES)
def test_what_is_common_is_there_once_and_of_its_symptom(symptom, ids):
    assert symptom in SYMPTOMS and {SYMPTOM.get(one) for one in ids.split()} == {symptom}
    assert len(set(ids.split())) == len(ids.split())


@pytest.mark.parametrize("symptom", [name for name in SYMPTOMS if name != "right"])
def test_a_symptom_by_its_name_shows_what_is_common(symptom):
    first = dict(LINES)[symptom].split()
    assert [one.id for one in matching(symptom, CORPUS)][: len(first)] == first
