"""Tests of the glossary: every term is found, unique and short."""

from __future__ import annotations

import pytest

from cachesim.judging.recompute_ledger import TOO_FEW
from cachesim.judging.recompute_reasons import WORDS, what_happened
from cachesim.tools.rulebook.glossary import FILE, find, lookup_form, terms

WANTED = """token; position; KV cache; cell; recurrent state; hybrid model; SWA; window; n_past; n_tokens;
pos_min; pos_max; pos_end; pos_min_thold; pos_next; n_swa; seq_rm; seq_cp; seq_add; common prefix;
LCP; f_sim; f_keep; slot; slot selection; LRU; prompt cache; prompt cache entry; checkpoint;
restore; batch; micro-batch; n_ubatch; context shift; cache reuse; draft; speculative decoding;
rollback; cold run; warm; provenance; exact; rule; rule set; profile; decision; attribution;
verdict; OK; WRONG OUTPUT; UNDECIDED; corrupt; prompt trie; fetch_nearest_cache; LRUPromptCache;
trim; padding; left padding; segment; cache_n; n_predict; id_slot"""

KINDS = {**dict.fromkeys(("evicted", "erased", "not chosen"), ("entry", "checkpoint")), TOO_FEW: ("block", "page")}
"""Restore points that the sentence of an event is about."""


@pytest.mark.parametrize("word", [" ".join(word.split()) for word in WANTED.split(";")])
def test_a_term_is_found(word):
    assert find(word) is not None


@pytest.mark.parametrize("event", WORDS)
def test_the_sentences_of_reports_are_found(event):
    kinds = KINDS.get(event, ["entry"])
    for sentence in [what_happened(event, kind) for kind in kinds]:
        assert [find(text).name for text in (sentence, f"{sentence} (at request 2, LC-PC-LOAD.TAKE)")] == [
            "cause of a re-evaluation"] * 2  # fmt: skip


@pytest.mark.parametrize("text", [
    "LCP 40", "LCP 96, restored 40", "loaded 40 from an entry", "same prompt, all but 1", "empty slot",
    "no common prefix", "extends the slot", "forced full re-processing", "cache_prompt is false",
])  # fmt: skip
def test_so_are_the_reasons_of_requests(text):
    assert find(text).name == "reason of a request"


def test_case_and_dashes_do_not_matter():
    assert find("POS-MIN") == find("pos_min") == find(" pos  min ")
    assert find("no such term") is None and find("") is None


def test_no_word_leads_to_two_terms():
    words = [word for term in terms() for word in term.words]
    assert sorted({word for word in words if words.count(word) > 1}) == []


def test_a_name_is_not_given_twice():
    names = [lookup_form(term.name) for term in terms()]
    assert len(names) == len(set(names)) > 60


@pytest.mark.parametrize("term", terms(), ids=lambda term: term.name)
def test_an_entry_is_short(term):
    assert 40 <= len(term.text) <= 520 and term.text.endswith((".", ")"))


def test_the_page_says_the_same():
    text = " ".join(FILE.read_text("utf-8").split())
    assert all(term.text in text for term in terms())
