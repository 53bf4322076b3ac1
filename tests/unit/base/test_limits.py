"""Tests of the limits: the table, errors that name maximum and flag, and raised limits of the process."""

from __future__ import annotations

import re

import pytest

from cachesim.base import limits
from cachesim.base.errors import BadInput
from cachesim.cli.command_list import COMMANDS
from cachesim.cli.main import main


def test_every_limit_is_in_the_table_once():
    defined = [value for value in vars(limits).values() if isinstance(value, limits.Limit)]
    assert list(limits.TABLE) == defined
    assert len({limit.name for limit in defined}) == len(defined)


def test_every_limit_that_protects_time_can_be_raised():
    assert {limit.protects for limit in limits.TABLE} <= {limits.MACHINE, limits.TIME}
    assert all(limit.is_raisable for limit in limits.TABLE if limit.protects == limits.TIME)


def test_the_limit_itself_is_allowed():
    limits.LAYERS.check(64, "model")
    with pytest.raises(BadInput, match=r"^f:3: model: 65 layers, at most 64 layers are allowed$"):
        limits.LAYERS.check(65, "model", file="f", line=3)


def test_an_error_names_the_option_and_the_current_maximum():
    with pytest.raises(BadInput, match=r"1,000,001 tokens, at most 1,000,000 .*\(--limit tokens=N allows more\)"):
        limits.NEW_TOKENS.check(1_000_001, "request 3")
    limits.lift({"tokens": 5})
    with pytest.raises(BadInput, match="at most 5 tokens"):
        limits.NEW_TOKENS.check(6, "request 3")


def test_lifting_replaces_what_was_lifted_before():
    limits.lift({"tokens": 5})
    assert limits.lifted() == {"tokens": 5}
    limits.lift({})
    assert limits.NEW_TOKENS.now == 1_000_000


def test_every_raisable_limit_is_one_of_a_command(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "1000")                # a name is not broken at its hyphen
    known = set()
    for name in COMMANDS:
        with pytest.raises(SystemExit):
            main([name, "--help"])
        known |= set(re.findall("[a-z-]+", capsys.readouterr().out.partition("--limit")[2]))
    assert {limit.name for limit in limits.TABLE if limit.is_raisable} <= known


@pytest.mark.parametrize(("argv", "tokens", "sampled"), [
    (["--limit", "tokens=70", "--limit", "sampled=9"], 70, 9), (["--limit=tokens=70"], 70, 16_384),
    (["--limit", "tokens=7", "--limit", "tokens=70"], 70, 16_384),
])  # fmt: skip
def test_limits_are_given_by_name(capsys, argv, tokens, sampled):
    assert main(["run", "A4/A", *argv]) == 0
    assert (limits.NEW_TOKENS.now, limits.SAMPLED_TOKENS.now) == (tokens, sampled)
    capsys.readouterr()


@pytest.mark.parametrize(("text", "message"), [
    ("tokns=5", "unknown limit 'tokns' (did you mean 'tokens'?)"),
    ("bodies=5", "unknown limit 'bodies' (one of tokens, sampled, passes, exact, judged)"),
    ("tokens", "expected NAME=N, found 'tokens' (did you mean 'tokens'?)"),
    ("=5", "unknown limit '' (one of tokens, sampled, passes, exact, judged)"),
    ("tokens=-1", "expected an integer from 0 to 999,999,999, found '-1'"),
    ("tokens=", "expected an integer from 0 to 999,999,999, found ''"),
    ("tokens=1000000000", "1000000000 is too large: the largest accepted number is 999,999,999"),
])  # fmt: skip
def test_a_wrong_limit_is_one_clear_line(capsys, text, message):
    assert main(["run", "A4/A", "--limit", text]) == 2
    assert capsys.readouterr() == ("", f"cachesim: argument --limit: {message} (see cachesim run --help)\n")


def test_the_next_command_line_resets_the_limits(capsys):
    assert main(["run", "A4/A", "--limit", "tokens=70"]) == 0
    assert limits.lifted() == {"tokens": 70}
    assert main(["run", "A4/A"]) == 0
    assert limits.lifted() == {}
    capsys.readouterr()
