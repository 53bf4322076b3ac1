"""What the server derives from the model and its flags: origin and grid of states, and sizes of pools."""

import json

import pytest

from cachesim.base.errors import BadInput, NotInBuild
from cachesim.engines.base import Request
from cachesim.engines.registry import ENGINES
from cachesim.engines.sglang.flags import Options, options, window_slots
from cachesim.engines.sglang.pool_sizes import (
    GIB,
    PoolSizes,
    derived_sizes,
    most_requests,
    pool_sizes,
    pooled,
    resolved,
    state_slot,
    states_per_request,
)
from cachesim.engines.sglang.profiles import V0_5_9, V0_5_20, V0_5_23
from cachesim.engines.sglang.start_options import with_defaults
from cachesim.engines.shared.model_sizes import real_model
from cachesim.model import parse
from cachesim.scenarios.option_checks import model_named

STATE, ROW = 36 * (3 * 8192 * 2 + 32 * 128 * 128 * 4), 12 * 2 * 2 * 256 * 2     # Qwen3-Next: 36 and 12 layers


def strategy(rules, model, **given):
    return resolved(rules, options(given), parse(model)).mamba_radix_cache_strategy


@pytest.mark.parametrize(("rules", "model", "given", "found"), [
    (V0_5_23, "GGGA", {}, "extra_buffer"), (V0_5_20, "GGGA", {}, "extra_buffer"), (V0_5_9, "GGGA", {}, "no_buffer"),
    (V0_5_23, "H", {}, "extra_buffer"), (V0_5_23, "SSA", {}, "extra_buffer"), (V0_5_23, "CCA", {}, "no_buffer"),
    (V0_5_23, "A", {}, "no_buffer"),
    (V0_5_23, "GGGA", {"disable_overlap_schedule": True}, "no_buffer"),
    (V0_5_23, "GGGA", {"disable_overlap_schedule": True, "page_size": 64}, "extra_buffer"),
    (V0_5_23, "GGGA", {"mamba_radix_cache_strategy": "no_buffer", "disable_overlap_schedule": True}, "no_buffer"),
    (V0_5_23, "GGGA", {"mamba_radix_cache_strategy": "extra_buffer_lazy"}, "extra_buffer_lazy"),
    (V0_5_9, "GGGA", {"mamba_radix_cache_strategy": "extra_buffer"}, "extra_buffer"),
])  # fmt: skip
def test_the_release_chooses_the_origin_of_states_unless_a_flag_does(rules, model, given, found):
    assert strategy(rules, model, **given) == found


@pytest.mark.parametrize(("rules", "model", "given", "overlaps"), [
    (V0_5_23, "A", {}, True), (V0_5_23, "GA", {}, True), (V0_5_23, "CA", {}, False), (V0_5_9, "A", {}, True),
    (V0_5_9, "GA", {}, False), (V0_5_9, "A", {"speculative_algorithm": "NGRAM"}, False),
    (V0_5_23, "A", {"speculative_algorithm": "NGRAM"}, True), (V0_5_23, "A", {"disable_overlap_schedule": True}, False),
])  # fmt: skip
def test_no_overlap_follows_from_states_that_no_request_tracks(rules, model, given, overlaps):
    assert resolved(rules, options(given), parse(model)).disable_overlap_schedule is not overlaps


@pytest.mark.parametrize(("given", "why"), [
    ({"mamba_radix_cache_strategy": "no_buffer"}, "no_buffer needs --disable-overlap-schedule"),
    ({"mamba_radix_cache_strategy": "extra_buffer_lazy", "disable_overlap_schedule": True}, "_lazy excludes"),
    ({"mamba_radix_cache_strategy": "no_buffer", "disable_overlap_schedule": True, "page_size": 2}, "--page-size 1"),
    ({"mamba_track_interval": 96, "page_size": 64}, "a multiple of page_size"),
    ({"speculative_algorithm": "NGRAM", "mamba_track_interval": 3}, "a draft and one token"),
])  # fmt: skip
def test_a_server_that_would_not_start_is_refused(given, why):
    with pytest.raises(BadInput, match=why):
        resolved(V0_5_23, options(given), parse("GA"))
    resolved(V0_5_23, options(given), parse("A"))


