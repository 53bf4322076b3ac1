"""Tests of drawn servers for real builds."""

from __future__ import annotations

import pytest

from cachesim.base.errors import BadInput
from cachesim.engines.capabilities import DrawnServer
from cachesim.tools.live.llama_server.real import drawn_servers
from cachesim.tools.live.llama_server.real.drawn_servers import ALSO, SPREAD, drawn_models, option_set


def test_models_without_a_file_are_left_out_and_refused_if_none_is_left():
    drawn = {option_set(0, number, ("I8", "AA", "ctx_size=512")).world.model for number in range(8)}
    assert drawn == {"AA"} and "I8" not in ALSO
    with pytest.raises(BadInput, match="--real: no model file is written for layers I8, W8 I8") as bad:
        option_set(0, 0, ("I8", "W8 I8", "ctx_size=512"))
    assert "--gguf FILE" in bad.value.hint


class Choices:
    """Random numbers that are given: the elements that are chosen, and the answer to every chance."""

    def __init__(self, *chosen, chance=False):
        self.chosen, self.is_chance, self.seen = list(chosen), chance, []

    def one(self, of):
        self.seen.append(of)
        return self.chosen.pop(0)

    def chance(self, percent):
        self.seen.append(percent)
        return self.is_chance


@pytest.fixture
def drawn(monkeypatch):
    """Return a function that draws an option set from a world, with choices that are given."""

    def draw(server, choices, model="GGGA"):
        world = DrawnServer("llama_cpp", model, server, (), 64)
        monkeypatch.setattr(drawn_servers, "Rng", lambda seed, purpose: choices)
        monkeypatch.setattr(drawn_servers, "draw_server", lambda rng, engine, models: world)
        return option_set(3, 4)

    return draw


def test_a_server_without_slots_may_have_the_usual_four(drawn):
    choices = Choices("qwen35-GGGA", chance=True)
    found = drawn({"ctx_size": 64}, choices)
    assert choices.seen == [("GGGA", "qwen35-GGGA"), 8]
    assert (found.number, found.seed, found.model) == (4, 3, "qwen35-GGGA")
    assert found.server == found.world.server == {"ctx_size": 64, "parallel": -1}
    assert drawn({"ctx_size": 64}, Choices("GGGA")).server == {"ctx_size": 64}
    assert drawn({"parallel": 2}, Choices("GGGA", chance=True)).server == {"parallel": 2}


@pytest.mark.parametrize(("chosen", "model", "server"), [
    (["ngram-simple"], "GGGA", {"spec_type": "ngram-simple"}),
    (["draft-simple", "S"], "GGGA", {"spec_type": "draft-simple", "model_draft": "S"}),
    (["draft-mtp", "GA+M"], "GA+M", {"spec_type": "draft-mtp"}),
])  # fmt: skip
def test_a_server_that_drafts_has_a_drafter_that_llama_cpp_knows(drawn, chosen, model, server):
    found = drawn({"spec_type": "drawn", "parallel": 1}, Choices("GGGA", *chosen))
    assert (found.model, found.server) == (model, {"parallel": 1, **server})
    assert found.world.server == found.server and found.world.model == "GGGA"


def test_a_conversation_has_the_model_and_the_options_of_its_server():
    found = option_set(2, 7, ("GGGA",))
    case = found.case(5)
    assert (case.model, case.server) == (found.model, found.server)
    assert found._replace(model="qwen35-GGGA").case(5).model == "qwen35-GGGA" != found.world.model
    assert case.seed == (2 * SPREAD + 7) * SPREAD + 5
    assert repr(case) == repr(option_set(2, 7, ("GGGA",)).case(5)) != repr(found.case(6))


def test_options_of_the_user_hold_for_every_server():
    assert {option_set(0, number, ("ctx_size=512",)).server["ctx_size"] for number in range(4)} == {512}


def test_the_models_that_are_started_are_listed_once_in_order():
    every = {model for models in ALSO.values() for model in models}
    assert drawn_models() == sorted(every | {"A", "S", "GGGA+M", "GA+M"})


def test_another_seed_draws_other_servers():
    drawn = [[option_set(seed, number)[3:] for number in range(6)] for seed in (1, 2, 3)]
    assert drawn[0] != drawn[1] != drawn[2] != drawn[0]
