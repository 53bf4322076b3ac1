"""Numbers, shares and limits on command lines, at their boundaries."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError

import pytest

from cachesim.base.pool import cores
from cachesim.base.shard import MOST, Shard
from cachesim.tools.run import work_arguments as arguments


@pytest.mark.parametrize(("parse", "text", "value"), [
    ("count", "0", 0), ("count", "007", 7), ("count", "999999999", 999_999_999), ("count", "000999999999", 999_999_999),
    ("number", "0", 0.0), ("number", "1.5", 1.5), ("number", "1e-3", 0.001), ("number", "2.5e12", 2.5e12),
    ("minutes", "0.5", 0.5), ("minutes", "999999", 999_999.0), ("jobs", "1", 1), ("jobs", "3", 3),
    ("tokens", "1", 1), ("tokens", "999999999", 999_999_999),
    ("shard", "1/1", Shard(1, 1)), ("shard", "2/3", Shard(2, 3)), ("shard", f"1/{MOST}", Shard(1, MOST)),
    ("memory_size", "32", 32 << 30), ("memory_size", "32GiB", 32 << 30), ("memory_size", "1.5g", 3 << 29),
    ("memory_size", "512MiB", 512 << 20), ("memory_size", "0.5M", 1 << 19), ("memory_size", "0.000001m", 1),
    ("memory_size", "1048576", 1 << 50),
])  # fmt: skip
def test_a_word_is_a_value(parse, text, value):
    assert getattr(arguments, parse)(text) == value


def test_many_runs_use_all_cores_unless_the_number_is_given():
    assert [arguments.processes_for(None, n) for n in (1, 19, 20, 600)] == [1, 1, cores(), cores()]
    assert arguments.processes_for(2, 1) == 2 and arguments.processes_for(1, 600) == 1


@pytest.mark.parametrize(("parse", "text", "error"), [
    ("count", "-1", "expected an integer from 0 to 999,999,999, found '-1'"),
    ("count", "٣", "expected an integer from 0 to 999,999,999, found '٣'"),
    ("count", "", "expected an integer from 0 to 999,999,999, found ''"),
    ("tokens", "0", "must be 1 to 999,999,999"),
    ("count", "1000000000", "1000000000 is too large: the largest accepted number is 999,999,999"),
    ("number", "-1", "'-1' is not a number"), ("number", "nan", "'nan' is not a number"),
    ("number", "1e", "'1e' is not a number"), ("minutes", "0", "expected a number of minutes above 0, found '0'"),
    ("minutes", "0.0", "expected a number of minutes above 0, found '0.0'"),
    ("minutes", "1e3", "expected a number of minutes above 0, found '1e3'"), ("jobs", "0", "must be at least 1"),
    ("shard", "1", "expected I/N (part I of N), found '1'"),
    ("shard", "1/x", "expected I/N (part I of N), found '1/x'"),
    ("shard", "00000001/1", "expected I/N (part I of N), found '00000001/1'"),
    ("shard", "0/2", f"expected I from 1 to N and N up to {MOST:,}, found '0/2'"),
    ("shard", "3/2", f"expected I from 1 to N and N up to {MOST:,}, found '3/2'"),
    ("shard", f"1/{MOST + 1}", f"expected I from 1 to N and N up to {MOST:,}, found '1/{MOST + 1}'"),
    ("memory_size", "0", "expected a size such as 32GiB, found '0'"),
    ("memory_size", "1048577", "expected a size such as 32GiB, found '1048577'"),
    ("memory_size", "3kb", "expected a size such as 32GiB, found '3kb'"),
])  # fmt: skip
def test_a_word_that_is_no_value_is_refused_in_a_line(parse, text, error):
    with pytest.raises(ArgumentTypeError) as refused:
        getattr(arguments, parse)(text)
    assert str(refused.value) == error


def parsed(*words):
    parser = ArgumentParser()
    arguments.add_jobs(parser)
    arguments.add_limits(parser)
    return parser.parse_args(words)


@pytest.mark.parametrize(("text", "error"), [
    ("tokens", "expected NAME=N, found 'tokens'"), ("token=1", "unknown limit 'token' (did you mean 'tokens'?)"),
    ("zzzz=1", "unknown limit 'zzzz' (one of "), ("tokens=x", "expected an integer from 0"),
])  # fmt: skip
def test_a_limit_has_a_known_name_and_a_number(text, error, capsys):
    with pytest.raises(SystemExit):
        parsed("--limit", text)
    assert error in " ".join(capsys.readouterr().err.split())