def test_a_convolution_tracks_no_states():
    with pytest.raises(BadInput, match="extra_buffer is not supported for short convolutions"):
        resolved(V0_5_23, options({"mamba_radix_cache_strategy": "extra_buffer"}), parse("CA"))


@pytest.mark.parametrize(("rules", "kept"), [(V0_5_23, True), (V0_5_9, False)])
def test_0_5_9_has_no_prefix_cache_for_states_with_drafts(rules, kept):
    found = resolved(rules, options({"speculative_algorithm": "NGRAM"}), parse("GA"))
    assert found.disable_radix_cache is not kept
    assert not resolved(rules, options({}), parse("GA")).disable_radix_cache


def test_a_source_of_states_that_came_later_is_refused():
    with pytest.raises(NotInBuild, match=r"extra_buffer_lazy does not exist in sglang@0\.5\.9"):
        resolved(V0_5_9, options({"mamba_radix_cache_strategy": "extra_buffer_lazy"}), parse("GA"))


@pytest.mark.parametrize(("given", "grid"), [
    ({}, 64), ({"page_size": 16}, 64), ({"page_size": 128}, 128), ({"state_grid": 256, "page_size": 128}, 256),
])  # fmt: skip
def test_the_grid_is_the_chunk_of_the_kernel_or_the_page(given, grid):
    assert resolved(V0_5_23, options(given), parse("GA")).state_grid == grid


def test_a_page_that_fits_no_chunk_is_refused():
    with pytest.raises(BadInput, match="page_size 48: neither it nor the chunk of 64 tokens divides the other"):
        resolved(V0_5_23, options({"page_size": 48}), parse("GA"))
    for page in (48, 128):                      # a model without states has no grid
        assert resolved(V0_5_23, options({"page_size": page}), parse("A")).state_grid == 64


def test_a_configuration_may_name_the_chunk_of_its_kernel(tmp_path):
    keys = {"hybrid_override_pattern": "M*", "mamba_num_heads": 2, "mamba_head_dim": 8, "ssm_state_size": 4,
            "num_attention_heads": 2, "head_dim": 8, "mamba_chunk_size": 256}  # fmt: skip
    file = tmp_path / "config.json"
    file.write_text(json.dumps(keys))
    assert resolved(V0_5_23, options({"real_model": str(file)}), parse("SA")).state_grid == 256


@pytest.mark.parametrize(("given", "number"), [
    ({"mamba_radix_cache_strategy": "no_buffer"}, 3), ({"mamba_radix_cache_strategy": "extra_buffer"}, 5),
    ({"mamba_radix_cache_strategy": "extra_buffer", "disable_overlap_schedule": True}, 4),
    ({"mamba_radix_cache_strategy": "extra_buffer_lazy"}, 4),
    ({"disable_radix_cache": True}, 1),
])  # fmt: skip
def test_a_request_counts_for_several_states(given, number):
    assert states_per_request(V0_5_23, options(given)) == number


def sizes(room, **given):
    opts = options({"mamba_radix_cache_strategy": "extra_buffer", **given})
    return pool_sizes(V0_5_23, real_model("qwen3-next"), opts, room)


