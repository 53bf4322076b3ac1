"""vLLM 0.33.0: KVCacheManager with a group of full attention, or with a second group with a sliding window.

    python -m tests.adapters.vllm_blocks window
"""

from __future__ import annotations

import sys

import torch
from vllm.sampling_params import SamplingParams
from vllm.utils.hashing import sha256
from vllm.v1.core.kv_cache_manager import KVCacheManager
from vllm.v1.core.kv_cache_utils import get_request_block_hasher, init_none_hash
from vllm.v1.core.single_type_kv_cache_manager import register_all_kvcache_specs
from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig, KVCacheGroupSpec, SlidingWindowSpec
from vllm.v1.request import Request

from cachesim.tools.conformance import PagedMemory, conform

BLOCK, WINDOW, BLOCKS = 4, 6, {"full": 14, "window": 26}          # few: blocks are handed out again
SIZE = {"block_size": BLOCK, "num_kv_heads": 1, "head_size": 1, "dtype": torch.float32}


class Blocks:
    """The manager of a server, and the content that the model would write into the device memory of each group."""

    def __init__(self, kind):
        specs = [FullAttentionSpec(**SIZE)] + [SlidingWindowSpec(sliding_window=WINDOW, **SIZE)] * (kind == "window")
        groups = [KVCacheGroupSpec([f"layer{number}"], spec) for number, spec in enumerate(specs)]
        self.manager = KVCacheManager(KVCacheConfig(BLOCKS[kind], [], groups), 256, BLOCK, BLOCK)
        self.memory = [PagedMemory(BLOCK, getattr(spec, "sliding_window", None)) for spec in specs]
        self.hash = get_request_block_hasher(BLOCK, sha256)

    def complete(self, prompt, n_predict, cache=True):
        """Evaluate the prompt; the fingerprint is the digests of the slots that every group read for the last token."""
        request = Request("one", prompt, SamplingParams(max_tokens=n_predict), None, block_hasher=self.hash)
        request.skip_reading_prefix_cache = not cache
        blocks, cached, request.shared_prefix_boundary = self.manager.get_computed_blocks(request)
        tokens, start = [], cached
        while len(tokens) < n_predict:
            new = request.all_token_ids[start:]
            self.manager.new_step_starts()
            assert self.manager.allocate_slots(request, len(new), *(() if tokens else (cached, blocks))) is not None
            tables = self.manager.get_block_ids(request.request_id)
            digests = [one.evaluate(table, start, new) for one, table in zip(self.memory, tables, strict=True)]
            tokens.append(digests[0] % 29_000 + 1_000)
            request.append_output_token_ids(tokens[-1])
            start = request.num_computed_tokens = start + len(new)
        self.manager.free(request)
        return {"tokens": tokens, "fingerprint": digests, "cached": cached, "evaluated": len(prompt) - cached}


if __name__ == "__main__":
    register_all_kvcache_specs(None)
    init_none_hash(sha256)
    report = conform(lambda: Blocks(sys.argv[1]), max_examples=100, max_prompt=40, near=[BLOCK, WINDOW], check=False)
    print(report)
    sys.exit(not report.conforms)
