"""``run --kv-events``: the messages of a run, with hashes that the released classes compute, and refusals."""

from __future__ import annotations

import json

import pytest

from cachesim.base import exits
from cachesim.cli.main import main

LINE = "A8/A.B8/C40/A"
SMALL = ("--model", "A", "--set", "block_size=4", "--set", "num_gpu_blocks=13")


def messages(tmp_path, *words):
    """Run a line and return its messages."""
    file = tmp_path / "events.jsonl"
    assert main(["run", *words, "--kv-events", str(file)]) == exits.HOLDS
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_a_run_writes_the_messages_of_its_server_with_the_number_of_the_step(tmp_path):
    found = messages(tmp_path, LINE, "-p", "vllm@0.33.0", *SMALL)
    assert [one["seq"] for one in found] == list(range(len(found)))
    assert {one["payload"][0] for one in found} == {0.0, 1.0, 2.0, 3.0}
    first, *_ = found[0]["payload"][1]
    assert found[0]["payload"][2] == 0 and first == {
        "type": "BlockStored", "block_hashes": first["block_hashes"], "parent_block_hash": None,
        "token_ids": first["token_ids"], "block_size": 4, "lora_id": None, "medium": "GPU", "lora_name": None,
        "extra_keys": [None, None], "group_idx": 0, "kv_cache_spec_kind": "full_attention"}  # fmt: skip
    events = [event for one in found for event in one["payload"][1]]
    stored = {digest for event in events if event["type"] == "BlockStored" for digest in event["block_hashes"]}
    removed = {digest for event in events if event["type"] == "BlockRemoved" for digest in event["block_hashes"]}
    assert removed and removed <= stored


@pytest.mark.parametrize(("words", "hashes"), [
    (["-p", "vllm@0.33.0"], [5160124834463444493, 881344537972422226]),
    (["-p", "vllm@0.33.0", "--kv-hash", "sha256_cbor"], [16770503361441375411, 6199873008978421594]),
    (["-p", "vllm@0.33.0", "--kv-hash-seed", "0"], [16633476083575556675, 5517135347774871626]),
    (["-p", "sglang@0.5.23"], [2113097436205950712, 3163135733697444377]),
])  # fmt: skip
def test_hashes_are_those_that_the_released_functions_return_for_these_tokens(tmp_path, words, hashes):
    sizes = ["--set", "page_size=4"] if "sglang@0.5.23" in words else SMALL[2:]
    found = messages(tmp_path, LINE, *words, "--model", "A", *sizes)
    stored = next(event for one in found for event in one["payload"][1] if event["type"] == "BlockStored")
    assert stored["token_ids"][:8] == list(range(1000, 1008))
    assert stored["block_hashes"][:2] == hashes


def test_a_restarted_server_numbers_its_messages_from_zero(tmp_path):
    found = messages(tmp_path, "A8/{restart}/A", "-p", "vllm@0.33.0", *SMALL)
    assert [one["seq"] for one in found].count(0) == 2


@pytest.mark.parametrize("words", [
    ["-p", "llama_cpp@latest"], ["-p", "mlx_lm"], ["-p", "vllm", "-p", "sglang"],
    ["-p", "sglang@0.5.9"], ["-p", "sglang", "--kv-hash", "sha256"], ["-p", "vllm", "--kv-hash", "xxhash"],
    ["-p", "vllm", "--set", "num_cpu_chunks=8"], ["-p", "vllm", "--set", "multimodal=1"],
    ["-p", "sglang", "--set", "enable_hierarchical_cache=1"],
])  # fmt: skip
def test_a_run_without_known_events_is_refused_in_one_line(tmp_path, capsys, words):
    file = tmp_path / "events.jsonl"
    assert main(["run", LINE, "--model", "A", *words, "--kv-events", str(file)]) == exits.BAD_INPUT
    assert len(capsys.readouterr().err.strip().splitlines()) == 1 and not file.exists()


def test_options_of_hashes_need_a_file(capsys):
    assert main(["run", LINE, "-p", "vllm", "--kv-hash", "sha256"]) == exits.BAD_INPUT
    assert "--kv-events" in capsys.readouterr().err
