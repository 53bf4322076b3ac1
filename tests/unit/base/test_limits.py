"""Tests of the limits: the table, errors that name maximum and flag, and raised limits of the process."""

from __future__ import annotations

import pytest

from cachesim.base import limits
from cachesim.base.errors import BadInput
from cachesim.cli.main import COMMANDS, _module


@pytest.fixture(autouse=True)
def nothing_lifted():
    yield
    limits.lift({})


def test_every_limit_is_in_the_table_once():
    defined = [value for value in vars(limits).values() if isinstance(value, limits.Limit)]
    assert list(limits.TABLE) == defined
    assert len({limit.name for limit in defined}) == len(defined)


def test_every_limit_that_protects_time_has_a_flag():
    assert {limit.protects for limit in limits.TABLE} <= {limits.MACHINE, limits.TIME}
    assert all(limit.flag for limit in limits.TABLE if limit.protects == limits.TIME)


def test_the_limit_itself_is_allowed():
    limits.LAYERS.check(64, "model")
    with pytest.raises(BadInput, match=r"^f:3: model: 65 layers, at most 64 layers are allowed$"):
        limits.LAYERS.check(65, "model", file="f", line=3)


def test_an_error_names_the_flag_and_the_current_maximum():
    with pytest.raises(BadInput, match=r"1,000,001 tokens, at most 1,000,000 tokens .*\(--max-tokens N allows more\)"):
        limits.NEW_TOKENS.check(1_000_001, "request 3")
    limits.lift({"new tokens": 5})
    with pytest.raises(BadInput, match="at most 5 tokens"):
        limits.NEW_TOKENS.check(6, "request 3")


def test_lifting_replaces_what_was_lifted_before():
    limits.lift({"new tokens": 5})
    assert limits.lifted() == {"new tokens": 5}
    limits.lift({})
    assert limits.NEW_TOKENS.now == 1_000_000


def test_every_flag_is_an_option_of_a_command():
    from argparse import ArgumentParser

    known = set()
    for name in COMMANDS:
        parser = ArgumentParser()
        _module(name).add_arguments(parser)
        known |= set(parser._option_string_actions)
    assert {limit.flag for limit in limits.TABLE if limit.flag} <= known


def test_the_next_command_line_resets_the_limits(capsys):
    from cachesim.cli.main import main

    assert main(["try", "A4/A", "--max-tokens", "70"]) == 0
    assert limits.lifted() == {"new tokens": 70}
    assert main(["try", "A4/A"]) == 0
    assert limits.lifted() == {}
    capsys.readouterr()
