"""Readers of arguments with values of their own."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from cachesim.base.errors import BadInput
from cachesim.engines.shared.command_table import ParsedArgument, read_model_overrides
from cachesim.engines.vllm.command_table import (
    BACKENDS,
    COMMAND_TABLE,
    read_attention_config,
    read_backend,
    read_kv_transfer_config,
    read_max_model_len,
    read_offloading_size,
    read_speculative_config,
)

OFFLOADING = "OffloadingConnector"


def test_a_backend_with_a_unit_takes_its_multiples() -> None:
    sizes = BACKENDS["FLASHMLA"]
    assert [size for size in (32, 64, 96, 128, 192) if sizes.allow(size)] == [64, 128, 192]
    assert (sizes.words, sizes.otherwise, sizes.refuses) == ("multiples of 64", 64, True)


@pytest.mark.parametrize(("text", "number"), [("auto", -1), ("-1", -1), ("32k", 32_000), ("8192", 8192)])
def test_the_context_may_be_left_to_the_server(text: str, number: int) -> None:
    assert read_max_model_len(text).options == {"max_model_len": number}


def test_a_drafter_without_method_leaves_it_open() -> None:
    found = read_speculative_config({"model": "x", "num_speculative_tokens": 3})
    assert found.options == {"num_speculative_tokens": 3}
    assert [*found.needs] == ["speculative_method"] and found.ignored == ["model"]


def test_keys_of_a_drafter_are_options_ignored_or_refused() -> None:
    found = read_speculative_config({
        "method": "eagle", "num_speculative_tokens": 1, "disable_lookahead_block_hashes": True, "model": "x",
        "parallel_drafting": False, "num_speculative_tokens_per_batch_size": [[1, 2, 3]],
    })  # fmt: skip
    assert found.options == {
        "speculative_method": "eagle", "num_speculative_tokens": 1, "disable_lookahead_block_hashes": True,
    }  # fmt: skip
    assert found.refused == ["num_speculative_tokens_per_batch_size"]
    assert found.ignored == ["model", "parallel_drafting"]


def test_a_key_of_the_connector_must_have_its_type() -> None:
    extra = {"blocks_per_chunk": "2"}
    with pytest.raises(BadInput, match="blocks_per_chunk: expected int, found '2'"):
        read_kv_transfer_config({"kv_connector": "OffloadingConnector", "kv_connector_extra_config": extra})


def test_a_size_of_cpu_memory_leaves_the_number_of_chunks_open() -> None:
    assert read_offloading_size("0").needs == {}
    assert [*read_offloading_size("8").needs] == ["num_cpu_chunks"]


@pytest.mark.parametrize(("config", "refused"), [
    ({"kv_connector": "LMCacheConnectorV1"}, "kv_connector 'LMCacheConnectorV1' (the cache of LMCache in CPU memory "
                                             "and storage; only OffloadingConnector is simulated)"),
    ({"kv_connector": "NixlConnector"}, "kv_connector 'NixlConnector' (the server on its other side; only "
                                        "OffloadingConnector is simulated)"),
    ({"kv_connector": "MooncakeStoreConnector"}, "kv_connector 'MooncakeStoreConnector' (the store of Mooncake; only "
                                                 "OffloadingConnector is simulated)"),
    ({"kv_connector": "Own"}, "kv_connector 'Own' (only OffloadingConnector is simulated)"),
    ({}, "kv_connector None (only OffloadingConnector is simulated)"),
    ({"kv_connector": OFFLOADING, "kv_connector_extra_config": {"eviction_policy": "x"}}, "eviction_policy 'x'"),
    ({"kv_connector": OFFLOADING, "kv_connector_extra_config": {"spec_name": "Y"}}, "spec_name 'Y'"),
])  # fmt: skip
def test_other_connectors_and_policies_are_refused_by_name(config: dict[str, object], refused: str) -> None:
    assert read_kv_transfer_config(config).refused == (refused,)


@pytest.mark.parametrize(("config", "found"), [
    ({"method": "deepseek_mtp"}, ParsedArgument({"speculative_method": "mtp"}, [], [])),
    ({"method": "medusa"}, ParsedArgument({}, [], ["method 'medusa'"])),
    ({"method": "draft_model", "disable_lookahead_block_hashes": False, "quantization": None, "other": None, "x": 1},
     ParsedArgument({"speculative_method": "draft_model", "disable_lookahead_block_hashes": False},
                    ["quantization", "other"], ["x"])),
])  # fmt: skip
def test_a_drafter_is_read_as_a_whole(config: dict[str, object], found: ParsedArgument) -> None:
    assert read_speculative_config(config) == found


@pytest.mark.parametrize("number", [0, -1, 2.0, True, "3", None])
def test_a_number_of_drafts_is_an_integer_above_zero(number: object) -> None:
    with pytest.raises(BadInput, match="num_speculative_tokens: expected an integer above 0"):
        read_speculative_config({"method": "ngram", "num_speculative_tokens": number})
    assert read_speculative_config({"method": "ngram", "num_speculative_tokens": 1}).options[
        "num_speculative_tokens"] == 1  # fmt: skip


EXTRA = {"blocks_per_chunk": 2, "eviction_policy": "arc", "store_threshold": 3, "offload_prompt_only": False}
NEEDS = {"num_cpu_chunks": "the number of chunks in CPU memory depends on the size of a block"}


@pytest.mark.parametrize(("config", "found"), [
    ({}, ParsedArgument({}, [], [], needs=NEEDS)),
    ({"kv_role": "kv_both", "kv_connector_extra_config": EXTRA}, ParsedArgument(EXTRA, ["kv_role"], [], needs=NEEDS)),
    ({"kv_connector_extra_config": {"cpu_bytes_to_use": 9, "spec_name": "CPUOffloadingSpec", "block_size": 16}},
     ParsedArgument({}, ["cpu_bytes_to_use", "spec_name"], ["block_size"], needs=NEEDS)),
    ({"kv_connector_extra_config": {"eviction_policy": "lru", "cpu_bytes_to_use_per_rank": 9}},
     ParsedArgument({"eviction_policy": "lru"}, ["cpu_bytes_to_use_per_rank"], [], needs=NEEDS)),
])  # fmt: skip
def test_a_connector_to_cpu_memory_is_read_as_a_whole(config: dict[str, object], found: ParsedArgument) -> None:
    assert read_kv_transfer_config({"kv_connector": OFFLOADING, **config}) == found


@pytest.mark.parametrize("read", [read_speculative_config, read_kv_transfer_config, read_model_overrides])
def test_a_value_that_is_no_object_is_refused(read: Callable[[object], ParsedArgument]) -> None:
    with pytest.raises(BadInput, match=r"expected a JSON object, found 5"):
        read(5)


def test_the_other_readers_of_the_table() -> None:
    readers = COMMAND_TABLE.readers
    assert readers["--max-num-batched-tokens"]("8k").options == {"max_num_batched_tokens": 8000}
    assert readers["--spec-method"]("ngram").options == {"speculative_method": "ngram"}
    assert readers["--spec-model"]("x/y") == ParsedArgument(ignored=("x/y",))
    assert readers["--spec-tokens"]("4").options == {"num_speculative_tokens": 4}
    assert read_offloading_size("8") == ParsedArgument(ignored=("8",), needs=NEEDS)
    assert read_offloading_size("0.0") == ParsedArgument()
    inner = read_model_overrides({"text_config": {"rope_theta": 2, "x": 1}, "y": 1})
    assert (inner.ignored, inner.refused) == (["text_config", "rope_theta"], ["y", "x"])
    assert read_model_overrides({"text_config": 3}).ignored == ["text_config"]


@pytest.mark.parametrize(("name", "blocks"), [
    ("FLASHINFER_MLA", 32), ("cpu_attn", 32), ("FlashMLA", 64), ("HPC_ATTN", 64), ("CUTLASS_MLA", 128),
])  # fmt: skip
def test_a_backend_of_attention_may_need_longer_blocks(name: str, blocks: int) -> None:
    [allowed] = read_backend(name).allowed
    assert read_backend(name) == ParsedArgument(allowed=(allowed,))
    assert read_attention_config({"backend": name, "use_x": 1}) == ParsedArgument(
        allowed=(allowed,), ignored=["use_x"])
    assert [size for size in (16, 32, 64, 96, 128) if allowed.allow(size)] == [
        size for size in (32, 64, 96, 128) if not size % blocks]


def test_another_backend_is_named_as_a_limit() -> None:
    assert read_backend("Flash_Attn") == ParsedArgument(limits=("Flash_Attn",))
    assert read_attention_config({"backend": "x"}) == ParsedArgument(limits=("x",), ignored=[])
    assert read_attention_config({"use_x": 1, "backend": ""}) == ParsedArgument(ignored=["use_x"])
    with pytest.raises(BadInput, match="expected a JSON object, found 5"):
        read_attention_config(5)
