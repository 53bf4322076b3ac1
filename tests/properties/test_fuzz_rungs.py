"""Exact mode finds exactly the failures that provenance finds. Exception: chunks moved by cache_reuse, whose keys are
rotated and rounded twice."""

from __future__ import annotations

import pytest

from cachesim.base.errors import BadInput
from cachesim.tools.search.campaign import SPREAD, findings
from cachesim.tools.search.drawn_conversation import draw_conversation
from cachesim.tools.search.properties import PROPERTIES
from tests.fuzz.expected import told

PROFILES = ("llama_cpp@b10587", "llama_cpp@b8392", "ik_llama@main", "mlx_lm@0.32.2", "mlx_lm@0.31.0")
SEED = 61


def compared(profile, first, stop):
    """Return the number of findings, which must be equal in both modes."""
    found, judges = 0, {}
    for i in range(first, stop):
        case = told(draw_conversation(SEED * SPREAD + i, profile.partition("@")[0]), ("cache_reuse",))
        try:
            plain = findings(case, profile, tuple(PROPERTIES), judges)
        except BadInput:
            continue
        exact = findings(case, profile, tuple(PROPERTIES), {}, mode="exact")
        assert {(one.name, one.step) for one in exact} == {(one.name, one.step) for one in plain}, case.seed
        found += len(plain)
    return found


@pytest.mark.long
@pytest.mark.parametrize("profile", PROFILES)
def test_all_rungs_agree(profile):
    compared(profile, 0, 6)


@pytest.mark.slow
@pytest.mark.parametrize("profile", PROFILES)
def test_all_rungs_agree_in_many_conversations(profile):
    assert compared(profile, 6, 300)
