"""Tests of the checks of options: only options of the named engine are valid."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cachesim.base.errors import BadInput
from cachesim.engines.capabilities import Field
from cachesim.engines.registry import ENGINES, profiles
from cachesim.engines.shared.known_models import MODELS, OLDER
from cachesim.scenarios.from_notation import from_line
from cachesim.scenarios.option_checks import (
    check_has,
    check_model,
    check_option,
    check_profile,
    fields_of,
    filled,
    in_force,
    known_models,
    manual_of,
    missing_part,
    model_named,
    option_named,
    parse_settings,
    read_option,
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
    ("sglang@0.5.23x", "sglang", KNOWN, "unknown profile 'sglang@0.5.23x'", "did you mean 'sglang@0.5.23'?"),
    ("ik_llama@mine", "llama_cpp", None, "profile 'ik_llama@mine' is not a profile of the engine 'llama_cpp'", ""),
    ("llama_cpp", "llama_cpp", None, "profile 'llama_cpp' is not a profile of the engine 'llama_cpp'", ""),
    ("ik_llama@main", "llama_cpp", KNOWN, "profile 'ik_llama@main' is not a profile of the engine 'llama_cpp'", ""),
])  # fmt: skip
def test_an_unknown_profile_is_refused_with_the_name_that_is_known(profile, engine, known, cause, hint):
    with pytest.raises(BadInput) as bad:
        check_profile(profile, engine, known)
    assert (bad.value.cause, bad.value.hint) == (cause, hint)


NEWEST = {"hunyuan-v4": "attention to the best rows", "qwen3.8-flash-next": "attention to the best pools of 4 rows"}


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
    for check in (check_has, model_named):
        with pytest.raises(BadInput) as bad:
            check(model, engine)
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
    assert found.model == layers and "read in the source, not recorded" in found.note
    assert {"deepseek-v4", "minimax-m3"} <= known_models(manual_of("ik_llama")).keys()


COMMON = ["answer", "n_predict", "together"]


@pytest.mark.parametrize(("given", "names"), [
    ({}, []), ({"takes": frozenset({"seed", "cancel_at", "unknown"})}, ["cancel_at", "seed"]),
    ({"completions": True}, ["task", "n_cmpl", "answers"]),
    ({"slots": True}, ["save", "restore", "percent", "erase", "restart"]), ({"adapter_scales": "lora"}, ["lora"]),
    ({"slots": True, "adapter_scales": "x", "completions": True, "takes": frozenset({"seed"}),
      "fields": (Field("salt", "s", ""),)},
     ["seed", "salt", "task", "n_cmpl", "answers", "save", "restore", "percent", "erase", "restart", "lora"]),
])  # fmt: skip
def test_help_lists_the_fields_that_a_server_takes(given, names):
    bare = {"takes": frozenset(), "fields": (), "completions": False, "slots": False, "adapter_scales": ""}
    assert [*fields_of(replace(ENGINES["mlx_lm"].manual, **{**bare, **given}))] == [*COMMON, *names]


def test_a_field_of_an_engine_has_a_drawn_value_or_its_default_as_example():
    fields = (Field("salt", "none", "Salt.", drawn=("a", "b")), Field("priority", 3, ""))
    found = fields_of(replace(ENGINES["mlx_lm"].manual, fields=fields))
    assert (found["salt"], found["priority"]) == (("{salt=a}", "Salt."), ("{priority=3}", ""))
    assert found["answer"] == ("A5>r4", "forced answer of the model")


@pytest.mark.parametrize(("word", "value", "option"), [
    ("-np", 3, ("parallel", 3)), ("n_parallel", 3, ("parallel", 3)), ("kvu", True, ("kv_unified", True)),
    ("no-kvu", True, ("kv_unified", False)), ("--no-kv-unified", False, ("kv_unified", True)),
    ("kv_unified", False, ("kv_unified", False)),
])  # fmt: skip
def test_an_option_is_read_in_any_spelling(word, value, option):
    assert read_option(word, value) == option


HIGHEST = 2_147_483_647


@pytest.mark.parametrize(("name", "value", "error"), [
    ("parallel", True, "parallel must be an integer, not True"),
    ("parallel", 2.0, "parallel must be an integer, not 2.0"),
    ("parallel", 0, f"parallel is 0, it must lie between 1 and {HIGHEST}"),
    ("ctx_size", HIGHEST + 1, f"ctx_size is {HIGHEST + 1}, it must lie between 1 and {HIGHEST}"),
    ("kv_unified", 1, "kv_unified must be true or false, not 1"),
    ("slot_prompt_similarity", "a", "slot_prompt_similarity must be a number, not 'a'"),
    ("slot_prompt_similarity", True, "slot_prompt_similarity must be a number, not True"),
    ("slot_prompt_similarity", 1.5, "slot_prompt_similarity is 1.5, it must lie between 0 and 1"),
    ("slot_prompt_similarity", -0.5, "slot_prompt_similarity is -0.5, it must lie between 0 and 1"),
    ("slot_prompt_similarity", float("nan"), "slot_prompt_similarity is nan, it must lie between 0 and 1"),
    ("pooling", 3, "pooling must be a string, not 3"),
    ("pooling", "men", "unknown pooling 'men' (did you mean 'mean'?)"),
    ("paralel", 3, "unknown server option 'paralel' (did you mean 'parallel'? see cachesim options llama_cpp)"),
    ("zzqq", 3, "unknown server option 'zzqq' (see cachesim options llama_cpp)"),
    ("model_draft", "qwen9", "unknown model 'qwen9' (did you mean 'qwen3'? see cachesim options llama_cpp)"),
])  # fmt: skip
def test_a_value_that_an_option_does_not_accept_is_named(name, value, error):
    with pytest.raises(BadInput) as bad:
        check_option(name, value)
    assert str(bad.value) == error


@pytest.mark.parametrize(("name", "value", "checked"), [
    ("parallel", -1, -1), ("parallel", 1, 1), ("slot_prompt_similarity", 1, 1.0), ("slot_prompt_similarity", 0, 0.0),
    ("model_draft", "", ""), ("model_draft", "qwen3-next", "GGGA"), ("pooling", "last", "last"),
    ("ctx_size", HIGHEST, HIGHEST),
])  # fmt: skip
def test_a_value_that_an_option_accepts_has_its_type(name, value, checked):
    found = check_option(name, value)
    assert found == checked and type(found) is type(checked)


def test_a_long_word_is_not_compared_with_names():
    with pytest.raises(BadInput) as bad:
        option_named("ctx_size" + "x" * 73)
    assert bad.value.hint == "see cachesim options llama_cpp"
    with pytest.raises(BadInput) as bad:
        option_named("ctx_sizx")
    assert bad.value.hint == "did you mean 'ctx_size'? see cachesim options llama_cpp"


@pytest.mark.parametrize(("pairs", "options"), [
    (["-np=2", "kvu"], {"parallel": 2, "kv_unified": True}),
    (["kvu=off", "cache_ram= 5 "], {"kv_unified": False, "cache_ram": 5}),
    (["kvu=on"], {"kv_unified": True}), (["no-kvu"], {"kv_unified": False}),
    (["lora_scaled=0.5"], {"lora_scaled": "0.5"}),
    (["np=2", "np=3"], {"parallel": 3}), ([], {}),
])  # fmt: skip
def test_settings_are_read_with_their_types(pairs, options):
    assert parse_settings(pairs) == options


@pytest.mark.parametrize(("pair", "error"), [
    ("np", "--set: expected key=value, found 'np'"), ("kvu=0", "kv_unified must be true or false, not 0"),
    ("np=two", "parallel must be an integer, not 'two'"),
])  # fmt: skip
def test_a_wrong_setting_is_named(pair, error):
    with pytest.raises(BadInput) as bad:
        parse_settings([pair])
    assert str(bad.value) == error


NEXT = ("qwen3-next is GGGA: 48 layers, 12 with attention, 36 with states; a token: 24,576 bytes, its states: "
        "79,036,416 bytes")


@pytest.mark.parametrize(("model", "engine", "found"), [
    ("GGGA", "llama_cpp", ("GGGA", "", {})), 
    ("Qwen3-Next-80B-A3B", "mlx_lm",
     ("GGGA@24576/26345472", NEXT, {})),
    ("qwen3-next", "vllm", ("GGGA", NEXT, {"real_model": "qwen3-next"})),
    ("mamba2", "mlx_lm",
     ("mamba2", "mamba2 is a tiny model with layers of its own; mamba-2 has those of the real one", {})),
    ("mamba-2", "mlx_lm",
     ("SSSS@0/42975232", "mamba-2 is SSSS: 64 layers, 64 with states; its states: 171,900,928 bytes, not verified "
      "(cachesim memory --models)", {})),
])  # fmt: skip
def test_a_model_is_a_name_a_notation_or_a_real_model(model, engine, found):
    assert model_named(model, engine) == found


def test_options_of_a_model_are_its_own_unless_they_are_given():
    found = model_named("qwen3-next", "vllm")
    assert found.server({"x": 1}) == {"real_model": "qwen3-next", "x": 1}
    assert found.server({"real_model": "mine"}) == {"real_model": "mine"}


@pytest.mark.parametrize(("model", "engine", "error"), [
    ("W8 W9", "llama_cpp", "model 'W8 W9': windows of different sizes (a model has one window)"),
    ("I8", "vllm", "model 'I8': vllm has no layers of kind I"),
    ("K8", "llama_cpp", "model 'K8': llama_cpp has no layers of kind K"),
    ("llma", "llama_cpp", "unknown model 'llma' (did you mean 'llama'? see cachesim options llama_cpp)"),
    ("qwen35-GX", "llama_cpp", "unknown model 'qwen35-GX' (did you mean 'qwen35'? see cachesim options llama_cpp)"),
])  # fmt: skip
def test_a_model_that_an_engine_does_not_have_is_refused(model, engine, error):
    with pytest.raises(BadInput) as bad:
        check_model(model, engine)
    assert str(bad.value) == error


@pytest.mark.parametrize("model", ["qwen35", "qwen35-GGGA", "GGGA", "W8 A W8"])
def test_layers_may_follow_an_architecture(model):
    check_model(model, "llama_cpp")


def test_names_that_resemble_none_lead_to_the_letters():
    with pytest.raises(BadInput) as bad:
        check_model("zzqqxx", "mlx_lm")
    hint = bad.value.hint
    assert hint.startswith("layers are A, W, ") and hint.endswith("; names: cachesim options mlx_lm")
