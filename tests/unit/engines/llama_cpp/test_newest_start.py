"""Sentences about flags with one of the newest memories, and the traits and decisions of its start."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from cachesim.engines.llama_cpp.asked_traits import AskedTraits
from cachesim.engines.llama_cpp.engine import ENGINE, cautions, layout
from cachesim.engines.llama_cpp.flags import Options
from cachesim.engines.llama_cpp.memory.model_layout import model_kind
from cachesim.engines.llama_cpp.newest_start import model_as_read, newest_decisions
from cachesim.engines.llama_cpp.profiles import PROFILES
from cachesim.engines.llama_cpp.server_flags import settings
from cachesim.model import make_model

REUSE, SHIFT = {"cache_reuse": 16}, {"context_shift": True}
OFF, SPOILT, WHOLE, ALL_ROWS, ENDS = "", "LC-KV-INDEX", "LC-KV-STREAMS", "LC-MSA-READ", "LC-KV-QUANT"
R, S = "--cache-reuse", "--context-shift"
SHARED = {"parallel": 2, "kv_unified": True}


def flags_and_rule(note):
    """Return the flags that move positions in a note, and the rule that it names."""
    return [flag for flag in (R, S) if flag in note], "".join(re.findall(r"LC-[A-Z-]+", note))


def rules(build="b11549"):
    return PROFILES[f"llama_cpp@{build}"]


@pytest.mark.parametrize(("model", "given", "notes"), [
    ("llama", {**REUSE, **SHIFT}, []), ("gemma3", REUSE, []), ("llama", {"parallel": -1}, []),
    ("deepseek32", {}, []), ("deepseek32", REUSE, [([R], SPOILT)]),
    ("deepseek32", SHIFT, [([S], SPOILT)]),
    ("deepseek32", {**REUSE, **SHIFT, **SHARED}, [([R, S], SPOILT)]),
    ("deepseek4", REUSE, [([R], OFF)]), ("deepseek4", SHIFT, [([S], OFF)]),
    ("deepseek4", {**REUSE, **SHIFT}, [([R, S], OFF)]), ("deepseek4", SHARED, [([], WHOLE)]),
    ("deepseek4", {"parallel": -1}, [([], WHOLE)]), ("deepseek4", {"parallel": 2}, []),
    ("deepseek4", {"kv_unified": True}, []), ("dots3note", REUSE, [([R], OFF)]),
    ("qwen4exp", {}, []), ("minimax-m3", {**REUSE, **SHIFT}, []), ("minimax-m3", SHARED, [([], ALL_ROWS)]),
    ("minimax-m3", {"parallel": 2}, []), ("minimax-m3", {"parallel": -1}, [([], ALL_ROWS)]),
    ("llama", {"cache_type_k": "q8_0", **SHIFT}, [([S], ENDS)]),
    ("llama", {"cache_type_k": "q8_0"}, []), ("llama", {"cache_type_v": "q8_0", **SHIFT}, []),
    ("gemma3", {"cache_type_k": "q8_0", **SHIFT}, []),
])  # fmt: skip
def test_flags_that_change_answers_are_named(model, given, notes):
    found = cautions(rules(), model, {"ctx_size": 1024, "parallel": 1, **given})
    assert [*map(flags_and_rule, found)] == notes


def test_the_proposed_build_turns_index_keys():
    assert cautions(rules("b11549-proposed"), "deepseek32", {"ctx_size": 1024, "parallel": 1, **REUSE}) == []


def traits_of(build, kind):
    return AskedTraits(rules(build), kind, plane=lambda *of: 0, saved_plane=lambda pending: 0)


@pytest.mark.parametrize(("model", "types", "build", "traits"), [
    ("llama", "q8_0", "b11549", "index_spoilt shift_ends"), ("llama", "f16", "b11549", "index_spoilt"),
    ("llama", "q8_0", "b11549-proposed", ""), ("AA", "q4_0", "b11549", "index_spoilt"),
    ("llama", "f16", "b11063", "index_spoilt"), ("qwen4exp", "f16", "b11063", "index_spoilt pools_cut"),
    ("deepseek32", "f16", "b10587", "index_spoilt index_dies"),
    ("deepseek4", "f16", "b10587", "index_spoilt rows_emptied"), ("deepseek4", "f16", "b10809", "index_spoilt"),
])  # fmt: skip
def test_what_a_build_does_to_index_keys_pools_and_quantized_rows(model, types, build, traits):
    found = traits_of(build, replace(model_kind(model), types=(types, "f16")))
    names = ("index_spoilt", "pools_cut", "rows_emptied", "index_dies", "shift_ends")
    assert {name for name in names if getattr(found, name)} == {*traits.split()}


@pytest.mark.parametrize(("model", "types", "ids"), [
    ("llama", "f16", []), ("llama", "q8_0", ["LC-KV-QUANT.DIES"]), ("minimax-m3", "f16", ["LC-MSA-READ.ONE-STREAM"]),
    ("deepseek4", "f16", ["LC-N-SWA-TOLD.ROWS", "LC-KV-STREAMS.OWN", "LC-ROWS-READ.OWN"]),
    ("deepseek32", "f16", ["LC-INDEX-SHIFT.DONE", "LC-KV-INDEX.SPOILT"]),
    ("dots3note", "f16", ["LC-INDEX-SHIFT.DONE", "LC-KV-INDEX.SPOILT"]),
    ("qwen4exp", "f16", ["LC-KV-MROPE.FIXED", "LC-POOL-READ.WHOLE"]),
])  # fmt: skip
def test_a_start_records_the_decisions_about_its_memory(model, types, ids):
    kind = replace(model_kind(model), types=(types, types))
    fixed = settings(Options(ctx_size=1024, parallel=1, cache_type_k=types, cache_type_v=types), kind, rules())
    assert [one.rule for one in newest_decisions(rules(), kind, fixed)] == ids


def test_only_quantized_k_rows_are_turned():
    for types, dies in (("f16", "q8_0"), False), (("q8_0", "f16"), True):
        kind = replace(model_kind("llama"), types=types)
        fixed = settings(Options(ctx_size=1024, parallel=1), kind, rules())
        found = traits_of("b11549", kind)
        assert (found.shift_ends, len(newest_decisions(rules(), kind, fixed))) == (dies, dies)


def test_a_model_is_read_as_it_is_unless_slots_share_the_cells_of_chosen_blocks():
    kind = model_kind("A B2")
    model = make_model(kind.spec, exact=False, seed=7)
    shared, alone = (settings(Options(ctx_size=1024, parallel=n, kv_unified=True), kind, rules()) for n in (2, 1))
    assert model_as_read(rules(), kind, alone, model) is model and model_as_read(rules(), kind, shared, None) is None
    read = model_as_read(rules(), kind, shared, model)
    assert [layer.count for layer in read.spec.layers] == [model.spec.layers[0].count, 2**20]
    assert (read.exact, read.seed, read.spec.layers[0]) == (False, 7, model.spec.layers[0])
    other = model_kind("AA")
    plain = make_model(other.spec, exact=False)
    assert model_as_read(rules(), other, shared, plain) is plain


@pytest.mark.parametrize(("build", "form"), [
    ("b8152", (0, 8, 2, 2)), ("b10809", (12, 8, 2, 2)), ("b11063", (12, 8, 1, 1)), ("b11549", (12, 16, 2, 1)),
])  # fmt: skip
def test_a_state_has_the_format_of_the_build(build, form):
    laid = layout("llama", rules(build))
    found = laid.kind.form
    assert (found.ext_bytes, found.data_header, found.pool_keys, found.pool_tensors) == form
    assert laid.spec is laid.kind.spec


@pytest.mark.parametrize(("given", "stated"), [
    ({"n_ctx_train": 512}, True), ({}, False), ({"n_ctx_train": 512, "ctx_size": 256}, False),
    ({"n_ctx_train": 512, "kv_unified_per_slot": 256}, False),
])  # fmt: skip
def test_a_context_that_the_model_gives_is_stated(given, stated):
    lines = ENGINE.derived(PROFILES["llama_cpp@b11549"], given)
    assert [line.startswith("-c 512: the model's own context") for line in lines] == [True] * stated
