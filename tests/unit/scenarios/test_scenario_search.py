"""Tests of the search for scenarios by users' descriptions."""

from __future__ import annotations

import pytest

from cachesim.scenarios.corpus import corpus_root
from cachesim.scenarios.scenario_heads import ScenarioHead
from cachesim.scenarios.scenario_search import COMMON, kinds_of_model, matching
from cachesim.scenarios.symptoms import SYMPTOMS
from tests.scenarios.whole import heads

CORPUS = heads()
LINES = [line.split(": ") for line in (corpus_root() / COMMON).read_text("utf-8").splitlines()]
SYMPTOM = {one.id: one.symptom for one in CORPUS}


@pytest.mark.parametrize(("text", "first"), [
    # most are titles of issues of the servers, or sentences in them
    ("forcing full prompt re-processing due to lack of cache data",
     "llama-21831-reasoning-removed-hybrid llama-22929-replaced-user-message-hybrid"),
    ("cache not used", "llama-21831-reasoning-removed-hybrid"),
    ("prompt cache misses",
     "llama-21831-reasoning-removed-hybrid llama-22929-replaced-user-message-hybrid "
     "llama-24714-date-near-beginning-hybrid"),
    ("slow second prompt", "llama-21831-reasoning-removed-hybrid"),
    ("caching is not working any more, it reprocesses prefill from start", "llama-21831-reasoning-removed-hybrid"),
    ("Prompt cache is not reused for repeated identical chat/completions request",
     "llama-23280-repeated-prompt-hybrid"),
    ("requests with the same prompt do not utilize the KV cache", "llama-23280-repeated-prompt-hybrid"),
    ("kv cache starts back from 0 every other turn", "llama-21831-reasoning-removed-hybrid"),
    ("cached_tokens 0 on every request", "llama-21831-reasoning-removed-hybrid"),
    ("time to first token is the same for every message", "llama-23280-repeated-prompt-hybrid"),
    ("SWA", "llama-24176-changing-message-window llama-extension-re-evaluated-hybrid-window"),
    ("gemma 3 reprocesses the whole conversation", "llama-24176-changing-message-window"),
    ("gpt-oss prompt caching doesn't work",
     "llama-24176-changing-message-window llama-extension-re-evaluated-hybrid-window"),
    ("qwen3 next reprocess", "llama-21831-reasoning-removed-hybrid llama-22929-replaced-user-message-hybrid"),
    ("thinking model reprocesses the last answer",
     "llama-21831-reasoning-removed-hybrid mlx-923-append-only-thinking-hybrid"),
    ("tool calls invalidate the cache", "llama-24890-checkpoint-at-prefix-erased-hybrid mlx-tool-loop-no-checkpoint"),
    ("date in system prompt breaks the cache", "llama-24714-date-near-beginning-hybrid"),
    ("--cache-reuse does not work", "llama-18497-inserted-block-hybrid llama-18497-inserted-block-qwen35"),
    ("--cache-ram limit is not enforced", "llama-25070-entry-above-byte-limit"),
    ("prompt cache grows to 8 GiB of host RAM",
     "llama-25070-entry-above-byte-limit llama-24143-useful-entry-evicted-dense"),
    ("switching between two agents reprocesses the prompt", "llama-16391-siblings-overwrite-hybrid"),
    ("gibberish with parallel requests", "mlx-1736-padding-in-state-hybrid"),
    ("cache makes output non-deterministic", "llama-one-token-checkpoint-default-qwen35"),
    ("GGML_ASSERT crash after context shift", "llama-context-shift-assertion-window"),
    ("server crashes with speculative decoding",
     "llama-draft-removal-refused-qwen35 llama-27931-draft-removal-refused-recurrent"),
    ("MTP speculative decoding breaks prompt cache", "llama-stop-inside-draft ik-tokens-accepted-after-stop"),
    ("wrong limit", "llama-one-token-checkpoint-default-qwen35"),     # words of two symptoms are topics of neither
    ("slot restore loses the cache", "llama-17527-scattered-cells llama-26640-failed-restore-empties-slot"),
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


def test_many_topics_do_not_hide_a_symptom():
    text = "gibberish with a hybrid window model, thinking, tools, date, draft, batch, edited, agents, files"
    assert {one.symptom for one in matching(text, CORPUS)} == {"wrong-answer"}
    assert {one.symptom for one in matching(text.replace("gibberish", "crash"), CORPUS)} == {"crash"}
    shared = text.replace("gibberish", "memory").replace(", draft", "")      # a word that does not decide alone
    assert {one.symptom for one in matching(shared, CORPUS)} == {"lost-conversation", "memory"}


def test_words_of_titles_find_scenarios_where_no_symptom_is_meant():
    assert [one.id for one in matching("rerankers", CORPUS)] == ["llama-28876-reranker-exceeds-ubatch"]
    assert [one.id for one in matching("title generation", CORPUS)] == ["llama-22746-title-request-hybrid"]


@pytest.mark.parametrize(("text", "engine"), [
    ("Prefix cache hit rate: 0.0%", "vllm"), ("vllm evicts a conversation", "vllm"), ("preempted, no reuse", "vllm"),
    ("KV cache pool is full, retracted", "sglang"), ("sglang slow ttft", "sglang"), ("#cached-token: 0", "sglang")])
def test_scenarios_of_a_named_server_come_before_all_others(text, engine):
    engines = [one.engine for one in matching(text, CORPUS)]
    own = engines.count(engine)
    assert own and engines[:own] == [engine] * own


@pytest.mark.parametrize(("symptom", "ids"), LINES)
def test_what_is_common_is_there_once_and_of_its_symptom(symptom, ids):
    assert symptom in SYMPTOMS and {SYMPTOM.get(one) for one in ids.split()} == {symptom}
    assert len(set(ids.split())) == len(ids.split())


@pytest.mark.parametrize("symptom", [name for name in SYMPTOMS if name != "right"])
def test_a_symptom_by_its_name_shows_what_is_common(symptom):
    first = dict(LINES)[symptom].split()
    assert [one.id for one in matching(symptom, CORPUS)][: len(first)] == first


@pytest.mark.parametrize(("model", "kinds"), [
    ("AAAA", set()), ("W8 A", {"window"}), ("GA", {"hybrid", "recurrent"}), ("SSSS", {"recurrent"}),
    ("GA+mtp", {"hybrid", "recurrent"}), ("no layers", set()), ("qwen3next-80b", {"hybrid", "recurrent"}),
    ("gemma3-swa-XX", {"window"}), ("hybrid-XX", {"hybrid"}),
])  # fmt: skip
def test_a_model_has_the_kinds_of_its_name_and_of_its_layers(model, kinds):
    assert kinds_of_model(model) == kinds


def made(name, symptom="", title="x", why="y", model="A", file="scenarios/x.toml"):
    return ScenarioHead(id=name, title=title, why=why, source=(), engine="llama_cpp", model=model, profiles=(),
                        symptom=symptom, file=file, requests=1)  # fmt: skip


COMMONEST = dict(LINES)["re-processed"].split()[0]
REPAIR = "scenarios\\repairs\\y.toml"
OWN = [
    made("z-plain", "re-processed"), made("y-repair", "re-processed", model="W8 A", file=REPAIR),
    made(COMMONEST, "re-processed"), made("w-window", "re-processed", model="W8 A"), made("v-crash", "crash"),
    made("u-window", "crash", model="W8"), made("t-window", "wrong-answer", why="of a window"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "ids"), [
    ("re-processed", [COMMONEST, "z-plain", "w-window", "y-repair"]),
    ("window re-processed", ["w-window", COMMONEST, "z-plain", "y-repair"]),
    ("crash", ["v-crash", "u-window"]), ("crash with a window", ["u-window", "v-crash"]),
    ("window", ["w-window", "y-repair", "t-window", "u-window"]),
])  # fmt: skip
def test_scenarios_are_ranked_by_symptom_then_repair_then_topics_then_frequency(text, ids):
    assert [one.id for one in matching(text, OWN)] == ids


@pytest.mark.parametrize(("name", "is_known"), [
    ("gemma3", True), ("Gemma 3", True), ("gemm", True), ("gpt oss", True), ("gpto", True), ("my gpt oss 20b", True),
    ("gem", False), ("gem ma", False), ("the oss", False), ("qwen", False),
])  # fmt: skip
def test_a_name_of_a_model_or_its_unmistakable_beginning_selects_its_kind(name, is_known):
    plain, window = made("plain", "re-processed"), made("window-one", "re-processed", model="W8 A")
    found = matching(f"{name} reprocesses", [plain, window])
    assert found[0].id == ("window-one" if is_known else "plain")


def test_without_a_symptom_most_words_count_and_among_equals_the_rare_ones_of_the_title():
    cases = [made("a", title="x", why="banana tulip"), made("c", title="banana", why="tulip"),
             made("b", title="banana tulip"), made("d", title="tulip banana lily"), made("e", title="banana"),
             *(made(name, title="y") for name in "fgh")]  # fmt: skip
    found = {text: [one.id for one in matching(text, cases)] for text in ("banana tulip", "banana tulip lily")}
    assert found == {"banana tulip": ["b", "d", "c"], "banana tulip lily": ["d"]}
    assert matching("banana pear kiwi plum apple", cases) == []
