"""Does every decision of the corpus have its sentence, without one that fails in silence?"""

from __future__ import annotations

import pytest

from cachesim.engines.rule import RULES, Decision, Role, rule
from cachesim.events import Decided
from cachesim.reports import sentences
from cachesim.reports.sentences import sentence
from tests.scenarios.test_corpus import RUNS, played


@pytest.mark.parametrize(("name", "profile"), RUNS)
def test_every_decision_can_be_said(name, profile):
    for event in played(name, profile).log.events:
        if isinstance(event, Decided):
            assert isinstance(sentence(event.rule, event.value, event.because), str), event.rule


def test_a_broken_sentence_of_a_shipped_rule_is_not_hidden(monkeypatch):
    monkeypatch.setitem(sentences.FAMILIES, "NPAST-ONE", lambda v, b: b["no such number"])
    with pytest.raises(KeyError):
        sentence("LC-NPAST-ONE", 4, {"n_past": 5, "n_tokens": 5})


def test_a_rule_of_ones_own_with_other_numbers_shows_them():
    def mine() -> Decision:
        return Decision(4, {"mine": 1})

    try:
        rule("LC-NPAST-ONE.TEST-MINE", Role.PREFIX, "a test")(mine)
        assert sentence("LC-NPAST-ONE.TEST-MINE", 4, {"mine": 1}) == "4  (mine 1)"
    finally:
        RULES.pop("LC-NPAST-ONE.TEST-MINE", None)
