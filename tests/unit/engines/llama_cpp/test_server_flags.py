"""Settings that a server derives from its flags at its start, and the flags with which it does not start."""

from __future__ import annotations

import pytest

from cachesim.base.errors import BadInput
from cachesim.engines.llama_cpp.flags import Options
from cachesim.engines.llama_cpp.memory.hybrid_memory import Sizes
from cachesim.engines.llama_cpp.memory.model_layout import KIND_WORDS, model_kind
from cachesim.engines.llama_cpp.profiles import PROFILES
from cachesim.engines.llama_cpp.server_flags import can_roll_back, loaded_adapters, settings

MIB = 1 << 20


def fixed(model="A", build="b11549", **flags):
    return settings(Options(**{"ctx_size": 1024, "parallel": 1, **flags}), model_kind(model),
                    PROFILES[f"llama_cpp@{build}"])  # fmt: skip


@pytest.mark.parametrize(("flags", "n_slots", "unified", "n_ctx", "n_ctx_slot"), [
    ({}, 1, False, 1024, 1024), ({"ctx_size": 1000}, 1, False, 1024, 1024), ({"ctx_size": 1025}, 1, False, 1280, 1280),
    ({"parallel": 2}, 2, False, 1024, 512), ({"parallel": 3}, 3, False, 1536, 512),
    ({"parallel": 3, "kv_unified": True}, 3, True, 1024, 1024), ({"parallel": -1}, 4, True, 1024, 1024),
    ({"ctx_size": 0, "parallel": 2, "kv_unified": True, "kv_unified_per_slot": 300}, 2, True, 768, 300),
    ({"kv_unified_per_slot": 300, "kv_unified": True}, 1, True, 1024, 300),
])  # fmt: skip
def test_the_context_of_a_server_and_of_a_slot(flags, n_slots, unified, n_ctx, n_ctx_slot):
    found = fixed(**flags)
    assert (found.n_slots, found.unified, found.n_ctx, found.n_ctx_slot) == (n_slots, unified, n_ctx, n_ctx_slot)
    assert found.limit_tokens == n_ctx and found.sizes.n_seq == n_slots


@pytest.mark.parametrize(("flags", "batch", "ubatch"), [
    ({}, 1024, 512), ({"batch_size": 64}, 64, 64), ({"batch_size": 64, "ubatch_size": 16}, 64, 16),
    ({"batch_size": 1024, "ubatch_size": 1025}, 1024, 1024),
])  # fmt: skip
def test_a_batch_is_no_larger_than_the_context_and_a_micro_batch_than_a_batch(flags, batch, ubatch):
    found = fixed(**flags)
    assert (found.n_batch, found.n_ubatch, found.sizes.n_ubatch) == (batch, ubatch, ubatch)


@pytest.mark.parametrize(("flags", "limit", "has_cache", "idle"), [
    ({}, 8192 * MIB, True, True), ({"cache_ram": 0}, 0, False, False), ({"cache_ram": -1}, 0, True, True),
    ({"cache_ram": 1}, MIB, True, True), ({"cache_idle_slots": False}, 8192 * MIB, True, False),
])  # fmt: skip
def test_the_prompt_cache_is_on_unless_it_has_no_memory(flags, limit, has_cache, idle):
    found = fixed(**flags)
    assert (found.limit_size, found.has_cache, found.cache_idle_slots) == (limit, has_cache, idle)


@pytest.mark.parametrize(("model", "flags", "n_swa", "window", "exact"), [
    ("A", {}, 0, 0, False), ("W8 A", {}, 8, 8, False), ("W8 A", {"swa_full": True}, 0, 0, False),
    ("A", {"swa_full": True}, 0, 0, False), ("GA", {}, 0, 0, True), ("C W8", {}, 8, 8, True),
])  # fmt: skip
def test_windows_and_states_of_a_model(model, flags, n_swa, window, exact):
    found = fixed(model, **flags)
    assert (found.n_swa, found.window, found.exact) == (n_swa, window, exact)
    assert found.sizes.swa_full is (bool(flags) and "W" in model)


@pytest.mark.parametrize(("model", "flags", "reuse", "shift"), [
    ("A", {}, 16, True), ("W8 A", {}, 0, False), ("W8 A", {"swa_full": True}, 16, True), ("qwen2vl", {}, 0, False),
    ("A", {"mmproj": "causal"}, 0, False), ("W8 A", {"ctx_size": 256}, 16, True),
])  # fmt: skip
def test_positions_are_moved_only_where_they_can_be(model, flags, reuse, shift):
    found = fixed(model, cache_reuse=16, context_shift=True, **flags)
    assert (found.n_cache_reuse, found.context_shift) == (reuse, shift)


