"""Tests of drawn conversations: determined by the seed, valid, and unchanged after a round trip through a file."""

from __future__ import annotations

import pytest

from cachesim.base.errors import BadInput
from cachesim.engines.capabilities import DrawnServer
from cachesim.engines.registry import BUILTIN
from cachesim.scenarios.load import load
from cachesim.scenarios.notation.parse import parse_text
from cachesim.scenarios.notation.tree import Action, LineRequest, Piece
from cachesim.scenarios.option_checks import spoken
from cachesim.tools.search.campaign_folder import case_id, case_toml
from cachesim.tools.search.drawn_conversation import (
    KINDS,
    DrawnConversation,
    draw_conversation,
    draw_conversation_for,
    longest,
    small_models,
)
from cachesim.tools.search.property_failure import PropertyFailure
from tests.unit.tools.search import drawn_conversations

PROFILE = {"llama_cpp": "llama_cpp@b10587", "ik_llama": "ik_llama@main", "mlx_lm": "mlx_lm@0.32.2",
           "vllm": "vllm@0.33.0", "sglang": "sglang@0.5.23"}  # fmt: skip
SEEDS = range(60)


def made(engine, words, *prompts, server=(), model="A"):
    """Return a conversation from prompts in the notation."""
    asked = tuple(LineRequest(parse_text(prompt)) for prompt in prompts)
    return DrawnConversation(engine, model, dict(server), words, asked, 0)


@pytest.mark.parametrize("engine", BUILTIN)
def test_a_seed_is_one_conversation(engine):
    assert [draw_conversation(seed, engine) for seed in SEEDS] == [draw_conversation(seed, engine) for seed in SEEDS]
    assert len({repr(draw_conversation(seed, engine)) for seed in SEEDS}) > len(SEEDS) - 3


@pytest.mark.long
@pytest.mark.parametrize("engine", BUILTIN)
def test_what_is_drawn_can_be_played_and_written(engine, tmp_path):
    """A few may fail: a template may refuse a chat, and a server a pair of options."""
    refused = 0
    for seed in SEEDS:
        case = draw_conversation(seed, engine)
        try:
            scenario = case.scenario(PROFILE[engine])
        except BadInput:
            refused += 1
            continue
        finding = PropertyFailure("limits", 0, "R", {"error": "text"}, "R")
        file = tmp_path / f"{case_id(case, PROFILE[engine], finding)}.toml"
        file.write_text(case_toml(case, PROFILE[engine], finding))
        again = load(file)
        assert [step.request for step in again.steps] == [step.request for step in scenario.steps]
        assert [(step.action, step.drafts, step.together, step.after) for step in again.steps] == [
            (step.action, step.drafts, step.together, step.after) for step in scenario.steps
        ]
        assert (again.model, dict(again.server)) == (scenario.model, spoken(scenario.server, engine))
        assert repr(again) == repr(scenario)
    assert refused < 12


def test_models_narrow_the_choice():
    for kind in KINDS.values():
        models = tuple(name for name in kind if name in small_models(BUILTIN["llama_cpp"].manual))
        if models:
            assert {draw_conversation(seed, "llama_cpp", models).model for seed in range(40)} == set(models)


def test_the_longest_request_counts_what_is_sent():
    assert longest(made("llama_cpp", {"A": 5, "b": 7}, "A[:2].b", "A")) == 9
    assert longest(made("llama_cpp", {})) == 0


def test_options_given_are_those_that_are_no_defaults():
    server = {"ubatch_size": 4, "batch_size": 2048}
    assert made("llama_cpp", {"A": 1}, "A", server=server).given() == {"ubatch_size": 4}
    assert made("llama_cpp", {"A": 1}, "A").given() == {}


def test_another_engine_runs_a_conversation_with_its_own_options():
    case = made("ik_llama", {"A": 12, "B": 0}, "A", server={"ctx_size": 256})
    own, other = case.scenario("ik_llama@main"), case.scenario("mlx_lm@0.32.2")
    assert (own.engine, own.server, own.profiles) == ("ik_llama", {"ctx_size": 256}, ("ik_llama@main",))
    assert (other.engine, other.server, other.profiles) == ("mlx_lm", {}, ("mlx_lm@0.32.2",))
    assert own.words == other.words == {"A": 12} and own.steps[0].request.prompt == other.steps[0].request.prompt


def test_a_seed_stays_the_conversation_of_the_file():
    assert [*drawn_conversations.lines()] == drawn_conversations.FILE.read_text("utf-8").splitlines()


def test_a_slice_beyond_its_word_is_no_scenario():
    assert made("llama_cpp", {"A": 9}, "A", "A[3:9]").scenario("llama_cpp@b10587").words == {"A": 9}
    with pytest.raises(BadInput):
        made("llama_cpp", {"A": 5}, "A", "A[3:9]").scenario("llama_cpp@b10587")


def test_a_request_that_contradicts_itself_is_no_scenario():
    answer = (Piece("A", stop=2),)
    for step, good in ((LineRequest((Piece("A"),), answer, n_predict=2), True),
                       (LineRequest((Piece("A"),), answer, n_predict=3), False),
                       (LineRequest((Piece("A"),), answer, cancel_after=2), False)):  # fmt: skip
        case = DrawnConversation("llama_cpp", "A", {}, {"A": 5}, (step, Action("restart")), 0)
        if good:
            assert len(case.scenario("llama_cpp@b10587").steps) == 2
        else:
            with pytest.raises(BadInput):
                case.scenario("llama_cpp@b10587")


def test_a_conversation_with_a_given_server_is_drawn_from_its_seed():
    world = DrawnServer("llama_cpp", "A", {"parallel": 2}, (8, 64), 100)
    first, again, other = (draw_conversation_for(world, seed) for seed in (7, 7, 8))
    assert first == again and (first.engine, first.model, first.server, first.seed) == (
        "llama_cpp", "A", {"parallel": 2}, 7)  # fmt: skip
    assert first.asked and first.asked != other.asked
