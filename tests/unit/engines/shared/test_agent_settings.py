"""Tests of the division of a memory among slots, checkpoints and the prompt cache."""

from itertools import groupby

import pytest

from cachesim.engines.registry import engine_of, rules_of
from cachesim.engines.shared.agent_settings import PAGE, context_needed, divided
from cachesim.engines.shared.memory_use import MemoryPart, MemoryQuestion, MemoryUse
from cachesim.engines.shared.model_sizes import real_model
from cachesim.scenarios.option_checks import in_force

GIB = 1 << 30
PROFILES = ("llama_cpp@b11549", "ik_llama@main")


def asked(profile, model, gib, tokens=100_000):
    forms = engine_of(profile).memory()
    options = {**{flag.name: flag.default for flag in forms.flags}, **in_force({}, profile)}
    return forms, MemoryQuestion(real_model(model), options, rules_of(profile), int(gib * GIB), tokens)


def total(forms, ask, found):
    return forms.use(ask._replace(options={**ask.options, **found})).total


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize(("model", "gib"), [("llama-3", 16), ("gpt-oss", 6), ("qwen3-next", 16), ("qwen3-next", 128)])
def test_a_context_is_the_one_that_is_needed_or_the_largest_that_fits(profile, model, gib):
    forms, ask = asked(profile, model, gib)
    found = list(forms.agents.settings(ask, 3))
    assert len({str(one) for one in found}) == len(found)
    for one in found:
        if total(forms, ask, one) <= ask.room:
            more = {**one, "ctx_size": one["ctx_size"] + PAGE}
            assert one["ctx_size"] == context_needed(ask) * one["parallel"] or total(forms, ask, more) > ask.room
        else:
            assert one["cache_ram"] == 0 and one["ctx_size"] == 4096 * one["parallel"]


@pytest.mark.parametrize(("model", "options"), [("llama-3", {}), ("qwen3-next", {"ctx_checkpoints": 8}),
                                                ("gpt-oss", {"swa_full": True})])  # fmt: skip
def test_only_what_the_layers_allow_is_tried(model, options):
    forms, ask = asked(PROFILES[0], model, 64)
    found = list(forms.agents.settings(ask, 2))
    names = {name for one in found for name in one}
    assert names - {"parallel", "kv_unified", "ctx_size", "cache_ram"} == (
        {"ctx_checkpoints", "swa_full"} if model == "gpt-oss" else {*options})
    assert not options or any(one.items() >= options.items() for one in found)
    slots = [(one["parallel"], one.get("kv_unified")) for one in found]
    assert [key for key, _ in groupby(slots)] == [(1, None), (2, False), (2, True)]


@pytest.mark.parametrize(("room", "clients", "found"), [
    (500, 1, [(4096, 0)]), (2560, 1, [(8192, 0), (8192, 512), (7168, 768)]), (1536, 1, [(6144, 0), (5120, 256)]),
    (2300, 1, [(8192, 0), (7936, 256), (6912, 512)]),
    (3500, 1, [(8192, 0), (8192, 1280)]), (9000, 1, [(8192, 0), (8192, 1792)]), (9000, 2, [(8192, 0), (8192, 3328)]),
])  # fmt: skip
def test_a_memory_is_divided_between_the_context_and_the_prompt_cache(room, clients, found):
    """4096 tokens take a GiB, as a prompt cache of 1024 MiB does; a conversation in the prompt cache 800 MiB."""
    def use(ask):
        context, cache = ask.options["ctx_size"] // 4, ask.options["cache_ram"]
        return MemoryUse(0, 0, 0, 0, (MemoryPart("rows", (context + (800 if cache < 0 else cache)) << 20, 1, ""),))

    _, ask = asked(PROFILES[0], "llama-3", room / 1024, tokens=7000)
    settings = [*divided(use, ask, {"parallel": 1}, 1, clients)]
    assert [(one["ctx_size"], one["cache_ram"]) for one in settings] == found
    assert all(one["parallel"] == 1 for one in settings)


def test_a_large_memory_is_not_filled():
    forms, ask = asked(PROFILES[0], "qwen3-next", 1024)
    largest = max(total(forms, ask, one) for one in forms.agents.settings(ask, 2))
    assert largest < 64 * GIB
    assert [*forms.agents.settings(ask, 2)] == [*forms.agents.settings(ask._replace(room=2048 * GIB), 2)]


def test_a_context_is_at_most_that_of_the_model():
    assert context_needed(asked(PROFILES[0], "qwen3", 8)[1]) == 40960
    assert context_needed(asked(PROFILES[0], "qwen3", 8, tokens=1000)[1]) == 2048


def test_running_conversations_leave_the_rest_to_stored_ones():
    forms, ask = asked("mlx_lm@0.32.2", "qwen3-next", 16)
    for one in forms.agents.settings(ask, 2):
        assert total(forms, ask, one) <= ask.room
    forms, ask = asked("mlx_lm@0.32.2", "llama-3", 16)
    fits = [one["decode_concurrency"] for one in forms.agents.settings(ask, 2) if total(forms, ask, one) <= ask.room]
    assert set(fits) == {1}


@pytest.mark.parametrize(("profile", "model", "number"), [
    ("vllm@0.33.0", "llama-3", 3), ("vllm@0.33.0", "gpt-oss", 6), ("sglang@0.5.23", "llama-3", 1),
    ("sglang@0.5.23", "gpt-oss", 2), ("sglang@0.5.23", "qwen3-next", 6),
])  # fmt: skip
def test_a_pool_fills_the_memory(profile, model, number):
    forms, ask = asked(profile, model, 8)
    found = list(forms.agents.settings(ask, 2))
    assert len(found) == number and {*forms.agents.filled} & {*found[0]}
    for one in found:
        use = forms.use(ask._replace(room=0, options={**ask.options, **one}))
        assert ask.room * 0.98 < use.total <= ask.room


@pytest.mark.parametrize(("clients", "slots"), [(1, [1]), (2, [1, 2]), (5, [1, 5, 2])])
def test_a_server_has_a_slot_one_for_each_client_or_two(clients, slots):
    forms, ask = asked(PROFILES[1], "llama-3", 64)
    found = [one["parallel"] for one in forms.agents.settings(ask, clients)]
    assert [*dict.fromkeys(found)] == slots
