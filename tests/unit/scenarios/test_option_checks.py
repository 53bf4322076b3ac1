"""Tests of the checks of options: only options of the named engine are valid."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cachesim.base.errors import BadInput
from cachesim.engines.registry import ENGINES, profiles
from cachesim.engines.shared.known_models import MODELS, OLDER
from cachesim.scenarios.from_notation import from_line
from cachesim.scenarios.option_checks import (
    check_has,
    check_model,
    check_option,
    check_profile,
    filled,
    in_force,
    known_models,
    manual_of,
    missing_part,
    model_named,
    spoken,
)


@pytest.mark.parametrize("engine", ENGINES)
def test_every_engine_has_its_own_options(engine):
    assert filled({}, engine) == ENGINES[engine].manual.defaults
    for name, value in filled({}, engine).items():
        assert check_option(name, value, engine) == value


def test_a_version_has_its_own_defaults():
    new, old = (in_force({"batch_size": 64}, f"llama_cpp@{name}") for name in ("b11549", "b6160"))
    assert [new[name] for name in ("ctx_size", "ctx_checkpoints", "batch_size")] == [0, 32, 64]
    assert [old[name] for name in ("ctx_size", "ctx_checkpoints", "batch_size")] == [4096, 3, 64]
    assert in_force({"ctx_checkpoints": 32}, "llama_cpp@b6160")["ctx_checkpoints"] == 32


def test_what_every_version_does_by_itself_need_not_be_said():
    """Not every version starts with 32 checkpoints."""
    given = {"batch_size": 2048, "ubatch_size": 16, "ctx_checkpoints": 32}
    assert spoken(given, "llama_cpp") == {"ubatch_size": 16, "ctx_checkpoints": 32}


@pytest.mark.parametrize("engine", ENGINES)
def test_a_model_has_one_window(engine):
    """A server's window cache has a single size; so do mlx-lm's masks."""
    check_model("W8 A W8", engine)
    with pytest.raises(BadInput, match="windows of different sizes"):
        check_model("W88 W8 A", engine)


def test_an_unknown_engine_has_no_options():
    for ask in (lambda: check_option("ctx_size", 256, "triton"), lambda: filled({}, "triton")):
        with pytest.raises(BadInput, match="unknown engine 'triton'"):
            ask()


@pytest.mark.parametrize(
    ("profiles", "told"),
    [
        (("triton@v1",), "unknown engine 'triton'"),
        (("llama_cpp",), "'llama_cpp' is not a profile of the engine 'llama_cpp'"),
        (("llama_cpp@b10587", "ik_llama@main"), "'ik_llama@main' is not a profile of the engine 'llama_cpp'"),
    ],
)
def test_a_line_is_for_versions_of_one_engine_that_exists(profiles, told):
    with pytest.raises(BadInput, match=told):
        from_line("S4", profiles=profiles)


@pytest.mark.parametrize("engine", list(ENGINES))
def test_a_known_model_has_layers_of_kinds_that_the_engine_has(engine):
    known = known_models(ENGINES[engine].manual)
    assert known
    for model in known.values():
        check_model(model.layers, engine)


@pytest.mark.parametrize(("refused", "left"), [
    ("", {"gpt-oss", "llama-3", "qwen3-next"}), ("W", {"llama-3", "qwen3-next"}), ("GW", {"llama-3"}), ("A", set()),
])  # fmt: skip
def test_a_model_with_a_refused_kind_is_not_known(refused, left):
    manual = replace(ENGINES["llama_cpp"].manual, refused=frozenset(refused))
    assert known_models(manual).keys() & {"gpt-oss", "llama-3", "qwen3-next"} == left


KNOWN = frozenset(profiles())


@pytest.mark.parametrize("profile, engine, known", [
    ("llama_cpp@b11549", "llama_cpp", KNOWN), ("llama_cpp@mine", "llama_cpp", None),
    ("llama_cpp@b9070", "llama_cpp", KNOWN),         # a build between two rule sets, with rules of its own
])  # fmt: skip
def test_profiles_of_an_engine_are_recorded_or_builds_with_rules_of_their_own(profile, engine, known):
    check_profile(profile, engine, known)


@pytest.mark.parametrize("profile, engine, known, cause, hint", [
    ("llama_cpp@b10588", "llama_cpp", KNOWN, "unknown profile 'llama_cpp@b10588'", "llama_cpp@b10587"),
    ("llama_cpp@latest", "llama_cpp", KNOWN, "unknown profile 'llama_cpp@latest'", "the build is llama_cpp@b11549"),
    ("sglang@0.5.22", "sglang", KNOWN, "unknown profile 'sglang@0.5.22'", "did you mean 'sglang@0.5.23'?"),
    ("ik_llama@mine", "llama_cpp", None, "profile 'ik_llama@mine' is not a profile of the engine 'llama_cpp'", ""),
    ("llama_cpp", "llama_cpp", None, "profile 'llama_cpp' is not a profile of the engine 'llama_cpp'", ""),
    ("ik_llama@main", "llama_cpp", KNOWN, "profile 'ik_llama@main' is not a profile of the engine 'llama_cpp'", ""),
])  # fmt: skip
def test_an_unknown_profile_is_refused_with_the_name_that_is_known(profile, engine, known, cause, hint):
    with pytest.raises(BadInput) as bad:
        check_profile(profile, engine, known)
    assert (bad.value.cause, bad.value.hint) == (cause, hint)


NEWEST = {"deepseek-v3.2": "attention to the best rows", "deepseek-v4": "window and compressed rows",
          "minimax-m3": "attention to the best blocks of 16 rows",
          "qwen3.8-flash-next": "attention to the best pools of 4 rows"}  # fmt: skip


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
@pytest.mark.parametrize("model", NEWEST)
def test_a_model_whose_rows_only_llama_cpp_has_is_refused_with_the_reason(engine, model):
    with pytest.raises(BadInput) as bad:
        check_has(model, engine)
    assert bad.value.cause == f"{engine}: model '{model}' is not simulated: its layers have {NEWEST[model]}"
    check_has(model, "llama_cpp")


@pytest.mark.parametrize("engine, model, missing", [
    ("ik_llama", "zai-org/GLM-5", "the index keys that ik_llama.cpp keeps beside its latent rows (kr_l) have no rules"),
    ("ik_llama", "deepseek-v3.2", "ik_llama.cpp 8337e4c has no architecture deepseek32"),
    ("mlx_lm", "glm-5.3", "the second KVCache of its layers (CacheList), which holds index keys, has no rules here"),
    ("mlx_lm", "deepseek-v4", "mlx-lm 0.32.2 has no mlx_lm/models/deepseek_v4.py; the LayerCache of its"),
    ("mlx_lm", "qwen3.8-flash-next", "mlx-lm 0.32.2 has no mlx_lm/models/qwen4_exp.py"),
])  # fmt: skip
def test_a_refusal_names_the_model_as_it_was_given_and_what_is_missing(engine, model, missing):
    with pytest.raises(BadInput) as bad:
        check_has(model, engine)
    assert bad.value.cause.startswith(f"{engine}: model '{model}' is not simulated: {missing}")


NEWEST_MODELS = [name for name in MODELS if name not in OLDER]


@pytest.mark.parametrize("engine", ["ik_llama", "mlx_lm"])
def test_every_newest_model_is_known_or_refused_with_what_the_engine_lacks(engine):
    manual = manual_of(engine)
    lacking = {name for name in NEWEST_MODELS if missing_part(manual, name)}
    assert lacking == set(manual.lacks) == set(NEWEST_MODELS) - set(manual.known)


@pytest.mark.parametrize("model, layers", [
    ("deepseek-v4", "deepseek4-states"), ("DeepSeek-V4-Pro", "deepseek4-states"), ("minimax-m3", "AAAA"),
])  # fmt: skip
def test_models_of_ik_llama_that_were_read_in_its_source_say_so(model, layers):
    found = model_named(model, "ik_llama")
    assert found.model == layers and found.note.endswith("read in the source, not recorded")
    assert {"deepseek-v4", "minimax-m3"} <= known_models(manual_of("ik_llama")).keys()
