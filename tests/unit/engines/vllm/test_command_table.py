"""Readers of arguments with values of their own."""

from __future__ import annotations

import pytest

from cachesim.base.errors import BadInput
from cachesim.engines.vllm.command_table import (
    read_kv_transfer_config,
    read_max_model_len,
    read_offloading_size,
    read_speculative_config,
)

OFFLOADING = "OffloadingConnector"


@pytest.mark.parametrize(("text", "number"), [("auto", 0), ("-1", 0), ("32k", 32_000), ("8192", 8192)])
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
