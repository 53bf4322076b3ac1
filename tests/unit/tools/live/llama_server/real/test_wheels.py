"""Tests of the table of wheels, and of the names by which a wheel is found."""

from __future__ import annotations

import pytest

from cachesim.base.errors import BadInput
from cachesim.tools.live.llama_server.real.real_server import rule_set_of
from cachesim.tools.live.llama_server.real.wheels import WHEELS, find_wheel
from cachesim.tools.live.llama_server.wheel_program import build_of


@pytest.mark.parametrize("name", ["b8672", "8672", "2026.4.8672.1"])
def test_a_wheel_is_found_by_build_number_and_version(name):
    assert find_wheel(name).requirement == "xllamacpp==2026.4.8672.1"


def test_a_version_newer_than_the_table_names_its_build():
    assert find_wheel("2026.11.12001").build == "b12001"


def test_an_unknown_build_is_refused_with_the_nearest():
    with pytest.raises(BadInput, match=r"no wheel with the build 'b1154' \(did you mean 'b11549'\?\)"):
        find_wheel("b1154")


def test_the_table_is_ordered_and_a_version_with_a_build_agrees_with_it():
    numbers = [wheel.number for wheel in WHEELS]
    assert numbers == sorted(numbers, reverse=True)
    assert [wheel.build for wheel in WHEELS if build_of(wheel.version) not in ("0", str(wheel.number))] == []


@pytest.mark.parametrize("wheel", WHEELS, ids=lambda wheel: wheel.build)
def test_every_wheel_has_a_rule_set(wheel):
    assert rule_set_of(wheel.build)[0].startswith("llama_cpp@b")
