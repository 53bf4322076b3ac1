"""Tests of drawn servers: all start, and their corner cases occur."""

from __future__ import annotations

import pytest

from cachesim.engines.registry import BUILTIN, ENGINES
from cachesim.model.hash_mixing import Rng
from cachesim.scenarios.option_checks import check_model, check_option
from cachesim.tools.search.drawn_conversation import KINDS, draw_conversation, draw_server, small_models


@pytest.mark.parametrize("engine", BUILTIN)
def test_options_are_options_of_the_engine(engine):
    seen = set()
    for seed in range(300):
        world = draw_server(Rng(seed), engine)
        for name, value in world.server.items():
            check_option(name, value, engine)
            seen.add((name, value))
        check_model(world.model, engine)
        assert world.most >= 1
        assert all(edge >= 0 for edge in world.edges)
    steps = {value for name, value in seen if name in ("ubatch_size", "prefill_step_size", "max_num_batched_tokens",
                                                         "chunked_prefill_size")}
    assert len(steps) >= 3 and steps >= {"vllm": {2, 4, 64}, "sglang": set()}.get(engine, {1, 4, 64})


@pytest.mark.parametrize("engine", BUILTIN)
def test_every_model_is_drawn(engine):
    manual = ENGINES[engine].manual
    if_asked = {*manual.drawn_with_images, *manual.drawn_newest}
    drawn = {draw_server(Rng(seed), engine).model for seed in range(300)}
    assert drawn == set(small_models(manual)) - if_asked


def test_the_newest_models_are_drawn_if_asked_for():
    newest = BUILTIN["llama_cpp"].manual.drawn_newest
    assert {draw_server(Rng(seed), "llama_cpp", newest).model for seed in range(100)} == {*newest} == {*KINDS["N"]}


def test_models_with_positions_of_images_are_drawn_for_a_server_that_takes_images():
    drawn = {draw_server(Rng(seed), "llama_cpp", ("mmproj=causal",)).model for seed in range(300)}
    manual = BUILTIN["llama_cpp"].manual
    assert drawn == set(small_models(manual)) - {*manual.drawn_newest}
    assert draw_server(Rng(0), "llama_cpp", ("qwen2vl", "mmproj=gemma3")).model == "qwen2vl"


def test_every_model_has_a_kind():
    models = {model for engine in BUILTIN.values() for model in small_models(engine.manual)}
    assert models == {model for kind in KINDS.values() for model in kind}


def test_options_can_be_set_for_every_drawn_server():
    for seed in range(30):
        world = draw_server(Rng(seed), "llama_cpp", ("GA", "ctx_checkpoints=0", "kv_unified=true"))
        plain = draw_server(Rng(seed), "llama_cpp", ("GA",))
        assert world.server == {**plain.server, "ctx_checkpoints": 0, "kv_unified": True}
        assert (world.model, world.most) == (plain.model, plain.most)


def test_with_an_option_set_the_conversations_are_the_same():
    for seed in range(20):
        with_, without = (draw_conversation(seed, "llama_cpp", ("GA", *more)) for more in (("cache_ram=0",), ()))
        assert (with_.asked, with_.words) == (without.asked, without.words)
        assert dict(with_.server) == {**without.server, "cache_ram": 0}
