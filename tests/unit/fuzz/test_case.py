"""Is a drawn conversation the same for a seed, valid, and the same again from a file?"""

from __future__ import annotations

from dataclasses import replace

import pytest

from cachesim.errors import BadInput
from cachesim.fuzz.case import Case, draw_case, longest, merged, renamed, unmarked
from cachesim.fuzz.found import case_id, case_toml
from cachesim.fuzz.properties import Finding
from cachesim.fuzz.worlds import KINDS, MODELS
from cachesim.scenarios.load import load
from cachesim.scenarios.options import filled
from cachesim.scenarios.steps import Asked
from cachesim.scenarios.words import parse_pieces

PROFILE = {"llama_cpp": "llama_cpp@head", "ik_llama": "ik_llama@main", "mlx_lm": "mlx_lm@0.32.2"}
SEEDS = range(300)


def made(engine, words, *prompts, server=(), model="A"):
    """A case from prompts as they are written."""
    asked = tuple(Asked(parse_pieces(prompt)) for prompt in prompts)
    return Case(engine, model, filled(dict(server), engine), words, asked, 0)


@pytest.mark.parametrize("engine", MODELS)
def test_a_seed_is_one_conversation(engine):
    assert [draw_case(seed, engine) for seed in SEEDS] == [draw_case(seed, engine) for seed in SEEDS]
    assert len({repr(draw_case(seed, engine)) for seed in SEEDS}) > len(SEEDS) - 5


@pytest.mark.parametrize("engine", MODELS)
def test_what_is_drawn_can_be_played_and_written(engine, tmp_path):
    """Nearly all: a template may refuse a chat, and a server a pair of options."""
    refused = 0
    for seed in SEEDS:
        case = draw_case(seed, engine)
        try:
            scenario = case.scenario(PROFILE[engine])
        except BadInput:
            refused += 1
            continue
        finding = Finding("limits", 0, "R", "text")
        file = tmp_path / f"{case_id(case, PROFILE[engine], finding)}.toml"
        file.write_text(case_toml(case, PROFILE[engine], finding))
        again = load(file)
        assert [step.request for step in again.steps] == [step.request for step in scenario.steps]
        assert [(step.action, step.drafts, step.together, step.after) for step in again.steps] == [
            (step.action, step.drafts, step.together, step.after) for step in scenario.steps
        ]
        assert (again.model, dict(again.server)) == (scenario.model, dict(scenario.server))
        assert repr(again) == repr(scenario)
    assert refused < 12


def test_models_narrow_the_choice():
    for kind in KINDS.values():
        models = tuple(name for name in kind if name in MODELS["llama_cpp"])
        if models:
            assert {draw_case(seed, "llama_cpp", models).model for seed in range(40)} == set(models)


def test_words_are_renamed_in_the_order_of_their_use():
    case = made("llama_cpp", {"q": 3, "B": 5, "unused": 9}, "B.q", "q.B[:2]")
    again = renamed(case)
    assert repr(again.scenario("llama_cpp@head")) == "A5.B3/B.A[:2]"
    assert dict(again.words) == {"A": 5, "B": 3}


@pytest.mark.parametrize(("prompts", "left"), [
    (("A.B.C", "A.B"), "A7.C2/A"),                  # C comes behind B once only
    (("A.B.C", "A.B.C"), "A9/A"),
    (("A.|B", "A.|B"), "A4.|B3/A.|B"),              # a mark stands between them
    (("A.B", "B"), "A4.B3/B"),
    (("A.B[:2]", "A.B"), "A4.B3[:2]/A.B"),
    (("A.A", "A"), "A4.A/A"),
])
def test_words_that_only_come_together_are_made_one(prompts, left):
    case = merged(made("llama_cpp", {"A": 4, "B": 3, "C": 2}, *prompts))
    assert repr(case.scenario("llama_cpp@head")) == left


def test_marks_can_go():
    case = unmarked(made("llama_cpp", {"A": 4, "B": 3}, "|A.|B", "A"))
    assert repr(case.scenario("llama_cpp@head")) == "A4.B3/A"


def test_the_word_that_opens_a_thought_keeps_its_name():
    case = replace(made("mlx_lm", {"x": 2, "THINK": 1}, "THINK.x"))
    assert dict(renamed(case).words) == {"THINK": 1, "A": 2}


def test_the_longest_request_counts_what_is_sent():
    assert longest(made("llama_cpp", {"A": 5, "b": 7}, "A[:2].b", "A")) == 9
    assert longest(made("llama_cpp", {})) == 0


def test_options_given_are_those_that_are_no_defaults():
    assert made("llama_cpp", {"A": 1}, "A", server={"ubatch_size": 4}).given() == {"ubatch_size": 4}
    assert made("llama_cpp", {"A": 1}, "A").given() == {}