@pytest.mark.parametrize(("build", "step", "found"), [
    ("b11549", -1, 8192), ("b11549", 0, 0), ("b11549", 64, 64), ("b9473", -1, 256),
])  # fmt: skip
def test_the_least_step_is_that_of_the_build_unless_it_is_given(build, step, found):
    assert fixed("W8 A", build, checkpoint_min_step=step, ctx_checkpoints=5).min_step == found


@pytest.mark.parametrize(("model", "flags", "drafts", "mtp", "planes", "draft"), [
    ("GA+M", {}, False, False, 0, None), ("GA+M", {"spec_type": "draft-mtp"}, True, True, 3, "GA+M+mtp"),
    ("SA+M", {"spec_type": "draft-mtp"}, True, True, 0, "SA+M+mtp"),
    ("A", {"spec_type": "ngram-mod"}, True, False, 0, None),
    ("GA", {"spec_type": "draft-simple", "model_draft": "W8 A"}, True, False, 0, "W8 A"),
    ("GA+M", {"spec_type": "ngram-mod,draft-mtp", "spec_draft_n_max": 5}, True, True, 5, "GA+M+mtp"),
])  # fmt: skip
def test_drafters_and_their_planes(model, flags, drafts, mtp, planes, draft):
    found = fixed(model, **flags)
    assert (found.drafts, found.mtp, found.sizes.n_rs_seq) == (drafts, mtp, planes)
    assert (found.draft and found.draft.name) == draft


def test_a_recurrent_model_has_no_drafts_before_b8842():
    assert not fixed("GA", "b8450", spec_type="ngram-simple").drafts
    assert fixed("A", "b8450", spec_type="ngram-simple").drafts


@pytest.mark.parametrize(("model", "can"), [("A", False), ("GA", True), ("CA", True), ("SA", False), ("GSA", False),
                                            ("HH", False)])  # fmt: skip
def test_states_of_some_layers_can_be_rolled_back(model, can):
    assert can_roll_back(model_kind(model)) is can


@pytest.mark.parametrize(("model", "build", "flags", "message"), [
    ("A", "b11549", {"parallel": 65}, "server flag 'parallel' must be -1 or 1 to 64, not 65"),
    ("A", "b11549", {"spec_type": "draft-eagle3"}, "spec_type 'draft-eagle3' is not simulated: its draft model reads "
     "hidden states of several layers, and its memory is not modelled"),
    ("A", "b4579", {"spec_type": "draft-mtp"}, "spec_type 'draft-mtp' is not in llama_cpp@b4579 (b4579)"),
    ("A", "b11549", {"spec_type": "draft-simple,draft-mtp"},
     "spec_type 'draft-simple,draft-mtp' is not simulated: both would use one draft context"),
    ("I8", "b9765", {}, "model 'I8' (index rows) is simulated from b10566 on, not for llama_cpp@b9765 (b9765)"),
    ("GA", "b4265", {}, f"model 'GA' ({KIND_WORDS['H']}) cannot be loaded by llama_cpp@b4265 (b4265)"),
    ("I8", "b11549", {"cache_type_k": "q8_0"},
     "the server does not start: index rows need one type of K and V rows, not q8_0 and f16"),
    ("A", "b11549", {"batch_size": 1}, "a server with a batch of 1 token aborts when it starts under llama_cpp@b11549"),
    ("A", "b4265", {"lora_scaled": "1"}, "adapters are not known of llama_cpp@b4265 (b4265)"),
])  # fmt: skip
def test_a_server_does_not_start(model, build, flags, message):
    with pytest.raises(BadInput) as bad:
        fixed(model, build, **flags)
    assert bad.value.cause == message


def test_64_slots_and_batches_of_2_start():
    assert fixed(parallel=64, ctx_size=64 * 256).sizes == Sizes(64, False, 256, 512, False, 0, 256)
    assert fixed(batch_size=2).n_batch == 2


@pytest.mark.parametrize(("build", "invocations"), [("b11549", [(), (7, 8)]), ("b6160", [(), ()])])
def test_adapters_are_loaded_as_the_build_reads_their_files(build, invocations):
    found = loaded_adapters(Options(lora_scaled="1,0.5@7.8"), PROFILES[f"llama_cpp@{build}"])
    assert [one.invocation for one in found] == invocations and [one.scale for one in found] == [1.0, 0.5]


@pytest.mark.parametrize(("slots", "unified"), [(1, False), (2, True), (4, True)])
def test_several_slots_that_the_server_chooses_share_a_buffer(slots, unified):
    rules = PROFILES["llama_cpp@b11549"].changed({"auto_slots": slots})
    found = settings(Options(ctx_size=1024, parallel=-1), model_kind("A"), rules)
    assert (found.n_slots, found.unified) == (slots, unified)
