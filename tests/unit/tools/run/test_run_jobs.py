"""Jobs of a command: what becomes of those that fail."""

from __future__ import annotations

import pytest

from cachesim.base import exits
from cachesim.base.errors import BadInput
from cachesim.tools.run.run_jobs import (
    JobFailure,
    answers_code,
    result_or_failure,
    run_each,
)


def number(text):
    """Return an integer; raise BadInput for "bad"."""
    if text == "bad":
        raise BadInput("not a number")
    return int(text)


def test_a_job_that_raises_has_an_exit_code_and_a_line():
    assert result_or_failure(number, "7", "it") == 7
    assert result_or_failure(number, "bad", "it") == JobFailure(exits.BAD_INPUT, "it: not a number")
    crash = result_or_failure(number, "x", "it")
    assert crash.code == exits.CRASH and crash.why.startswith("it: ValueError: invalid literal")


def test_the_results_of_several_shares_and_the_codes_of_those_that_failed(capsys):
    assert run_each(["1", "bad", "2", "bad"], number, "share {}".format, label="") == ([1, 2], [exits.BAD_INPUT] * 2)
    assert capsys.readouterr().err == "cachesim: share bad: not a number\n" * 2
    assert run_each(["3"], number, str) == ([3], [])
    with pytest.raises(BadInput, match="not a number"):
        run_each(["bad"], number, str)
    assert run_each([], number, str) == ([], [])


@pytest.mark.parametrize(("answers", "code"), [
    ([], exits.HOLDS), ([(True, False)], exits.HOLDS), ([(None, True)], exits.HOLDS),
    ([(None, False)], exits.UNDECIDED),
    ([(False, True), (None, False)], exits.BROKEN), ([(True, False), (False, False)], exits.BROKEN),
])  # fmt: skip
def test_a_refusal_that_the_file_expects_is_not_undecided(answers, code):
    assert answers_code(answers) == code
