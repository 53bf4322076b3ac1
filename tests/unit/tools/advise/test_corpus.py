"""Test of advice on every scenario of the corpus: the printed command gives the stated result, and advice with wrong
answers is marked."""

from __future__ import annotations

import json
import shlex

import pytest

from cachesim.base.console import as_text
from cachesim.cli.main import main
from cachesim.scenarios.corpus import corpus_files
from cachesim.tools.advise.ranking import SHOWN, TRAPS
from cachesim.tools.advise.report import advise_report

pytestmark = pytest.mark.slow


def printed(capsys, *words):
    """Return the JSON that a command prints."""
    main([*words, "--json", "-q"])
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("name", corpus_files())
def test_every_advice_is_what_its_command_shows(name, capsys):
    (data,) = printed(capsys, "advise", name)["advise"]
    base = data["base"]
    assert len(data["advice"]) <= SHOWN and len(data["traps"]) <= TRAPS
    for one in (*data["advice"], *data["traps"]):
        (again,) = printed(capsys, *shlex.split(one["command"])[1:], "--provenance")["runs"]
        assert sum(each["prompt_n"] for each in again["requests"]) == sum(one["each"])
        assert (again["broken"], again["profile"]) == (one["wrong"], one["profile"])
        assert not one["wrong"] or "WRONG: " in as_text(advise_report({**data, "advice": [one], "traps": []}))
    for one in data["advice"]:
        assert not_right(one) < not_right(base) or (not one["wrong"] and one["evaluated"] < base["evaluated"])
        assert not_right(one) or one["evaluated"] >= one["bound"] or not data["bound"]["holds"]


def not_right(outcome):
    """Return the number of requests without a correct answer."""
    return len({*outcome["wrong"], *outcome["failed"], *outcome["undecided"]})
