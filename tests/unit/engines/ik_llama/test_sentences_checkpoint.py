"""Sentences of decisions about checkpoints: the comparison that decided stands in them."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from cachesim.engines.ik_llama import sentences_checkpoint as texts

BEYOND = {"n_past": 9, "held": 20, "pos_min": 8, "thold": 5}
AT = {**BEYOND, "pos_min": 5}
BELOW = {**BEYOND, "pos_min": 4}
NEEDED, UNNEEDED = SimpleNamespace(search=True), SimpleNamespace(search=False)


@pytest.mark.parametrize(("sign", "because", "needed", "unneeded"), [
    (">=", BEYOND, "pos_min 8 >= pos_min_thold 5", "pos_min 8 < pos_min_thold 5"),
    (">=", AT, "pos_min 5 >= pos_min_thold 5", "pos_min 5 < pos_min_thold 5"),
    (">=", BELOW, "recurrent", "pos_min 4 < pos_min_thold 5"),
    (">", BEYOND, "pos_min 8 > pos_min_thold 5", "pos_min 8 <= pos_min_thold 5"),
    (">", AT, "recurrent", "pos_min 5 <= pos_min_thold 5"),
])  # fmt: skip
def test_the_comparison_is_named_unless_another_reason_held(sign, because, needed, unneeded):
    say = texts.need(texts._compared(sign, otherwise="recurrent"))
    assert say(NEEDED, because) == f"checkpoint needed: {needed} (common prefix 9)"
    assert say(UNNEEDED, because) == f"no checkpoint needed: {unneeded}"


def test_no_search_has_its_reason():
    say = texts.need()
    assert say(NEEDED, BEYOND) == "checkpoint needed: pos_min 8 (common prefix 9)"
    assert say(UNNEEDED, {**BEYOND, "n_past": 0}) == "no checkpoint search: n_past = 0"
    assert say(UNNEEDED, {**BEYOND, "held": 9}) == "no checkpoint search: the common prefix is all 9 tokens of the slot"
    assert say(UNNEEDED, {**BEYOND, "held": 10}) == "no checkpoint needed: pos_min 8"


def test_the_restored_checkpoint_is_named_with_its_rivals():
    because = {"ckpts": [4, 7]}
    assert texts.pick()(1, because) == "restores checkpoint pos_max = 7 (candidates: pos_max 4, 7)"
    assert texts.pick()(None, because) == "no usable checkpoint (candidates: pos_max 4, 7)"
    assert texts.pick(lambda b: "below 5")(0, because).endswith("; required: below 5")


def test_a_state_that_is_not_kept_has_its_reason():
    say = texts.created(lambda because: f"least {because['start'] + 1}")
    assert say(True, {"start": 4}) == "checkpoint created at n_tokens = 4"
    assert say(False, {"start": 4}) == "no checkpoint at n_tokens = 4 (least 5)"
    assert say(None, {"start": 4}) == "checkpoint at n_tokens = 4, or none: depends on an uninitialised n_tokens"


def test_a_checkpoint_may_depend_on_a_number_that_is_never_set():
    say = texts.created(lambda because: "too near")
    assert say(None, {"start": 9}) == "checkpoint at n_tokens = 9, or none: depends on an uninitialised n_tokens"
    assert say(True, {"start": 9}) == "checkpoint created at n_tokens = 9"
    assert say(False, {"start": 9}) == "no checkpoint at n_tokens = 9 (too near)"
    assert texts.created()(False, {"start": 0}) == "no checkpoint at n_tokens = 0"
