"""Rows of flags: conversion, detection of mistakes, and the start options of a server."""

from __future__ import annotations

from dataclasses import make_dataclass

import pytest

from cachesim.base.errors import BadInput, Crash
from cachesim.base.limits import SLOTS
from cachesim.engines.capabilities import Flag
from cachesim.engines.registry import BUILTIN
from cachesim.engines.shared.flags import check_flags, flag, flags_of, options_of


def options(**rows):
    """An ``Options`` of these rows."""
    return make_dataclass("Options", [(name, object, row) for name, row in rows.items()], frozen=True, slots=True)


SMALL = options(
    size=flag(0, "-c", "--size", least=1, open=0), slots=flag(-1, "-np", least=1, open=-1, limit=SLOTS),
    most=flag(8, "--most"), least=flag(2, least=2),
    similarity=flag(0.1, "-sps"), shift=flag(False, "--shift", off=("--no-shift",)),
    kind=flag("none", "--kind", choices=("none", "mtp")), name="",
)


def test_a_row_becomes_a_flag_with_the_name_of_its_field():
    names = ["size", "slots", "most", "least", "similarity", "shift", "kind", "name"]
    assert [row.name for row in flags_of(SMALL)] == names
    assert flags_of(SMALL)[0] == Flag("size", 0, least=1, bounded=True, open=0, spellings=("-c", "--size"))
    assert flags_of(SMALL)[7] == Flag("name", "")


def test_the_options_are_plain_values():
    made = options_of(SMALL, {"size": 512, "shift": True})
    assert (made.size, made.slots, made.most, made.similarity, made.shift, made.kind) == (512, -1, 8, 0.1, True, "none")
    assert made == SMALL(size=512, shift=True)


@pytest.mark.parametrize("rows, word", [
    ({"a": flag(1, "-x"), "b": flag(1, "-x")}, "a and b have the same command-line name: x"),
    ({"a": flag(1, "--size"), "size": flag(1)}, "a and size have the same command-line name: size"),
    ({"a": flag(1, "-x"), "b": flag(1, also=("x",))}, "a and b have the same command-line name: x"),
    ({"a": flag(False, off=("-x",)), "b": flag(1, "-x")}, "a and b have the same command-line name: x"),
    ({"a": flag(False), "b": flag(False, "--no-a")}, "a and b have the same command-line name: no_a"),
])  # fmt: skip
def test_a_name_of_two_flags_is_a_fault(rows, word):
    with pytest.raises(Crash, match=word):
        flags_of(options(**rows))


@pytest.mark.parametrize("row", [flag(1, tries=(2, 0.5)), flag(0.5, tries=(1,)), flag(1, tries=(True,)),
                                 flag("x", choices=("x", 1))])  # fmt: skip
def test_a_value_of_another_type_than_the_default_is_a_fault(row):
    with pytest.raises(Crash, match="flag a has a value of another type"):
        flags_of(options(a=row))


def test_a_property_that_no_flag_has_is_a_fault():
    with pytest.raises(TypeError, match="spelings"):
        flag(1, spelings=("-x",))


@pytest.mark.parametrize("given, error", [
    ({"sise": 1}, "unknown server flag 'sise' (did you mean 'size'?)"),
    ({"size": True}, "server flag 'size': expected int, found True"),
    ({"size": 1.0}, "server flag 'size': expected int, found 1.0"),
    ({"shift": 1}, "server flag 'shift': expected bool, found 1"),
    ({"kind": 1}, "server flag 'kind': expected str, found 1"),
    ({"similarity": "1"}, "server flag 'similarity': expected float, found '1'"),
    ({"similarity": 1.5}, "server flag 'similarity': expected 0 to 1, found 1.5"),
    ({"similarity": float("nan")}, "server flag 'similarity': expected 0 to 1, found nan"),
    ({"size": -1}, "server flag 'size': expected at least 0, found -1"),
    ({"least": 1}, "server flag 'least': expected at least 2, found 1"),
    ({"slots": 0}, "server flag 'slots': expected at least 1, or -1, found 0"),
    ({"slots": 257}, "server flag 'slots': 257 slots, at most 256 slots are allowed"),
    ({"kind": "mpt"}, "unknown kind 'mpt' (did you mean 'mtp'?)"), ({"kind": "x"}, "unknown kind 'x' (none, mtp)"),
])  # fmt: skip
def test_a_server_does_not_start_with_such_a_value(given, error):
    with pytest.raises(BadInput) as refused:
        options_of(SMALL, given)
    assert str(refused.value) == error


def test_a_number_without_a_least_may_be_any():
    check_flags({"most": -5, "similarity": 1, "name": "anything"}, flags_of(SMALL))


@pytest.mark.parametrize("engine", BUILTIN)
def test_a_server_starts_with_every_default_and_every_value_that_is_tried(engine):
    flags = BUILTIN[engine].manual.flags
    check_flags({row.name: row.default for row in flags}, flags)
    for row in flags:
        for value in (*row.tries, *row.choices):
            check_flags({row.name: value}, flags)


def test_those_that_govern_a_rule_come_before_those_that_affect_it():
    governing = BUILTIN["llama_cpp"].rule_flags
    assert governing["LC-IDLE-SAVE"] == ["cache_idle_slots", "kv_unified", "cache_ram"]
    assert governing["LC-NPAST-LCP"] == ["cache_prompt"]
