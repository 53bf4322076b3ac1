"""Option changes that an engine suggests, with the changes that they require."""

from __future__ import annotations

import pytest

from cachesim.engines.capabilities import Flag, ServerLoad
from cachesim.engines.registry import ENGINES
from cachesim.engines.shared.advice import (
    halved_values,
    separate_contexts,
    slot_counts,
    tries_of,
    widen_context,
)


def tries(engine, load=ServerLoad(2000, 5000, 3), **now):  # noqa: B008 - immutable
    """What is tried on a server with these options."""
    manual = ENGINES[engine].manual
    return list(manual.tries({**manual.defaults, **now}, load))


@pytest.mark.parametrize("engine", list(ENGINES))
def test_every_try_changes_an_option_of_the_server(engine):
    manual = ENGINES[engine].manual
    found = tries(engine)
    assert found
    for one in found:
        assert all(type(value) is type(manual.defaults[name]) for name, value in one.items())
        assert any(manual.defaults[name] != value for name, value in one.items())


def test_more_slots_have_room_for_the_longest_request():
    now, load = {"ctx_size": 4096, "parallel": 1}, ServerLoad(2000, 5000, 3)
    assert slot_counts(now, load) == [2, 3]
    assert separate_contexts(now, load, 2) == {"parallel": 2}
    assert separate_contexts(now, load, 3) == {"parallel": 3, "ctx_size": 3 * 2048}
    assert {"parallel": 3, "kv_unified": True, "ctx_size": 5120} in tries("llama_cpp", load, **now)
    assert slot_counts(now, ServerLoad(10, 10, 1)) == []


def test_a_context_that_is_the_model_s_has_room():
    assert widen_context({"ctx_size": 0}, 10**6) == {} == widen_context({"ctx_size": 512}, 512)
    assert widen_context({"ctx_size": 512}, 513) == {"ctx_size": 768}


def test_smaller_batches_only_where_a_prompt_fills_several():
    assert list(halved_values("n", {"n": 512}, ServerLoad(200, 200, 1))) == [{"n": 128}, {"n": 64}]
    assert list(halved_values("n", {"n": 32}, ServerLoad(200, 200, 1))) == [{"n": 16}]


@pytest.mark.parametrize("engine", list(ENGINES))
def test_a_size_has_room_for_the_load_and_never_shrinks(engine):
    manual, load = ENGINES[engine].manual, ServerLoad(2000, 5000, 3)
    for capacity in manual.capacities:
        for given in (1, 300, 10**6):
            ample = capacity.ample({**manual.defaults, capacity.name: given}, load)
            assert ample >= given or ample == manual.flag(capacity.name).open


def test_what_is_switched_off_is_switched_on_first():
    assert tries("llama_cpp", cache_prompt=False)[0] == {"cache_prompt": True}
    assert {"cache_ram": 8192} in tries("llama_cpp", cache_ram=0)
    assert {"cache_ram": -1} in tries("ik_llama", cache_ram=8192)
    assert {"draft_model": ""} in tries("mlx_lm", draft_model="A")


def test_steps_come_in_their_order_and_what_they_do_not_name_last():
    flags = [Flag("new", 0, tries=(1, 2)), Flag("a", 0, tries=(3,)), Flag("b", False, tries=(True, False))]
    steps = tries_of(flags, "b", lambda now, load: iter([{"c": load.longest}]), "a")
    now = {"new": 2, "a": 0, "b": True, "c": 0}
    assert list(steps(now, ServerLoad(7, 7, 1))) == [{"b": False}, {"c": 7}, {"a": 3}, {"new": 1}]
