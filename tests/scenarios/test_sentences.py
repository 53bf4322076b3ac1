"""Tests of the sentences of rules: every rule has a sentence for the decisions in the scenarios."""

from __future__ import annotations

import re
from collections import defaultdict
from functools import cache
from itertools import chain, groupby

import pytest

from cachesim.engines.ik_llama.sentences import SENTENCES as IK_LLAMA
from cachesim.engines.llama_cpp.sentences import SENTENCES as LLAMA_CPP
from cachesim.engines.mlx_lm.sentences import SENTENCES as MLX_LM
from cachesim.engines.registry import BUILTIN
from cachesim.engines.rule import RULES, Decision, Role, rule
from cachesim.engines.sglang.sentences import SENTENCES as SGLANG
from cachesim.engines.vllm.sentences import SENTENCES as VLLM
from cachesim.judging.verdict_text import sentence
from cachesim.scenarios.schema import Scenario
from tests.scenarios.newer_builds import still_unasked, unnamed_builds
from tests.scenarios.rule_examples import examples
from tests.scenarios.test_corpus import NAMED, NEWER, PLAIN, RUNS, SCENARIOS, shown

TABLES = (LLAMA_CPP, IK_LLAMA, MLX_LM, VLLM, SGLANG)
MOST = 40                    # decisions of a rule that are compared with the sentences of its neighbours

ALIKE = {
    "IK-CKPT-NEED": "REACHED and OR-PRIVATE, BEYOND and STATES differ only for models with a state of their own",
    "LC-CKPT-ERASE": "V1 and V3 follow ER2 where the memory is not recurrent",
    "LC-CKPT-NEED": "TH2, TH3 and TH4, and TH0 and TH1, differ in pos_min_thold, and that is printed",
    "LC-CKPT-PICK": "V1 and V3 follow PK2 and PK3 where the memory is not recurrent; WHOLE is PK3 with a limit",
}
"""Families in which two variants may print the same comparison for the same decision, with the reason."""

ALONE = {"LC-CKPT-PICK": {"PK0", "PK1", "PK2", "PK3"}, "LC-CKPT-ERASE": {"ER0", "ER1", "ER2", "REWRITTEN"},
         "LC-CKPT-NEED": {"TH0", "TH4"}}  # fmt: skip
"""Variants of such families that never do."""

COMPARES = re.compile(r" (<|>|<=|>=) ")


@cache
def decisions() -> dict[str, list[Decision]]:
    """Return decisions by rule: at most MOST from the corpus, and the examples."""
    found: dict[str, list[Decision]] = defaultdict(list)
    for name, profile in RUNS:
        for rule_id, events in shown(name, profile).decisions.items():
            for event in events[: MOST - len(found[rule_id])]:
                found[rule_id].append(Decision(event.value, event.because, rule_id))
    for name, one in examples().items():
        found[name].append(one)
    return dict(found)


def shipped() -> list[str]:
    return sorted(name for name, fn in RULES.items() if fn.__module__.startswith("cachesim.") and name not in PLAIN)


def _own_words(name: str, rule: Decision) -> str | None:
    return next((said for table in TABLES if (said := table.say(name, rule.value, rule.because)) is not None), None)


def of_newest_builds() -> set[str]:
    """Return the shipped rules that began with builds that no scenario names yet."""
    return set(shipped()).intersection(chain.from_iterable(NEWER.values()))


def demanded() -> set[str]:
    """Return the rules that need a sentence. A new build is complete without those of its new rules, which follow it
    (``tests/new_build``)."""
    return set(shipped()) - of_newest_builds()


def test_every_rule_has_a_sentence_that_can_be_made():
    assert {name for name in demanded() if not any(_own_words(name, one) for one in decisions().get(name, ()))} == set()


@pytest.mark.long
def test_every_rule_of_the_newest_builds_has_a_sentence():
    shown_alone = examples()
    silent = {name for name in of_newest_builds()
              if name not in shown_alone or _own_words(name, shown_alone[name]) is None}
    for engine in BUILTIN.values() if silent else ():
        mine = [scenario for scenario in SCENARIOS.values() if scenario.engine == engine.name]
        silent = still_unasked(silent, unnamed_builds(engine, NAMED), mine, said_in)
    assert silent == set()


def said_in(scenario: Scenario, profile: str) -> set[str]:
    """Return the rules with a sentence for a decision in this run."""
    return {name for name, events in shown(scenario.id, profile).decisions.items()
            if any(_own_words(name, Decision(event.value, event.because, name)) for event in events)}


def test_no_sentence_shows_python_or_nothing_but_numbers():
    words = [
        (name, sentence(name, one.value, one.because, every=True))
        for name in shipped() for one in decisions().get(name, ())
    ]
    assert [w for w in words if "None" in w[1] or "True" in w[1] or "(value " in w[1] or "namedtuple" in w[1]] == []


def test_every_entry_of_the_tables_is_a_rule_or_a_family():
    families = {name.split(".")[0] for name in shipped()}
    known = {name.split(".")[0] for name in RULES}             # plain rules may have sentences, but need none
    for table in TABLES:
        assert set(table.families) <= known and set(table.variants) <= set(RULES)
    assert families <= {name for table in TABLES for name in table.families}


def test_every_decision_can_be_said():
    for name, profile in RUNS:
        for event in chain.from_iterable(shown(name, profile).decisions.values()):
            assert isinstance(sentence(event.rule, event.value, event.because), str), (name, profile, event.rule)


@cache
def twins() -> set[tuple[str, str]]:
    """Return pairs of variants of a family that print the same comparison for the same decision."""
    found = set()
    for _, names in groupby(shipped(), key=lambda name: name.split(".")[0]):
        family = list(names)
        for one in family:
            for decision in decisions().get(one, ()):
                said = sentence(one, decision.value, decision.because, every=True)
                if COMPARES.search(said):
                    found |= {(one, other) for other in family if other != one and _said(other, decision) == said}
    return found


def _said(name: str, decision: Decision) -> str | None:
    try:
        return sentence(name, decision.value, decision.because, every=True)
    except (KeyError, TypeError, AttributeError, ValueError):
        return None


def test_variants_with_conditions_of_their_own_do_not_say_the_same():
    assert {one.split(".")[0] for one, _ in twins()} == set(ALIKE)
    pairs = [(one.partition("."), other.partition(".")) for one, other in twins()]
    assert [pair for pair in pairs if {pair[0][2], pair[1][2]} <= ALONE.get(pair[0][0], set())] == []


def test_a_checkpoint_search_prints_how_its_own_rule_compares():
    because = {"n_past": 9, "held": 20, "pos_min": 19, "thold": 9, "private": False}
    need = type("Need", (), {"search": True, "thold": 9})()
    said = {name: sentence(f"IK-CKPT-NEED.{name}", need, because) for name in ("REACHED", "BEYOND", "DEEP")}
    assert len(set(said.values())) == 3
    assert said["DEEP"] == "checkpoint needed: pos_min 19 > pos_min_thold 9 + 2 (common prefix 9)"


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


def test_a_rule_of_ones_own_is_said_without_the_condition_of_another():
    because = {"thold": 9, "pos_next": 10, "n_past": 10, "n_tokens": 12, "exact": True, "had": [4, 8]}
    assert sentence("LC-CKPT-PICK.MINE", 1, because) == "restores checkpoint n_tokens = 8 (candidates: [4, 8])"
    assert "required: pos_min < 9" in sentence("LC-CKPT-PICK.PK1", 1, because)
