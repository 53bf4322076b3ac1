"""Tests of drawn conversations: determined by the seed, valid, and unchanged after a round trip through a file."""

from __future__ import annotations

import pytest

from cachesim.base.errors import BadInput
from cachesim.engines.capabilities import DrawnServer
from cachesim.engines.registry import BUILTIN, ENGINES
from cachesim.model.hash_mixing import Rng
from cachesim.scenarios.load import load
from cachesim.scenarios.notation.parse import parse_text
from cachesim.scenarios.notation.tree import PLAIN, Action, LineRequest, Piece
from cachesim.scenarios.option_checks import spoken
from cachesim.tools.search.campaign_folder import case_id, case_toml
from cachesim.tools.search.client_model import ClientExchange, Clients
from cachesim.tools.search.drawn_conversation import (
    KINDS,
    DrawnConversation,
    _Drawer,
    draw_conversation,
    draw_conversation_for,
    longest,
    small_models,
)
from cachesim.tools.search.property_failure import PropertyFailure
from tests.unit.tools.search import drawn_conversations
from tests.unit.tools.search.given_numbers import Given

PROFILE = {"llama_cpp": "llama_cpp@b10587", "ik_llama": "ik_llama@main", "mlx_lm": "mlx_lm@0.32.2",
           "vllm": "vllm@0.33.0", "sglang": "sglang@0.5.23"}  # fmt: skip
SEEDS = range(300)


def made(engine, words, *prompts, server=(), model="A"):
    """Return a conversation from prompts in the notation."""
    asked = tuple(LineRequest(parse_text(prompt)) for prompt in prompts)
    return DrawnConversation(engine, model, dict(server), words, asked, 0)


@pytest.mark.parametrize("engine", BUILTIN)
def test_a_seed_is_one_conversation(engine):
    assert [draw_conversation(seed, engine) for seed in SEEDS] == [draw_conversation(seed, engine) for seed in SEEDS]
    assert len({repr(draw_conversation(seed, engine)) for seed in SEEDS}) > len(SEEDS) - 5


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


@pytest.mark.parametrize(("server", "extra", "is_repeated"), [
    ({"lora_scaled": "1,1"}, (("lora", "0:7"),), True), ({"lora_scaled": "1,1"}, (), False),
    ({}, (("lora", "0:7"),), False)])  # fmt: skip
def test_a_request_often_has_the_adapters_of_the_request_before(server, extra, is_repeated):
    world = DrawnServer("llama_cpp", "A", server, (8, 64), 100)
    drawer, before = _Drawer(Rng(0), world, Clients(Rng(1), world)), [PLAIN._replace(extra=extra), Action("restart")]
    again = [drawer._fields(before).get("extra") == (("lora", "0:7"),) for _ in range(200)]
    assert sum(again) > 50 if is_repeated else not any(again)


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


def drawer(engine="llama_cpp", server=(), images=(), **given):
    """Return a generator of requests that draws the given numbers."""
    slots = {"parallel": 3} if ENGINES[engine].manual.slots else {}
    options = {**ENGINES[engine].manual.defaults, **slots, **dict(server)}
    world = DrawnServer(engine, "A", options, (8, 64), 100, images=images)
    rng = Given(**given)
    return _Drawer(rng, world, Clients(rng, world, {"S": 4}))


@pytest.mark.parametrize(("engine", "server", "images", "percents"), [
    ("llama_cpp", {}, (), [7]), ("llama_cpp", {"lora_scaled": "1,1"}, (), [20]), ("llama_cpp", {}, ("4x2",), [20]),
    ("vllm", {}, (), []),
])  # fmt: skip
def test_steps_that_are_not_requests_are_drawn_after_the_first(engine, server, images, percents):
    found = drawer(engine, server, images, choice=0)
    found._request = lambda before: f"request {len(before)}"
    assert (found.all(), found.rng.percents) == (["request 0", "request 1"], percents)
    assert found.rng.choices == [(2, 3, 4, 5, 6, 6, 7, 8, 9)]


