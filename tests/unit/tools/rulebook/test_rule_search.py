"""Tests of the search in rules, terms, flags and log lines."""

from __future__ import annotations

import pytest

from cachesim.engines.registry import ENGINES
from cachesim.engines.rule import RULES
from cachesim.tools.rulebook import glossary
from cachesim.tools.rulebook.glossary import Term, find, lookup_form
from cachesim.tools.rulebook.rule_search import about_rules, mentions_of, nearest_terms, nearest_word, rules_named

RESET = ["LC-CKPT-RESET", "LC-CKPT-RESET.ALL"]


@pytest.mark.parametrize(("text", "names"), [
    ("LC-CKPT-RESET", RESET), (" lc-ckpt-reset ", RESET), ("lc-ckpt-reset.all", RESET[1:]), ("LC-CKPT-RESE", []),
    ("LC CKPT", []), ("", []), ("-LC", []), ("7", []), ("LC-CKPT-RESET.", []),
    ("ML-LRU-HAND.copy", ["ML-LRU-HAND.copy"]), ("lc-ckpt-erase.er1", ["LC-CKPT-ERASE.ER1"]),
    ("VL-SCHED-IMAGE.KEEP", ["VL-SCHED-IMAGE.KEEP"]), ("LC-CKPT-ERASE.ER1-NEWEST", ["LC-CKPT-ERASE.ER1-NEWEST"]),
])  # fmt: skip
def test_a_name_or_a_beginning_finds_rules(text, names):
    assert rules_named(text) == names


def test_a_prefix_of_whole_words_finds_a_family_in_the_order_of_the_rules():
    found = rules_named("lc-ckpt")
    assert found == [name for name in RULES if name.startswith("LC-CKPT-")] and len(found) > len(RESET)
    assert set(RESET) < set(found)


def test_rules_as_data_are_those_of_the_names():
    found = about_rules(RESET)
    assert [data["rule"] for data in found] == RESET and all(data["profiles"] for data in found)


def test_every_word_must_occur():
    whole = mentions_of("prompt cache entry")
    assert [*whole] == ["lines", "rules", "terms", "flags"]
    for rows in whole.values():
        assert rows
    assert mentions_of("prompt zzqq") is None and mentions_of("!!") is None and mentions_of("") is None


def test_the_case_of_words_does_not_matter():
    assert mentions_of("PROMPT Cache") == mentions_of("prompt cache") != mentions_of("prompt")


def test_rows_have_first_sentences_and_long_spellings():
    found = mentions_of("checkpoint-min-step")
    flag = ENGINES["llama_cpp"].manual.flag("checkpoint_min_step")
    assert {"engine": "llama_cpp", "flag": "--checkpoint-min-step", "help": flag.help} in found["flags"]
    rules = mentions_of("LC-PC-LOAD.TAKE")
    assert rules["rules"] == [
        {"rule": "LC-PC-LOAD.TAKE", "decides": "Return True: an entry is removed from the prompt cache on load."}]
    assert {name: rules[name] for name in ("lines", "terms", "flags")} == {"lines": [], "terms": [], "flags": []}


def test_a_kind_of_log_line_is_listed_once_for_each_engine():
    rows = mentions_of("selected slot by lcp similarity")["lines"]
    assert [row["engine"] for row in rows] == [*dict.fromkeys(row["engine"] for row in rows)]
    grammar = ENGINES["llama_cpp"].log()
    [mine] = [row for row in rows if row["engine"] == "llama_cpp"]
    line = next(line for line in grammar.lines if line.ev == "slot_by_lcp")
    assert (mine["form"], mine["says"]) == (line.template, grammar.meanings["slot_by_lcp"].says)


@pytest.fixture
def glossary_of(monkeypatch, tmp_path):
    """Return a function that makes entries, each (name, synonyms, text), the glossary."""
    def write(*entries):
        parts = [f"## {name}\n\n{f'Also: {also}' if also else ''}\n\n{text}\n" for name, also, text in entries]
        (tmp_path / "glossary.md").write_text("# Words\n\n" + "\n".join(parts))
        glossary.terms.cache_clear()

    monkeypatch.setattr(glossary, "FILE", tmp_path / "glossary.md")
    yield write
    glossary.terms.cache_clear()


@pytest.fixture
def three(glossary_of):
    """A glossary of three terms."""
    glossary_of(("slot", "lane, seat", "Place of a request in a batch"),
                ("batch", "", "Tokens that are evaluated at once"),
                ("cold run", "run-alone", "A request that is evaluated alone in a batch"))  # fmt: skip


@pytest.mark.parametrize(("text", "names"), [
    ("batch", ["slot", "batch", "cold run"]),        # the same weight: the order of the glossary
    ("evaluated tokens", ["batch", "cold run"]),     # "tokens" is rarer
    ("ALONE batch", ["cold run", "slot", "batch"]), ("run at an", []), ("seat", ["slot"]), ("nothing", []), ("", []),
])  # fmt: skip
def test_the_nearest_terms_share_the_rarest_words(three, text, names):
    assert nearest_terms(text) == names


def test_at_most_three_terms_are_near(glossary_of):
    glossary_of(*((f"term {at}", "", "shared") for at in range(5)))
    assert nearest_terms("shared") == ["term 0", "term 1", "term 2"]


@pytest.mark.parametrize(("text", "hint"), [
    ("lc-trim.clera", "did you mean 'LC-TRIM.CLEAR'?"), ("ml-lru-hend", "did you mean 'ML-LRU-HAND'?"),
    ("LC-SPEC-PLAC", "did you mean 'LC-SPEC-PLACE'?"), ("run-alonn", "did you mean 'run-alone'?"),
    ("request tokens of zzqq", "nearest terms: batch, slot, cold run"), ("zzqqzzqqzzqq", ""),
])  # fmt: skip
def test_a_hint_names_the_most_similar_name_or_the_nearest_terms(three, text, hint):
    assert nearest_word(text) == hint


def test_a_term_is_found_by_its_name_before_synonyms(glossary_of):
    glossary_of(("lane", "slot, n tokens kept", "a"), ("slot", "n of n", "b"))
    assert [find(word).text for word in ("slot", "Lane", "lane.", " SLOT: ")] == ["b", "a", "a", "b"]
    assert find("40 tokens kept, then 3").text == find("4 tokens kept (at 2)").text == "a"
    assert find("3 of 12").text == "b" and find("7") is None and find("tokens") is None and find("...") is None


def test_a_word_is_looked_up_without_case_dashes_and_underscores():
    assert lookup_form("  Left_Padding - of-rows\n") == "left padding of rows"
    assert Term("n_past", ("LCP-x",), "").words == ("n past", "lcp x")


def test_an_entry_has_a_name_synonyms_and_a_text_without_line_ends(glossary_of):
    glossary_of(("slot", "a, b c", "A place\nof a request.\n\nSecond part."), ("batch", "", "Tokens\nat once."))
    assert glossary.terms() == (
        Term("slot", ("a", "b c"), "A place of a request. Second part."), Term("batch", (), "Tokens at once."),
    )  # fmt: skip
