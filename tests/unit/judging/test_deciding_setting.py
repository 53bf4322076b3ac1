"""Settings that decided a loss: ``why`` names planted causes first, with the tokens that another value reuses."""

from __future__ import annotations

import json
from shlex import split

import pytest

from cachesim.cli.main import main

CAUSES = [
    ("A300/A.B20 1 -p llama_cpp --model A --no-cache-prompt", {"cache_prompt": True}, 300, None),
    ("A300/A.B20/A.C20 2 -p llama_cpp --model GA -ctxcp 0", {"ctx_checkpoints": 2}, 300, (1, 0)),
    ("A300/A.B20 1 -p llama_cpp --model A -c 256", {"ctx_size": 512}, 300, (256, 0)),
    ("A300/B300/C300/A.D20 3 -p ik_llama --model A --cache-ram 0", {"cache_ram": 8192}, 300, None),
    ("A300/B300/A.C20 2 -p ik_llama --model A -cram-n-min 1000", {"cache_ram_n_min": 0}, 300, None),
    ("A300/B300/C300/A.D20 3 -p mlx_lm --model A --prompt-cache-size 1", {"prompt_cache_size": 3}, 300, (2, 0)),
    ("A300/B300/A.C20 2 -p mlx_lm --model A --prompt-cache-bytes 1000", {"prompt_cache_bytes": 0}, 300, None),
    ("A300/A.B20 1 -p vllm --model A --no-enable-prefix-caching", {"enable_prefix_caching": True}, 288, None),
    ("A300/A.B20 1 -p vllm --model W32A --set 'kv_groups=A/16 W32/128'", {"kv_groups": ""}, 288, None),
    ("A300/B300/A.D20 2 -p vllm --model A --num-gpu-blocks-override 30", {"num_gpu_blocks": 38}, 288, (37, 272)),
    ("A300/A.B20 1 -p sglang --model A --page-size 64", {"page_size": 1}, 300, None),
    ("A300/B300/A.D20 2 -p sglang --model A --max-total-tokens 400", {"max_total_tokens": 600}, 300, (599, 0)),
    # causes that only act together
    ("A300/B300/A.D20 2 -p vllm --model A --num-gpu-blocks-override 30 --no-enable-prefix-caching",
     {"num_gpu_blocks": 38, "enable_prefix_caching": True}, 288, (37, 272)),
    ("A300/B300/C300/A.D20 3 -p mlx_lm --model A --prompt-cache-size 1 --prompt-cache-bytes 1000",
     {"prompt_cache_size": 3, "prompt_cache_bytes": 0}, 300, (2, 0)),
    ("A300/B300/A.D20 2 -p sglang --model A --max-total-tokens 400 --disable-radix-cache",
     {"max_total_tokens": 600, "disable_radix_cache": False}, 300, (599, 0)),
]  # fmt: skip


def why(text, capsys):
    main(["why", *split(text), "--json"])
    return json.loads(capsys.readouterr().out)["why"][0]


@pytest.mark.parametrize(("case", "options", "reused", "below"), CAUSES)
def test_a_planted_cause_is_named_first(case, options, reused, below, capsys):
    found = why(case, capsys)["settings"]
    best = found["together"] or found["cures"][0]
    assert found["leads"]
    assert {one["name"]: one["value"] for one in best["options"]} == options
    assert (best["cache_n"], best["status"]) == (reused, 200)
    assert best["below"] == (below and {"value": below[0], "cache_n": below[1]})
    assert (found["together"] is not None) is (len(options) > 1)
    assert best["text"] in found["says"][0] and "decided" in found["says"][0]


def test_more_tokens_than_the_present_server_evaluates_are_not_a_part_of_these(capsys):
    """ik_llama.cpp cuts a prompt that is longer than the context; with a larger one all of it is reused."""
    found = why("A300>a8/A.a.B20>4 1 -p ik_llama --model A -c 256", capsys)["settings"]
    assert found["reusable"] < found["cures"][0]["cache_n"] == 307
    assert found["says"][0] == "-c 256 decided: with -c 512 307 tokens are reused, with 256 only 0"


def test_the_value_is_what_a_run_with_it_reuses(capsys):
    case = "A300/B300/A.D20 2 -p vllm --model A --num-gpu-blocks-override"
    assert why(f"{case} 38", capsys)["cache_n"] == 288
    assert why(f"{case} 37", capsys)["cache_n"] == 272


@pytest.mark.parametrize("case", [
    "A300/A.B20/A.C20 2 -p llama_cpp --model GA", "A300/A.B20 0 -p sglang --model A --page-size 64",
])  # fmt: skip
def test_a_request_that_lost_nothing_has_no_setting_to_change(case, capsys):
    assert why(case, capsys)["settings"] is None


def test_an_assumed_pool_is_no_cause(capsys):
    found = why("A300/A.B20 1 -p vllm --model A --block-size 64", capsys)["settings"]
    names = {option["name"] for cure in found["cures"] for option in cure["options"]}
    assert "block_size" in names and "num_gpu_blocks" not in names
