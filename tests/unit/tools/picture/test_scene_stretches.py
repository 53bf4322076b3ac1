"""Ranges of a request and changes of the prompt cache, from the data of a run."""

from __future__ import annotations

import pytest

from cachesim.scenarios.from_notation import from_line
from cachesim.tools.picture.scene import (
    RuleSource,
    Scene,
    causes,
)
from tests.unit.tools.picture.test_svg import row, scene


@pytest.mark.parametrize(("verdict", "is_wrong", "fine"), [
    ("OK", False, True), ("recorded", False, True), ("undecided", False, False), ("OK", True, False)])  # fmt: skip
def test_a_scene_is_fine_if_no_answer_is_wrong_or_undecided(verdict, is_wrong, fine):
    assert scene(row(0), row(1, is_wrong=is_wrong))._replace(verdict=verdict).fine is fine


def test_a_scene_is_as_long_as_its_longest_request():
    assert scene(row(0, prompt_n=30), row(1, prompt_n=12)).length == 30
    assert Scene("t", "", "p", "A", "OK", [row(0)._replace(stretches=())]).length == 1


def test_causes_are_the_known_rules_with_their_options():
    one = from_line("A5", model="A", server={"cache_ram": 100})
    found = causes(["LC-PC-LOAD.TAKE", "LC-NO-SUCH", "LC-PC-LOAD.TAKE"], one, "llama_cpp@b10587")
    assert [*found] == ["LC-PC-LOAD.TAKE"]
    cause = found["LC-PC-LOAD.TAKE"]
    assert isinstance(cause, RuleSource) and cause.rule == "LC-PC-LOAD.TAKE" and "--cache-ram 100" in cause.flags
