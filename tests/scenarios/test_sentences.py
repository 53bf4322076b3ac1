"""Does every rule have its sentence, one that can be made from what the scenarios decide, and that is its own?"""

from __future__ import annotations

from collections import defaultdict
from functools import cache
from itertools import groupby

import pytest

from cachesim.engines.ik_llama.sentences import SENTENCES as IK_LLAMA
from cachesim.engines.llama_cpp.sentences import SENTENCES as LLAMA_CPP
from cachesim.engines.mlx_lm.sentences import SENTENCES as MLX_LM
from cachesim.engines.rule import RULES, Decision, Role, rule
from cachesim.events import Decided
from cachesim.reports.sentences import sentence
from tests.scenarios.rule_examples import examples
from tests.scenarios.test_corpus import RUNS, played

TABLES = (LLAMA_CPP, IK_LLAMA, MLX_LM)
MOST = 40                    # decisions of one rule that are compared with what its neighbours would have said

ALIKE = {
    "IK-CKPT-CREATE": "a checkpoint that is created needs no reason",
    "IK-CKPT-NEED": "REACHED and OR-PRIVATE, BEYOND and STATES differ only for models with a state of their own",
    "IK-CKPT-RESUME": "the tokens are printed at which evaluation goes on",
    "LC-CKPT-BREAK": "where the batch ends is printed, not which marks a version knows",
    "LC-CKPT-CREATE": "CR10, CR8 and V3 differ in when a user message is due, which is not printed",
    "LC-CKPT-ERASE": "V1 and V3 follow ER2 where the memory is no recurrent one",
    "LC-CKPT-LIMIT": "nothing is erased below the limit",
    "LC-CKPT-ON": "PROBE and ARCH differ in how a recurrent state is found out",
    "LC-CKPT-PERIODIC": "CR4 and CR5 differ in what counts as the end of the prompt",
    "LC-CKPT-PICK": "V1 and V3 follow PK2 and PK3 where the memory is no recurrent one; WHOLE is PK3 with a limit",
    "LC-CKPT-RESTORE": "the tokens are printed at which evaluation goes on",
    "LC-CTX-POOL": "the sum is printed where it is one",
    "LC-RS-BACK": "ANY, ONCE and ALONE print the number that refuses",
    "ML-ARRAYS-MASK": "there is nothing to mask",
    **dict.fromkeys((
        "IK-CKPT-BREAK", "IK-CKPT-RESET", "IK-ONE", "IK-PC-HIT", "IK-PC-LOAD", "IK-PC-PEEK", "IK-PREFIX",
        "IK-SLOT-ERASE", "IK-SPEC-COMMIT", "IK-SPEC-PURGE", "IK-SPEC-SAVE", "IK-TRIM", "IK-TRIM-FAILED", "IK-WINDOW",
        "LC-CKPT-NEED", "LC-CKPT-RESET", "LC-CKPT-UNREAD", "LC-CLEAR", "LC-IDLE-SAVE", "LC-KV-COPY", "LC-KV-FAIL",
        "LC-KV-FULL", "LC-KV-READ", "LC-KV-SHIFT", "LC-KV-UNDO", "LC-N-SWA", "LC-NPAST-REUSE", "LC-PC-ALLOC",
        "LC-PC-LOAD", "LC-PC-UPDATE", "LC-RESTORE-FAIL", "LC-RS-RM", "LC-RS-SPLIT", "LC-SHARED", "LC-SLOT-CTX",
        "LC-SLOT-ID", "LC-SLOT-SELECT", "LC-SPEC-ACCEPT", "LC-SPEC-ON", "LC-SPEC-ROOM", "LC-TASK", "LC-TASK-REUSE",
        "LC-TRIM", "ML-BATCH", "ML-CANCEL", "ML-CKPT-CREATE", "ML-KEY", "ML-KV-EXTEND", "ML-LRU-BYTES",
        "ML-LRU-COUNT", "ML-LRU-EXACT", "ML-LRU-HAND", "ML-LRU-LONGER", "ML-LRU-PREFIX", "ML-LRU-PRESENT",
        "ML-LRU-SNAP", "ML-LRU-SNAPTRIM", "ML-LRU-TRIMMED", "ML-LRU-VICTIM", "ML-PC-BATCH", "ML-PC-POSITION",
        "ML-PC-ROW", "ML-RING-EXTRACT-START", "ML-RING-MERGE", "ML-RING-TRIM", "ML-SEG-CUT", "ML-SEG-REST",
        "ML-SEG-TAIL", "ML-SPEC-START",
    ), "what is done is printed, with its numbers"),
}
"""Families of which two variants may say the same of the same decision, with the reason: what was decided is printed,
not why."""

