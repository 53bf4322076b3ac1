"""Tests of symptoms recognised in users' words."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from cachesim.base.errors import BadInput
from cachesim.scenarios.corpus import corpus_root
from cachesim.scenarios.load import find, load
from cachesim.scenarios.symptoms import SYMPTOMS, meant, stems

PHRASINGS = Path(__file__).with_name("phrasings.toml")


@pytest.mark.parametrize(("text", "symptom"), [
    ("re-processes everything", "re-processed"), ("reprocesses the whole prompt every turn", "re-processed"),
    ("forcing full prompt re-processing", "re-processed"), ("0% cache hits", "re-processed"),
    ("cache_n = 0", "re-processed"), ("erased invalidated context checkpoint", "re-processed"),
    ("the model forgets", "wrong-answer"), ("gibberish after an edit", "wrong-answer"),
    ("Answers of another user", "wrong-answer"), ("wrong outptu", "wrong-answer"),
    ("server crashed with GGML_ASSERT", "crash"), ("it hangs", "crash"),
    ("out of memory", "memory"), ("--cache-ram grows", "memory"), ("500 error", "error"),
    ("switching between two chats loses the cache", "lost-conversation"), ("prompt cache evicted", "lost-conversation"),
    ("waits in a queue", "slow"), ("cache not used", "re-processed"), ("prompt cache misses", "re-processed"),
    ("slow second prompt", "re-processed"), ("failed to remove sequence", "crash"),
    ("llama_decode: failed to decode, ret = -1", "error"), ("unrelated content", "wrong-answer"),
    ("only 3 tokens per second", "slow"), ("lost-conversation", "lost-conversation"), ("right", "right"),
])  # fmt: skip
def test_words_of_users_mean_a_symptom(text, symptom):
    assert meant(text) == [symptom]


def test_at_most_two_of_forty_phrasings_of_users_have_another_symptom():
    rounds = tomllib.loads(PHRASINGS.read_text("utf-8"))
    every = [one for drawn in rounds.values() for one in drawn]
    wrong = [one["text"] for one in every if meant(one["text"]) != [one["symptom"]]]
    assert len(every) >= 40 and len({one["source"] for one in every}) == len(every)
    assert len(wrong) * 40 <= len(every) * 2, wrong


@pytest.mark.parametrize(("text", "symptom"), [
    ("server crashes with two slots", "crash"), ("gibberish after a long prompt with MTP", "wrong-answer"),
    ("prefix cache hit rate 0%", "re-processed"), ("crashes because the cache is not reused", "crash"),
    ("slow since the other chat was evicted", "slow"), ("drafts rejected", "slow"), ("no error, but slow", "slow"),
])  # fmt: skip
def test_the_word_of_the_failure_decides(text, symptom):
    assert meant(text) == [symptom]


@pytest.mark.parametrize("text", ["", "cat sat mat", "qwertz", "?!", "x" * 5000, "\x00"])
def test_other_words_mean_none(text):
    assert meant(text) == []


def test_every_symptom_is_meant_by_its_own_words():
    for name, one in SYMPTOMS.items():
        assert name in meant(name) and name in meant(one.text)


def test_words_lose_their_endings_and_re_belongs_to_them():
    assert stems("Re-processes, reprocessed and re-processing!") == ["reprocess"] * 3
    assert stems("the cache_n of it is 0") == ["cache_n", "0"]
    assert stems("cache misses, miss") == ["cach", "miss", "miss"]
    assert stems("--cache-ram 5, 3 tokens per second, t/s") == ["cacheram", "5", "3", "tps", "tps"]


def test_a_word_that_one_symptom_has_is_not_taken_for_a_word_like_it():
    assert meant("reprocess") == ["re-processed"] and meant("the process is killed") == ["crash"]


def test_a_file_may_have_no_symptom_and_none_of_its_own(tmp_path):
    text = next(one for one in find([corpus_root()]) if one.stem == "llama-repeat-prompt-dense").read_text()
    file = tmp_path / "llama-repeat-prompt-dense.toml"
    file.write_text(text.replace('symptom = "right"\n', ""))
    assert load(file).symptom == ""
    file.write_text(text.replace('symptom = "right"', 'symptom = "crashes"'))
    with pytest.raises(BadInput,
        match=r"llama-repeat-prompt-dense.toml:3: .*unknown symptom 'crashes'.*did you mean 'crash'"):
        load(file)
