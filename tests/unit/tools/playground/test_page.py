"""Tests of the playground's page: its choices, and that examples are the bundled scenarios."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from cachesim.engines.registry import ENGINES, profiles
from cachesim.scenarios.corpus import corpus_files
from cachesim.scenarios.load import load
from cachesim.tools.playground import page as page_module
from cachesim.tools.playground.case import read_case
from cachesim.tools.playground.page import FIRST, flags_text, make_page


@pytest.fixture(scope="module")
def page():
    return make_page()


@pytest.fixture(scope="module")
def choices(page):
    return choices_of(page)


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


def choices_of(page):
    """Return the choices that a page offers."""
    return json.loads(re.search(r'<script type="application/json" id="choices">(.*?)</script>', page.text, re.S)[1])


HEAD = """id = "{id}"
title = "{title}"
source = ["a report"]
why = "Both requests share S."
engine = "llama_cpp"
model = "GA"
profiles = ["llama_cpp@b9518", "llama_cpp@b10587", "llama_cpp@b11549"]
"""
REQUESTS = """
[server]
parallel = 2
cache_ram = 8192
[words]
S = 40
A = 5
[[request]]
prompt = "S.A"
[[request]]
prompt = "S"
"""
EXPECT = """
[expect."llama_cpp@b9518"]
cache_n = [0, 39]
[expect."llama_cpp@b10587"]
cache_n = [0, 39]
[expect."llama_cpp@b11549"]
cache_n = [0, 39]
"""


@pytest.fixture
def examples(monkeypatch, tmp_path):
    """A function that makes the page with these files (name and text) as its scenarios, and returns its examples."""
    def made(**texts):
        for name, text in texts.items():
            Path(tmp_path, f"{name}.toml").write_text(text)
        monkeypatch.setattr(page_module, "corpus_files", lambda: {name: tmp_path / f"{name}.toml" for name in texts})
        return choices_of(make_page())["examples"]

    return made


def scenario(name, title="two </script> requests", end=EXPECT):
    return HEAD.format(id=name, title=title) + REQUESTS + end


def test_an_example_is_the_fields_of_the_page(examples):
    assert examples(one=scenario("one")) == {"one": {
        "id": "one", "title": "two </script> requests", "line": "S40.A5/S", "model": "GA", "flags": "-np 2",
        "profiles": ["llama_cpp@b9518"],
    }}  # fmt: skip


def test_a_long_title_is_cut(examples):
    assert examples(one=scenario("one", title="x" * 100))["one"]["title"] == "x" * 100
    title = examples(one=scenario("one", title="x" * 101))["one"]["title"]
    assert len(title) <= 100 and title.startswith("xxx") and title.endswith("xxx")


def test_an_example_compares_the_first_rule_set_with_the_last_that_differs(examples):
    differs = EXPECT.replace("b10587\"]\ncache_n = [0, 39]", "b10587\"]\ncache_n = [0, 38]")
    both = differs.replace("b11549\"]\ncache_n = [0, 39]", "b11549\"]\ncache_n = [0, 38]")
    broken = f"{EXPECT}broken = [1]\n"
    found = examples(**{name: scenario(name, end=end) for name, end in (
        ("middle", differs), ("both", both), ("broken", broken), ("open", ""))})  # fmt: skip
    assert {name: example["profiles"][1:] for name, example in found.items()} == {
        "middle": ["llama_cpp@b10587"], "both": ["llama_cpp@b11549"], "broken": ["llama_cpp@b11549"], "open": [],
    }  # fmt: skip


def test_scenarios_that_a_line_does_not_express_are_no_examples(examples, tmp_path):
    (tmp_path / "mine.py").write_text("")
    rules = scenario("rules").replace("id =", 'rules = ["mine.py"]\nid =')
    empty = scenario("empty").replace('prompt = "S"', 'prompt = ""')
    spelled = corpus_files()["ik-same-text-other-tokens"].read_text("utf-8")
    found = examples(rules=rules, faulty="id = 3", empty=empty, **{"ik-same-text-other-tokens": spelled},
                     plain=scenario("plain"))  # fmt: skip
    assert [*found] == ["plain"]


@pytest.mark.parametrize(("engine", "server", "text"), [
    ("llama_cpp", {}, ""), ("llama_cpp", {"parallel": 4, "cache_ram": 8192}, "-np 4"),
    ("llama_cpp", {"cache_ram": 0, "kv_unified": False}, "-no-kvu --cache-ram 0"),
    ("mlx_lm", {"template": "a plain one", "thinking": True}, "'template=a plain one' thinking=true"),
    ("mlx_lm", {"template": "chatml"}, "template=chatml"),
    ("mlx_lm", {"draft_model": "a b"}, "--draft-model a b"),
])  # fmt: skip
def test_flags_are_written_in_the_order_of_the_manual(engine, server, text):
    assert sorted(flags_text(server, engine).split(" -")) == sorted(text.split(" -"))


def test_an_engine_offers_its_rule_sets_models_fields_and_flags(choices):
    found = choices["engines"]["mlx_lm"]
    engine = ENGINES["mlx_lm"]
    newest_first = [name for name in dict.fromkeys([engine.newest, *reversed(engine.line)]) if name]
    assert found["profiles"][: len(newest_first)] == newest_first
    assert found["models"] == [*engine.manual.known, *(name for name in engine.manual.models
                                                       if name not in engine.manual.known)]  # fmt: skip
    assert found["notation"][0] == ["A5>r4", "forced answer of the model"]
    names = [name for name, _ in found["flags"]]
    assert "thinking" in names and "--draft-model" in names
    assert "-c --ctx-size" in [name for name, _ in choices["engines"]["llama_cpp"]["flags"]]
    assert choices["first"] == FIRST
    for name, one in ENGINES.items():
        offered = {text: help_text for text, help_text in choices["engines"][name]["flags"]}
        assert len(offered) == len(one.manual.flags)
        for flag in one.manual.flags:
            first, *more = flag.spellings or (flag.name,)
            assert offered[f"{first} {more[0]}" if more else first] == flag.help


def sizes(step):
    """Return the lengths of a request; its tokens have other numbers in a line than in a file."""
    return len(step.request.prompt), step.request.n_predict, step.action, step.asked


@pytest.mark.long
def test_an_example_is_its_scenario(choices):
    files = corpus_files()
    assert FIRST in choices["examples"] and len(choices["examples"]) > 0.9 * len(files)
    for name, example in choices["examples"].items():
        fields = {key: example[key] for key in ("line", "model", "flags", "profiles")}
        found, bundled = read_case(fields).scenario, load(files[name])
        assert repr(found) == repr(bundled) and found.model == bundled.model and found.engine == bundled.engine
        assert {**bundled.server, **found.server} == bundled.server, name
        assert [sizes(one) for one in found.steps] == [sizes(one) for one in bundled.steps], name
        assert len(set(example["profiles"])) == len(example["profiles"]) <= 2