ALONE = {"LC-CKPT-PICK": {"PK0", "PK1", "PK2", "PK3"}, "LC-CKPT-ERASE": {"ER0", "ER1", "ER2", "REWRITTEN"},
         "IK-CKPT-PICK": {"POS-MAX", "POS-MIN", "WITHIN", "PR1888"}, "IK-CKPT-ERASE": {"THOLD", "POS-MIN", "BEYOND"},
         "IK-CKPT-NEED": {"REACHED", "BEYOND", "DEEP"}}  # fmt: skip
"""Variants of such families whose condition is printed, so that no two of them ever say the same."""


@cache
def decisions() -> dict[str, list[Decision]]:
    """What the corpus decides, and the examples, by rule; of the corpus some of each."""
    found: dict[str, list[Decision]] = defaultdict(list)
    for name, profile in RUNS:
        for event in played(name, profile).log.events:
            if isinstance(event, Decided) and len(found[event.rule]) < MOST:
                found[event.rule].append(Decision(event.value, event.because, event.rule))
    for name, one in examples().items():
        found[name].append(one)
    return dict(found)


def shipped() -> list[str]:
    return sorted(name for name, fn in RULES.items() if fn.__module__.startswith("cachesim."))


def test_every_rule_has_a_sentence_that_can_be_made():
    silent = [
        name for name in shipped()
        if not any(sentence(name, one.value, one.because, every=True) for one in decisions().get(name, ()))
    ]
    assert silent == []


def test_no_sentence_shows_python_or_nothing_but_numbers():
    words = [
        (name, sentence(name, one.value, one.because, every=True))
        for name in shipped() for one in decisions()[name]
    ]
    assert [w for w in words if "None" in w[1] or "True" in w[1] or "(value " in w[1] or "namedtuple" in w[1]] == []


def test_every_entry_of_the_tables_is_a_rule_or_a_family():
    families = {name.split(".")[0] for name in shipped()}
    for table in TABLES:
        assert set(table.families) <= families
        assert set(table.variants) <= set(shipped())
    assert families <= {name for table in TABLES for name in table.families}


@pytest.mark.parametrize(("name", "profile"), RUNS)
def test_every_decision_can_be_said(name, profile):
    for event in played(name, profile).log.events:
        if isinstance(event, Decided):
            assert isinstance(sentence(event.rule, event.value, event.because), str), event.rule


def twins() -> set[tuple[str, str]]:
    """Variants of one family that say the same of the same decision."""
    found = set()
    for _, names in groupby(shipped(), key=lambda name: name.split(".")[0]):
        family = list(names)
        for one in family:
            for decision in decisions()[one]:
                said = sentence(one, decision.value, decision.because, every=True)
                found |= {(one, other) for other in family if other != one and _said(other, decision) == said}
    return found


def _said(name: str, decision: Decision) -> str | None:
    try:
        return sentence(name, decision.value, decision.because, every=True)
    except (KeyError, TypeError, AttributeError, ValueError):
        return None


def test_variants_with_conditions_of_their_own_do_not_say_the_same():
    found = twins()
    assert {one.split(".")[0] for one, _ in found} - set(ALIKE) == set()
    assert [pair for pair in found if _alone(pair)] == []


def _alone(pair: tuple[str, str]) -> bool:
    (family, _, one), (_, _, other) = (name.partition(".") for name in pair)
    searches = family.endswith("-NEED")           # where no checkpoint is searched for, nothing is compared
    return not searches and {one, other} <= ALONE.get(family, set())


def test_the_list_of_reasons_is_not_longer_than_needed():
    assert set(ALIKE) - {one.split(".")[0] for one, _ in twins()} == set()


def test_a_checkpoint_search_prints_how_its_own_rule_compares():
    because = {"n_past": 9, "held": 20, "pos_min": 19, "thold": 9, "private": False}
    need = type("Need", (), {"search": True, "thold": 9})()
    said = {name: sentence(f"IK-CKPT-NEED.{name}", need, because) for name in ALONE["IK-CKPT-NEED"]}
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
