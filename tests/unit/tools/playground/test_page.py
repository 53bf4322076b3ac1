"""Tests of the playground's page: its choices, and that examples are the bundled scenarios."""

from __future__ import annotations

import json
import re

import pytest

from cachesim.engines.registry import ENGINES, profiles
from cachesim.scenarios.corpus import corpus_files
from cachesim.scenarios.load import load
from cachesim.tools.playground.case import read_case, read_flags
from cachesim.tools.playground.page import flags_text, make_page


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


def test_an_example_is_the_fields_of_the_page(choices):
    assert choices["examples"]["llama-24143-entry-removed-hybrid"] == {
        "id": "llama-24143-entry-removed-hybrid", "symptom": "lost-conversation", "model": "GGGA",
        "line": "S40.A60>r4/B70>4/S.C25>4/S.A.D12>4",
        "title": "prompt cache entry removed by a hit that cannot use it: hybrid model",
        "flags": "-c 1024 -b 64 -ub 16 -np 1 --cache-ram 100 -sps 0.0 --no-cache-idle-slots",
        "profiles": ["llama_cpp@b9518", "llama_cpp@pr24143-on-b10587"],
    }  # fmt: skip


def test_a_long_title_is_cut(choices):
    titles = {name: one["title"] for name, one in choices["examples"].items()}
    assert max(map(len, titles.values())) == 100
    assert titles["sglang-declined-load-has-no-state"].startswith("a load") and "state" in titles[
        "sglang-declined-load-has-no-state"][-9:]  # fmt: skip


@pytest.mark.parametrize(("name", "profiles"), [
    ("llama-24110-extension-re-evaluated-hybrid", ["llama_cpp@b9231", "llama_cpp@b11549"]),
    ("llama-one-token-checkpoint-hybrid", ["llama_cpp@b10587", "llama_cpp@24035-v3"]),
    ("ik-image-at-prompt-end", 1),
])  # fmt: skip
def test_an_example_compares_the_first_rule_set_with_the_last_that_differs(choices, name, profiles):
    found = choices["examples"][name]["profiles"]
    assert found == profiles or len(found) == profiles


def test_scenarios_that_a_line_does_not_express_are_no_examples(choices):
    left_out = corpus_files().keys() - choices["examples"].keys()
    assert {"ik-same-text-other-tokens", "ik-empty-prompt"} <= left_out and len(left_out) < 20


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
    for name, one in ENGINES.items():
        offered = {text: help_text for text, help_text in choices["engines"][name]["flags"]}
        assert len(offered) == len(one.manual.flags)
        for flag in one.manual.flags:
            first, *more = flag.spellings or (flag.name,)
            assert offered[f"{first} {more[0]}" if more else first] == flag.help


def test_the_page_opens_with_the_newest_build_of_every_engine(choices):
    newest = [one["profiles"][0] for one in choices["engines"].values()]
    assert choices["first"]["profiles"] == newest
    assert read_case(choices["first"]).profiles == tuple(newest)


def test_what_if_offers_flags_that_their_engine_takes(choices):
    for one in choices["engines"].values():
        assert one["what_if"]
        for text in one["what_if"]:
            assert read_flags(text, one["profiles"][0]).settings, text


def sizes(step):
    """Return the lengths of a request; its tokens have other numbers in a line than in a file."""
    return len(step.request.prompt), step.request.n_predict, step.action, step.asked


@pytest.mark.long
def test_an_example_is_its_scenario(choices):
    files = corpus_files()
    assert len(choices["examples"]) > 0.9 * len(files)
    for name, example in choices["examples"].items():
        fields = {key: example[key] for key in ("line", "model", "flags", "profiles")}
        found, bundled = read_case(fields).scenario, load(files[name])
        assert repr(found) == repr(bundled) and found.model == bundled.model and found.engine == bundled.engine
        assert {**bundled.server, **found.server} == bundled.server, name
        assert [sizes(one) for one in found.steps] == [sizes(one) for one in bundled.steps], name
        assert len(set(example["profiles"])) == len(example["profiles"]) <= 2
