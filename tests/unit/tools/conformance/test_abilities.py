"""Abilities of an implementation, and the reasons why it lacks some."""

from __future__ import annotations

import pytest

from cachesim.tools.conformance.history_player import ABILITIES, SubjectAbilities


@pytest.mark.parametrize(("missing", "name", "why"), [
    ({}, "reset", ""), ({"reset": "no method"}, "reset", "no method"), ({"reset": "no method"}, "burst", ""),
    ({"cancel_answer": "one", "cancel_prompt": "other"}, "cancel", "one"), ({"cancel_answer": "one"}, "cancel", ""),
    ({"cancel_prompt": "other"}, "cancel", ""),
])  # fmt: skip
def test_an_ability_is_missing_for_a_reason(missing, name, why):
    abilities = SubjectAbilities(missing)
    assert abilities.lack(name) == why
    assert abilities.present == {*ABILITIES} - {*missing}
