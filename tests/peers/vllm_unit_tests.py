"""vLLM's own unit tests on our engine: ``python -m tests.peers.vllm_unit_tests FOLDER``, the folder of vLLM's tests.

Before the tests are imported, our classes replace vLLM's (vllm_names, vllm_managers, vllm_scheduler). A test that needs
what the engine does not simulate is not applicable. The outcomes are compared with the table vllm_unit_tests.json.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import re
import sys
import tempfile
from collections import Counter
from pathlib import Path

import pytest

from cachesim.base import exits
from cachesim.base.console import complain

HERE = Path(__file__).parent
TABLE = HERE / "vllm_unit_tests.json"
CORE = "vllm.v1.core"
FILES = (
    "test_kv_cache_utils.py", "test_prefix_caching.py", "test_single_type_kv_cache_manager.py", "test_mamba_align_chunk_split.py",
    "test_scheduler.py", "test_async_scheduler.py", "test_priority_preemption_bug.py",
    "test_priority_scheduler_random.py", "test_swa_inflight_window_free.py", "test_deferred_block_free.py",
    "test_worker_slot_overflow.py", "test_prefix_replay.py", "prefix_cache/test_mamba_eagle_resume_checkpoint.py",
    "prefix_cache/test_partial_prefix_cache_hits.py", "prefix_cache/test_partial_prefix_cache_primitives.py",
)  # fmt: skip
MODEL = {
    "architectures": ["OPTForCausalLM"], "model_type": "opt", "hidden_size": 768, "num_attention_heads": 12,
    "num_hidden_layers": 12, "ffn_dim": 3072, "max_position_embeddings": 2048, "vocab_size": 50272,
    "word_embed_proj_dim": 768, "bos_token_id": 2, "eos_token_id": 2, "pad_token_id": 1, "torch_dtype": "float16",
}  # fmt: skip


def replace_classes():
    """Put our classes in the place of vLLM's."""
    from vllm import platforms
    from vllm.platforms.cpu import CpuPlatform

    platforms.current_platform = CpuPlatform()
    from tests.peers import vllm_managers, vllm_names, vllm_scheduler

    places = {
        "block_pool": (vllm_names, ("BlockPool",)),
        "kv_cache_utils": (vllm_names, ("FreeKVCacheBlockQueue",)),
        "single_type_kv_cache_manager": (vllm_managers, (
            "FullAttentionManager", "RSWAManager", "SlidingWindowManager", "ChunkedLocalAttentionManager",
            "MambaManager")),
        "kv_cache_manager": (vllm_managers, ("KVCacheManager",)), "sched.scheduler": (vllm_scheduler, ("Scheduler",)),
        "sched.async_scheduler": (vllm_scheduler, ("AsyncScheduler",)),
    }  # fmt: skip
    for module, (ours, names) in places.items():
        real = importlib.import_module(f"{CORE}.{module}")
        for name in names:
            setattr(real, name, getattr(ours, name))


class Outcomes:
    """Collects the outcome of each test: passed, failed or why it is not applicable."""

    def __init__(self):
        self.found = {}

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(self, item, call):
        """Note an outcome."""
        report = (yield).get_result()
        name = item.nodeid.partition("v1/core/")[2]
        if report.failed:
            self.found[name] = cause(call.excinfo.value)
        elif report.when == "call":
            self.found.setdefault(name, "passed" if report.passed else "not applicable: skipped by vLLM")


def cause(error):
    """Return the outcome for an exception."""
    from tests.peers.vllm_names import NotSimulated

    known = {"Regex pattern did not match": "wording of an error", "Can't load the configuration of": "other models",
             "couldn't connect to": "other models"}  # fmt: skip
    for words, reason in known.items():
        if words in str(error):
            return f"not applicable: {reason}"
    while error is not None:
        if isinstance(error, NotSimulated):
            return f"not applicable: {error}"
        error = error.__cause__ or error.__context__
    return "failed"


def run(folder, arguments):
    """Run the tests and return the outcomes by test."""
    work = Path(tempfile.mkdtemp())
    model = work / "facebook" / "opt-125m"
    model.mkdir(parents=True)
    (model / "config.json").write_text(json.dumps(MODEL))
    os.chdir(work)
    os.environ["HF_HUB_OFFLINE"] = "1"
    sys.path.insert(1, str(folder.parent))
    sys.modules.pop("tests.v1", None)
    import tests

    tests.__path__.append(str(folder))
    replace_classes()
    outcomes = Outcomes()
    paths = [str(folder / "v1" / "core" / name) for name in FILES]
    pytest.main([*(arguments or paths), "--noconftest", "-p", "no:cacheprovider", "-q", "--rootdir", str(folder.parent),
                 "--import-mode=importlib", "-W", "ignore"], plugins=[outcomes])  # fmt: skip
    return outcomes.found


if __name__ == "__main__":
    found = run(Path(sys.argv[1]).resolve(), sys.argv[2:])
    for name, n in Counter(re.sub(r": .*", "", value) for value in found.values()).most_common():
        print(f"{name:20} {n}")
    for name, n in Counter(found.values()).most_common():
        print(f"    {n:5} {name}")
    sys.stdout.flush()
    os._exit(0)
