"""Tests of the playground's page: its choices, and that examples are the bundled scenarios."""

from __future__ import annotations

import json
import re

import pytest

from cachesim.engines.registry import ENGINES, profiles
from cachesim.scenarios.corpus import corpus_files
from cachesim.scenarios.load import load
from cachesim.tools.playground.case import read_case
from cachesim.tools.playground.page import FIRST, make_page


@pytest.fixture(scope="module")
def page():
    return make_page()


@pytest.fixture(scope="module")
def choices(page):
    return json.loads(re.search(r'<script type="application/json" id="choices">(.*?)</script>', page.text, re.S)[1])


def test_the_page_refers_to_nothing_else(page):
    frame = re.sub(r"<(script|style).*?</\1>", "", page.text, flags=re.S)
    assert re.findall(r'(?:src|href|action)="(.*?)"', frame) == ["data:,"]
    assert "$" not in frame


def test_its_script_and_style_are_those_that_the_policy_allows(page):
    assert re.findall(r"<script>(.*?)</script>", page.text, re.S) == [page.inline[0]]
    assert re.findall(r"<style>(.*?)</style>", page.text, re.S) == [page.inline[1]]


def test_every_rule_set_is_offered_the_newest_first(choices):
    assert {name for one in choices["engines"].values() for name in one["profiles"]} == set(profiles())
    for name, engine in ENGINES.items():
        offered = choices["engines"][name]
        assert offered["profiles"][0] == (engine.newest or engine.line[-1])
        assert len(set(offered["profiles"])) == len(offered["profiles"])
        assert {*engine.manual.models, *engine.manual.known} == set(offered["models"])
        assert len(offered["flags"]) == len(engine.manual.flags)


def sizes(step):
    """Return the lengths of a request; its tokens have other numbers in a line than in a file."""
    return len(step.request.prompt), step.request.n_predict, step.action, step.asked


@pytest.mark.long
def test_an_example_is_its_scenario(choices):
    files = corpus_files()
    assert FIRST in choices["examples"] and len(choices["examples"]) > 0.9 * len(files)
    for name, example in choices["examples"].items():
        fields = {key: example[key] for key in ("line", "model", "flags", "profiles")}
        found, scenario = read_case(fields).scenario, load(files[name])
        assert repr(found) == repr(scenario) and found.model == scenario.model and found.engine == scenario.engine
        assert {**scenario.server, **found.server} == scenario.server, name
        assert [sizes(one) for one in found.steps] == [sizes(one) for one in scenario.steps], name
        assert len(set(example["profiles"])) == len(example["profiles"]) <= 2