def test_states_and_rows_share_the_memory_by_the_ratio():
    """A slot of states and one of rows pad the pool; the states limit the requests."""
    assert state_slot(real_model("qwen3-next")) == STATE
    states = (40 * GIB * 0.9 / 1.9 - STATE) // STATE
    rows = (40 * GIB - (states + 1) * STATE) // ROW
    assert sizes(40 * GIB) == PoolSizes(int(rows), 0, int(states), int(states) // 5)
    assert sizes(40 * GIB, mamba_full_memory_ratio=0.3).rows > sizes(40 * GIB).rows


def test_numbers_of_the_flags_replace_derived_ones():
    found = sizes(40 * GIB, max_mamba_cache_size=100, max_total_tokens=10_001, page_size=64, max_running_requests=7)
    assert found == PoolSizes(10_001 // 64 * 64, 0, 100, 7)


def test_drafts_take_a_state_for_each_of_their_tokens():
    """48 requests run at a time by default; each of their drafts has 4 tokens. The drafter has rows like one of the 12
    layers with rows."""
    drafts = {"speculative_algorithm": "EAGLE", "speculative_num_steps": 3}
    states = int((40 * GIB * 0.9 / 1.9 - STATE * 5) // (STATE * (1 + 4 / 5)))
    running = min(48, states // 5)
    rows = (40 * GIB - (states + 1) * STATE - (running + 1) * 4 * STATE) // (ROW * 13 // 12)
    assert sizes(40 * GIB, **drafts) == PoolSizes(int(rows), 0, states, running)


def test_windows_have_a_pool_of_their_own_only_in_some_models():
    gpt = pool_sizes(V0_5_23, real_model("gpt-oss-20b"), options({}), 8 * GIB)
    assert gpt.windows == int(gpt.rows * 0.8)
    assert not pooled(real_model("gemma-3")).windows and pooled(real_model("gpt-oss-20b")).windows
    assert model_named("gemma-3", "sglang").model == "AAAA"
    assert model_named("gpt-oss", "sglang").model == "W128 A"


def test_lines_name_what_was_derived():
    said = derived_sizes(V0_5_23, options({"real_model": "qwen3.5-4b", "pool_gib": 8.0}))
    assert said == ["qwen3.5-4b: pages of 1, states by extra_buffer, on a grid of 64 tokens",
                    "qwen3.5-4b: slots: 139,528 of rows, 77 of states; 15 requests at a time"]  # fmt: skip
    assert derived_sizes(V0_5_9, options({"real_model": "qwen3.5-4b"})) == [
        "qwen3.5-4b: pages of 1, states by no_buffer"]  # fmt: skip
    assert derived_sizes(V0_5_23, options({"real_model": "llama-3"})) == derived_sizes(V0_5_23, Options()) == []


@pytest.mark.parametrize(("given", "cause"), [
    ({"pool_gib": 8.0}, "needs a model whose sizes are known"),
    ({"pool_gib": 0.1, "real_model": "qwen3.5-4b"}, "0.1 GiB hold no request"),
    ({"pool_gib": 8.0, "real_model": "qwen3.5-4b", "mamba_full_memory_ratio": 0.0}, "must be above 0"),
])  # fmt: skip
def test_memory_that_cannot_be_shared_is_refused(given, cause):
    with pytest.raises(BadInput, match=cause):
        ENGINES["sglang"].start("sglang@0.5.23", "GGGA", given, "none")


def test_a_resend_reuses_the_states_that_the_release_tracks():
    """The server of 0.5.23 reuses 384 of 400 tokens, that of 0.5.9 none."""
    for profile, hit in (("sglang@0.5.23", 384), ("sglang@0.5.9", 0)):
        server = ENGINES["sglang"].start(profile, "GGGA", {"real_model": "qwen3-next"}, "none")
        assert [server.complete(Request(tuple(range(400)), 1)).cache_n for _ in range(2)] == [0, hit]


@pytest.mark.parametrize(("given", "slots"), [
    ({"swa_tokens": 30, "page_size": 4}, 28), ({"swa_tokens": 30}, 30), ({"swa_tokens": 32, "page_size": 16}, 32),
    ({"max_total_tokens": 50, "swa_full_tokens_ratio": 0.5, "page_size": 4}, 24),
    ({"max_total_tokens": 50, "swa_full_tokens_ratio": 0.5, "swa_tokens": 9}, 9),
])  # fmt: skip
def test_windows_have_whole_pages_of_slots(given, slots):
    assert window_slots(options(given)) == slots


@pytest.mark.parametrize(("context", "tokens", "given", "most"), [
    (131072, 524288, {}, 2048), (131072, 768000, {}, 3000), (131072, 1048576, {}, 4096), (131072, 1100000, {}, 4096),
    (131072, 100, {}, 2048), (0, 768000, {}, 2048), (131072, 768000, {"speculative_algorithm": "NGRAM"}, 48),
    (131072, 768000, {"max_running_requests": 7, "speculative_algorithm": "NGRAM"}, 7),
])  # fmt: skip
def test_requests_run_as_the_flags_say_or_as_the_pool_holds_contexts(context, tokens, given, most):
    """512 for each context of the model that the pool holds, from 2048 to 4096; with drafts 48."""
    assert most_requests(V0_5_9, options(given), tokens=tokens, states=None, context=context) == most


@pytest.mark.parametrize(("rules", "given", "tokens", "most"), [
    (V0_5_23, {"max_mamba_cache_size": 20, "max_running_requests": 8}, 4096, 4),
    (V0_5_23, {"max_mamba_cache_size": 20, "disable_overlap_schedule": True}, 4096, 6),
    (V0_5_9, {"max_mamba_cache_size": 20, "disable_overlap_schedule": True,
              "mamba_radix_cache_strategy": "extra_buffer"}, 4096, 4),
    (V0_5_23, {"max_running_requests": 90, "max_mamba_cache_size": 900}, 100, 50),
    (V0_5_9, {"max_running_requests": 90, "max_mamba_cache_size": 900}, 100, 90),
])  # fmt: skip
def test_rows_and_states_cap_the_requests_that_run_at_a_time(rules, given, tokens, most):
    made = resolved(rules, options({"max_total_tokens": tokens, **given}), parse("GA"))
    assert made.max_running_requests == most


def test_a_server_without_states_for_a_request_does_not_start():
    with pytest.raises(BadInput, match="does not start: 4 states hold no request, which takes 5"):
        resolved(V0_5_23, options({"max_mamba_cache_size": 4}), parse("GA"))


@pytest.mark.parametrize(("name", "room", "given", "found"), [
    ("llama-3", 131072 * 5, {}, PoolSizes(5, 0, 0, 2)), ("llama-3", 131072 * 4, {}, PoolSizes(4, 0, 0, 2)),
    ("llama-3", 131072 * 9, {"page_size": 4}, PoolSizes(8, 0, 0, 4)), ("llama-3", -5, {}, PoolSizes(0, 0, 0, 0)),
    ("gpt-oss", 2 * GIB, {}, PoolSizes(32363, 25890, 0, 2048)),
    ("gpt-oss", 2 * GIB, {"page_size": 64}, PoolSizes(32320, 25856, 0, 2048)),
    ("qwen3-next", 10 << 20, {"mamba_radix_cache_strategy": "extra_buffer"}, PoolSizes(0, 0, 0, 0)),
])  # fmt: skip
def test_pools_of_a_small_memory(name, room, given, found):
    """A request has two tokens at least; a memory that no state fits has no slots."""
    assert pool_sizes(V0_5_23, real_model(name), options(given), room) == found


@pytest.mark.parametrize(("name", "layers", "gib", "found"), [
    ("gpt-oss", "W128 A", 2.0, (32363, 25890, 4, 2048)), ("qwen3.5-4b", "GGGA", 0.7, (13505, 0, 5, 1)),
])  # fmt: skip
def test_a_memory_decides_the_options_of_the_pools(name, layers, gib, found):
    """Four states are the fewest that a server takes."""
    made = resolved(V0_5_23, options({"real_model": name, "pool_gib": gib}), parse(layers))
    assert (made.max_total_tokens, made.swa_tokens, made.max_mamba_cache_size, made.max_running_requests) == found


V4 = {"real_model": "deepseek-v4", "swa_full_tokens_ratio": 0.1}


@pytest.mark.parametrize(("rules", "given", "found"), [
    (V0_5_23, {}, (5677312, 567552, 256)), (V0_5_20, {}, (5221376, 521984, 256)),
    (V0_5_23, {"max_running_requests": 16}, (6032384, 603136, 16)),
    (V0_5_23, {"speculative_algorithm": "EAGLE"}, (4726784, 472576, 256)),
])  # fmt: skip
def test_a_memory_decides_the_pools_of_compressed_rows(rules, given, found):
    """The numbers of the released DSV4PoolConfigurator (tests/peers/sglang_start); 256 requests run by default."""
    made = resolved(rules, options({**V4, "pool_gib": 40.0, **given}), parse("W128 A"))
    assert (made.max_total_tokens, made.swa_tokens, made.max_running_requests) == found


def test_lines_name_a_configuration_by_its_last_two_parts_and_only_pools_that_it_has(tmp_path):
    folder = tmp_path / "models" / "small"
    folder.mkdir(parents=True)
    file = folder / "config.json"
    file.write_text(json.dumps({"num_hidden_layers": 2, "num_attention_heads": 4, "head_dim": 16, "hidden_size": 64}))
    said = derived_sizes(V0_5_23, options({"real_model": str(file), "pool_gib": 0.5, "max_total_tokens": 5000}))
    assert said == ["small/config.json: slots: 5,000 of rows; 2048 requests at a time"]
    said = derived_sizes(V0_5_23, options({"real_model": "gpt-oss", "pool_gib": 2.0}))
    assert said == ["gpt-oss: slots: 32,363 of rows, 25,890 of windows; 2048 requests at a time"]


@pytest.mark.parametrize(("memory", "chunks"), [(0, (2048, 2048)), (24, (2048, 4096)), (80, (8192, 8192)),
                                                (192, (16384, 16384))])  # fmt: skip
def test_the_memory_of_the_device_determines_the_size_of_a_chunk(memory, chunks):
    given = {"device_memory": memory}
    assert tuple(with_defaults(rules, given)["chunked_prefill_size"] for rules in (V0_5_9, V0_5_23)) == chunks
    assert with_defaults(V0_5_23, {"device_memory": memory, "chunked_prefill_size": 512})["chunked_prefill_size"] == 512


def test_the_context_is_that_of_the_model_or_smaller():
    engine, model = ENGINES["sglang"], {"real_model": "qwen3"}
    assert with_defaults(V0_5_23, model)["context_len"] == 40960
    with pytest.raises(BadInput, match="context_len 50000 exceeds that of the model, 40960 tokens"):
        engine.check_start(V0_5_23, "AAAA", {**model, "context_len": 50000})
    engine.check_start(V0_5_23, "AAAA", {**model, "context_len": 50000, "allow_longer_context": True})


@pytest.mark.parametrize(("release", "options", "n", "max_tokens", "refusal"), [
    ("0.5.23", {}, 93, 0, ""), ("0.5.23", {}, 94, 0, "exceeds the maximum allowed length (94 tokens)"),
    ("0.5.23", {}, 100, 0, "is longer than the model's context length (100 tokens)"), ("0.5.23", {}, 80, 20, ""),
    ("0.5.23", {}, 80, 21, "a total of 101 tokens: 80 tokens"), ("0.5.10", {}, 80, 20, "a total of 100 tokens"),
    ("0.5.10", {}, 80, 19, ""),
    ("0.5.23", {"speculative_algorithm": "EAGLE"}, 80, 17, "a total of 101 tokens: 84 tokens"),
])  # fmt: skip
def test_a_request_that_does_not_fit_the_context_is_refused_as_by_the_release(release, options, n, max_tokens, refusal):
    server = ENGINES["sglang"].start(f"sglang@{release}", "A", {"context_len": 100, **options}, "none")
    answer = server.submit(Request(tuple(range(1, n + 1)), 50, extra={"max_tokens": max_tokens}))
    assert (refusal in answer.error) if refusal else answer.error == ""


def test_devices_share_the_heads_of_a_layer():
    model = real_model("qwen3")
    one, two = (pool_sizes(V0_5_23, model, options({"tensor_parallel_size": n}), GIB).rows for n in (1, 2))
    assert two // 2 == one
