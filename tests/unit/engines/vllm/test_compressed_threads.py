"""Token counts that public threads on DeepSeek V4 state, beside those of the simulated servers.

The devices of Ascend have other blocks than vLLM's own planning, which ``kv_groups`` states. The thread of SGLang has
V4.1, whose pages and pool of windows are those of its log.
"""

from __future__ import annotations

import json

import pytest

from cachesim.base import exits
from cachesim.cli.main import main
from cachesim.engines.vllm.flags import options
from cachesim.engines.vllm.page_sizes import compressed_groups

MTP = ("--set", "speculative_method=mtp", "--set", "num_speculative_tokens=1")
ASCEND = ("-p", "vllm@0.32.0", "--model", "W128 A", "--set")
QWEN = ("--server", "vllm serve Qwen/Qwen3.8-27B")


@pytest.mark.parametrize(("thread", "line", "flags", "loaded"), [
    ("vllm-project/vllm-ascend#10710", "P20000>1/P>1", (*ASCEND, "kv_groups=A/16384 W128/128"), [0, 16384]),
    ("vllm-project/vllm-ascend#10710", "P20000>1/P>1", (*ASCEND, "kv_groups=A/16384 W128/128e", *MTP), [0, 0]),
    ("vllm-project/vllm-ascend#10710", "P33000>1/P>1", (*ASCEND, "kv_groups=A/16384 W128/128e", *MTP), [0, 16384]),
    ("vllm-project/vllm-ascend#10710", "P5000>1/P>1", (*ASCEND, "kv_groups=A/4096 W128/128e", *MTP), [0, 0]),
    ("vllm-project/vllm-ascend#9326", "P32274.A32256>1/P.B32256>1",
     (*ASCEND, "kv_groups=A/16384 W128/128e", *MTP), [0, 0]),
    ("vllm-project/vllm-ascend#8977", "P2000.A500>50/P.B500>50", (*ASCEND, "kv_groups=A/16384 W128/128"), [0, 0]),
    ("vllm-project/vllm-ascend#16270", "P2048>1/P>1", (*ASCEND, "kv_groups=A/4096 W128/128"), [0, 0]),
    ("LMCache/LMCache#5079", "P5000>1/P>1", QWEN, [0, 4704]),
])  # fmt: skip
def test_the_reused_tokens_of_a_thread(capsys, thread, line, flags, loaded):
    assert main(["run", line, *flags, "--json"]) == exits.HOLDS
    requests = json.loads(capsys.readouterr().out)["runs"][0]["requests"]
    assert [one["loaded"] for one in requests] == loaded, thread


def test_the_blocks_of_a_long_prefix_in_a_server_of_five_groups():
    """vllm-project/vllm#42948: 128 + 512 + 512 + 8192 + 4096 blocks for 32,768 tokens."""
    groups = compressed_groups(options({"real_model": "deepseek-v4"}))
    assert sorted(32768 // group.caches[0].block for group in groups) == [128, 512, 512, 4096, 8192]


@pytest.mark.long
def test_two_long_conversations_lose_each_others_windows(capsys):
    """MiaAI-Lab/DeepSeek-v4.1-Flash-DGX-Sparks#27: full=8000000, swa=45568, prompts of 998,609 and 887,653 tokens.
    Here prompts and windows have a tenth."""
    server = "python -m sglang.launch_server --model-path deepseek-ai/DeepSeek-V4-Flash --max-total-tokens 800000"
    line = "P99861>1/P>1/Q88765>1/Q>1/P>1/Q>1"
    limit = ("--limit", "tokens=2000000", "--set", "swa_tokens=4608")
    assert main(["run", line, "--server", server, *limit, "--json"]) == exits.HOLDS
    requests = json.loads(capsys.readouterr().out)["runs"][0]["requests"]
    assert [one["loaded"] for one in requests] == [0, 99840, 0, 88576, 0, 0]
