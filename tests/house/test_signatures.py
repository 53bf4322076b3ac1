"""Every rule that can cost a restore point has a signature in the logs of its engine, or says where it is visible."""

from __future__ import annotations

import pytest

from cachesim.engines.registry import BUILTIN
from cachesim.engines.rule import RULES, Role, about
from cachesim.engines.shared.log_signatures import Signature

COSTLY = frozenset({
    Role.LOAD, Role.HAND, Role.STORE, Role.CONSULT, Role.NEED, Role.PICK, Role.RESUME, Role.RESET, Role.ENABLE,
    Role.PLAN, Role.CREATE, Role.DROP, Role.REMOVE, Role.FAIL, Role.MEMORY, Role.ASSIGN,
})  # fmt: skip
"""Roles of rules that can refuse, erase, evict, consume or not create a restore point."""
WITHOUT_RULES = {"identical-prompt", "edited-prompt", "lost-prefix", "server-warning",
                 "cannot-trim", "rejected-match", "no-stored-state", "cut-match"}  # fmt: skip
"""Causes that lie in the client's prompts, quoted warnings, and decisions of software that is not simulated."""


def rules_of(engine: str) -> list[str]:
    """Return the ids of the engine's costly rules."""
    for profile in BUILTIN[engine].profiles:
        BUILTIN[engine].rules(profile)
    folder = f"cachesim.engines.{engine}."
    return [name for name, rule in RULES.items() if rule.__module__.startswith(folder) and about(rule).role in COSTLY]


def uncovered(rules: list[str], signatures: tuple[Signature, ...], unlogged: dict[str, str]) -> list[str]:
    """Return the rules without a signature and without a place where they are visible."""
    known = tuple(start for one in signatures for start in one.rules) + tuple(unlogged)
    return [name for name in rules if not name.startswith(known)]


@pytest.mark.parametrize("engine", BUILTIN)
def test_every_costly_rule_has_a_signature(engine):
    grammar = BUILTIN[engine].log()
    assert uncovered(rules_of(engine), tuple(grammar.signatures), dict(grammar.unlogged)) == []


@pytest.mark.parametrize("engine", BUILTIN)
def test_every_signature_belongs_to_rules_and_lines(engine):
    grammar, rules = BUILTIN[engine].log(), tuple(RULES)
    rules_of(engine)
    kinds = {line.ev for line in grammar.lines}
    for one in grammar.signatures:
        assert set(one.kinds) <= kinds, one.key
        assert all(any(name.startswith(start) for name in RULES) for start in one.rules), one.key
        assert one.rules or one.key in WITHOUT_RULES, one.key
    assert all(any(name.startswith(start) for name in RULES) for start in grammar.unlogged), rules
    assert all(text.startswith("not logged: ") for text in grammar.unlogged.values())


def unexplained(signature: Signature) -> bool:
    """True if a signature neither has a proof nor says why it has none, or does both."""
    proved = signature.proof is not None or signature.removed is not None or signature.is_quoted
    return proved is bool(signature.unproved)


@pytest.mark.parametrize("engine", BUILTIN)
def test_every_signature_has_a_proof_or_says_why_not(engine):
    assert [one.key for one in BUILTIN[engine].log().signatures if unexplained(one)] == []


def test_a_signature_without_a_proof_and_without_a_reason_is_found():
    assert unexplained(Signature("entry-evicted", ("pc_evict",), ("LC-PC-UPDATE",), ("evicted",)))


def test_a_rule_without_a_signature_is_found():
    known = Signature("entry-evicted", ("pc_evict",), ("LC-PC-UPDATE",), ("evicted",))
    assert uncovered(["LC-PC-UPDATE.PC6", "LC-CKPT-LIMIT.OLDEST"], (known,), {}) == ["LC-CKPT-LIMIT.OLDEST"]
    assert uncovered(["LC-CKPT-LIMIT.OLDEST"], (known,), {"LC-CKPT": "not logged: in the answers"}) == []
