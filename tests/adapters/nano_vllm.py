"""nano-vllm-voxcpm 2.0.5: nano-vllm's Scheduler and BlockManager, as this package releases them.

    python -m tests.adapters.nano_vllm 4

The argument is the block size. Only the modules of the scheduler are executed: the package itself imports kernels.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from types import ModuleType, SimpleNamespace

from cachesim.tools.conformance import PagedMemory, conform

BLOCKS = 14                # few: blocks are handed out again
PACKAGE = ModuleType("nanovllm_voxcpm")
PACKAGE.__path__ = find_spec(PACKAGE.__name__).submodule_search_locations
CONFIG = ModuleType("nanovllm_voxcpm.config")
CONFIG.Config = SimpleNamespace
sys.modules.update({one.__name__: one for one in (PACKAGE, CONFIG)})

from nanovllm_voxcpm.engine.scheduler import Scheduler  # noqa: E402
from nanovllm_voxcpm.engine.sequence import Sequence  # noqa: E402


class Blocks:
    """The scheduler of a server, and the content that the model would write into each block."""

    def __init__(self, size):
        self.size, self.memory = size, PagedMemory(size)
        self.scheduler = Scheduler(SimpleNamespace(max_num_seqs=1, max_num_batched_tokens=1_000,
                                                   num_kvcache_blocks=BLOCKS, kvcache_block_size=size))  # fmt: skip

    def complete(self, prompt, n_predict):
        """Evaluate the prompt; the fingerprint is the digest of the slots that were read for its last token."""
        sequence, digests, cached = Sequence("one", prompt, self.size), [], 0
        self.scheduler.add(sequence)
        while len(digests) < n_predict:
            _, prefill = self.scheduler.schedule()
            start = sequence.num_cached_tokens if prefill else len(sequence) - 1
            cached = cached if digests else start
            digests.append(self.memory.evaluate(sequence.block_table, start, sequence.token_ids[start:]))
            sequence.append_token(digests[-1] % 29_000 + 1_000)
        self.scheduler.finish(sequence)
        tokens = sequence.token_ids[len(prompt):]
        return {"tokens": tokens, "fingerprint": digests[0], "cached": cached, "evaluated": len(prompt) - cached}


if __name__ == "__main__":
    size = int(sys.argv[1])
    report = conform(lambda: Blocks(size), max_examples=100, max_prompt=40, near=[size], check=False)
    print(report)
    sys.exit(not report.conforms)
