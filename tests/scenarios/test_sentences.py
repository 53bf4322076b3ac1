"""Does every decision of the corpus have its sentence, without one that fails in silence?"""

from __future__ import annotations

import pytest

from cachesim.engines.ik_llama.sentences import SENTENCES as IK_LLAMA
from cachesim.engines.llama_cpp.sentences import SENTENCES as LLAMA_CPP
from cachesim.engines.mlx_lm.sentences import SENTENCES as MLX_LM
from cachesim.engines.rule import RULES, Decision, Role, rule
from cachesim.events import Decided
from cachesim.reports.sentences import sentence
from tests.scenarios.test_corpus import RUNS, played

CLASSES = {
    "ML-STATE-SAVE", "ML-STATE-RESTORE", "ML-STATE-META", "ML-STATE-ROTATED", "ML-STATE-ARRAYS", "ML-CHUNK-TRIM-FRONT",
}
"""Rules of classes that the server never asks."""


def test_every_family_of_rules_has_a_sentence():
    tables = [LLAMA_CPP, IK_LLAMA, MLX_LM]
    known = {name for table in tables for name in (*table.families, *table.by_rule)}
    families = {name.split(".")[0] for name, fn in RULES.items() if fn.__module__.startswith("cachesim.")}
    assert families - known == CLASSES
    assert known <= families


@pytest.mark.parametrize(("name", "profile"), RUNS)
def test_every_decision_can_be_said(name, profile):
    for event in played(name, profile).log.events:
        if isinstance(event, Decided):
            assert isinstance(sentence(event.rule, event.value, event.because), str), event.rule


def test_a_broken_sentence_of_a_shipped_rule_is_not_hidden(monkeypatch):
    monkeypatch.setitem(LLAMA_CPP.families, "LC-NPAST-ONE", lambda v, b: b["no such number"])
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
