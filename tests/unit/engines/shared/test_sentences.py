"""Sentences by family of rules, their variants, and those of user-defined rules."""

import pytest

from cachesim.engines.registry import ENGINES
from cachesim.engines.rule import RULES
from cachesim.engines.shared.sentences import NoEffect, Sentences, described, erasure_text, indices, numbers

WORDS = Sentences({"LC-CKPT-PICK": lambda value, because: f"picks {value} of {because['n']}"},
                  {"LC-CKPT-PICK.OLD": lambda value, because: "picks as of old"})  # fmt: skip


def test_a_variant_comes_before_its_family():
    assert WORDS.say("LC-CKPT-PICK", 3, {"n": 4}) == "picks 3 of 4"
    assert WORDS.say("LC-CKPT-PICK.NEW", 3, {"n": 4}) == "picks 3 of 4"
    assert WORDS.say("LC-CKPT-PICK.OLD", 3, {}) == "picks as of old"
    assert WORDS.say("LC-UNKNOWN", 3, {"n": 4}) is None


def test_a_failing_sentence_of_a_built_in_rule_raises_and_one_of_a_user_is_none():
    name = next(rule for rule in ENGINES["llama_cpp"].profiles["llama_cpp@b10587"].rules_by_field.values()).rule
    failing = Sentences({name.split(".")[0]: lambda value, because: because["missing"],
                         "MINE": lambda value, because: because["missing"]})  # fmt: skip
    with pytest.raises(KeyError):
        failing.say(name, 1, {})
    assert failing.say("MINE.A", 1, {}) is None


def test_a_described_rule_gets_the_first_sentence_of_its_docstring():
    assert ENGINES["vllm"]
    found = described("VL-")
    assert {name.split(".")[0] for name in RULES if name.startswith("VL-")} == set(found)
    for family, words in found.items():
        text = words(None, {})
        first = next(name for name in RULES if name.split(".")[0] == family)
        assert text and text in " ".join(RULES[first].__doc__.split()).replace("True if ", "")
        assert not text.startswith(("Return ", "True if ")) and ". " not in text


@pytest.mark.parametrize(("gone", "what", "why", "text", "has_effect"), [
    ((), "older", "", "no checkpoint erased", False),
    ([], "", "a later end", "no checkpoint erased: none with a later end", False),
    ([2], "older", "", "erases 1 older checkpoint (#2)", True),
    (iter((0, 3)), "", "the limit is 1", "erases 2 checkpoints (#0, #3): the limit is 1", True),
])  # fmt: skip
def test_erased_checkpoints_are_counted_and_named(gone, what, why, text, has_effect):
    found = erasure_text(gone, what, why)
    assert found == text and isinstance(found, NoEffect) is not has_effect


def test_lists_of_numbers_and_of_indices():
    assert (numbers([1, 2]), numbers([]), numbers((), "nothing")) == ("1, 2", "none", "nothing")
    assert (indices([0, 1]), indices([])) == ("#0, #1", "")