@pytest.mark.parametrize(("choice", "saved", "step", "left"), [
    (0, 0, Action("save", 2, "fa"), 1), (0, 27, Action("save", 2, "fb"), 28), (1, 0, Action("save", 2, "fa"), 1),
    (1, 3, Action("restore", 2, "fc"), 3), (2, 1, Action("erase", 2), 1), (3, 1, Action("restart"), 1),
])  # fmt: skip
def test_an_action_is_on_a_slot_and_a_file_that_was_saved(choice, saved, step, left):
    found = drawer(choice=choice, end=1)
    found.saved = saved
    assert (found._action(), found.saved) == (step, left)
    assert found.rng.choices == [("save", "restore", "erase", "restart", "save")] and found.rng.percents == []


def test_half_of_the_actions_of_a_server_with_adapters_set_scales():
    found = drawer(server={"lora_scaled": "1,1"}, answers=[True], choice=0)
    scales = found.manual.adapter_lists(found.world.server)
    assert (found._action(), found.rng.percents) == (Action("lora", scales=scales[0]), [50])
    found = drawer(server={"lora_scaled": "1,1"}, choice=-1)
    assert found._action().do == "save" and found.rng.choices[-1][-3:] == ("restore",) * 3


@pytest.mark.parametrize(("moves", "is_burst", "texts"), [
    (range(30), False, "new"), (range(30, 60), False, "s:S+u:x+a:r+u:y"), (range(60, 82), False, "s:S+u:y"),
    (range(82, 88), False, "s:S+u:x+t:y"), (range(88, 100), False, "s:S+u:x"), (range(99, 100), True, "new"),
])  # fmt: skip
def test_each_move_in_a_chat_has_its_share(moves, is_burst, texts):
    old = (("system", (Piece("S"),)), ("user", (Piece("x"),)))
    for move in moves:
        found = drawer("mlx_lm", move=move, answers=[True] * 4, choice=0)
        found.clients.remember(ClientExchange((Piece("S"), Piece("x")), (Piece("r"),), old))
        found._user = lambda: (Piece("y"),)
        chat = found._chat(found.manual.chats, is_burst)
        if texts == "new":
            assert chat == (("system", (Piece("S"),)), ("user", (Piece("y"),)))
            assert found.rng.percents == [30] * is_burst + [50, 80]
        else:
            assert "+".join(f"{role[0]}:{pieces[0].word}" for role, pieces in chat) == texts
            assert found.rng.percents == []


@pytest.mark.parametrize(("before", "engine", "percents"), [
    ([], "llama_cpp", [6]), ([PLAIN], "llama_cpp", [18, 6]), ([Action("restart")], "llama_cpp", [6]),
    ([], "mlx_lm", [65, 6]), ([PLAIN], "mlx_lm", [45, 65, 6]), ([PLAIN], "vllm", [45, 6, 40, 40]),
])  # fmt: skip
def test_a_request_joins_the_one_before_and_is_cancelled_with_its_shares(before, engine, percents):
    found = drawer(engine)
    found.clients.prompt, found._fields = lambda: (Piece("S"),), lambda before: {}
    found._request(before)
    assert found.rng.percents[: len(percents)] == percents
    joins = drawer(engine, answers=[True, *[False] * (engine == "mlx_lm"), True], choice=-1)
    joins.clients.prompt, joins._fields = lambda: (Piece("S"),), lambda before: {}
    step = joins._request([PLAIN])
    assert (step.together, step.after, step.cancel_after) == (True, 4, joins.clients.size(step.answer) - 1)
    assert joins.rng.choices[-1] == (0, 0, 0, 1, 2, 4)


def test_a_conversation_with_a_given_server_is_drawn_from_its_seed():
    world = DrawnServer("llama_cpp", "A", {"parallel": 2}, (8, 64), 100)
    first, again, other = (draw_conversation_for(world, seed) for seed in (7, 7, 8))
    assert first == again and (first.engine, first.model, first.server, first.seed) == (
        "llama_cpp", "A", {"parallel": 2}, 7)  # fmt: skip
    assert first.asked and first.asked != other.asked
