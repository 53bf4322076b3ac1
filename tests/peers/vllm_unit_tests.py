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
from collections import Counter, defaultdict
from pathlib import Path
from types import SimpleNamespace

import pytest

from cachesim.base import exits
from cachesim.base.console import complain

HERE = Path(__file__).parent
TABLE = HERE / "vllm_unit_tests.json"
CORE = "vllm.v1.core"
FILES = (
    "test_kv_cache_utils", "test_prefix_caching", "test_single_type_kv_cache_manager", "test_mamba_align_chunk_split",
    "test_scheduler", "test_async_scheduler", "test_priority_preemption_bug", "test_priority_scheduler_random",
    "test_swa_inflight_window_free", "test_deferred_block_free", "test_worker_slot_overflow", "test_prefix_replay",
    "prefix_cache/test_mamba_eagle_resume_checkpoint", "prefix_cache/test_partial_prefix_cache_hits",
    "prefix_cache/test_partial_prefix_cache_primitives",
)  # fmt: skip
MEDIA, INTERNALS = "media, pooling, sessions and structured outputs", "internals of vLLM's classes"
APART, ELSEWHERE = "not applicable", "uses none of the replaced classes"
TOLD = {
    "Regex pattern did not match": "wording of an error", "Invalid repository ID": "models other than OPT",
    "has no attribute '_": INTERNALS,
}  # fmt: skip
BY_HAND = {
    "test_free_kv_cache_block_queue_append_n": "changes links by hand",
    "test_update_draft_token_ids_strips_ngram_padding": MEDIA, "test_skip_drafts_only_when_no_request_can_use_them":
    "what the worker may leave out", "test_spec_decode_padding_skipped_for_diffusion": "diffusion",
    "test_spec_decode_padding_dropped_when_recurrent_alignment_clips": "replaces methods of vLLM's scheduler",
    "test_allocation_retry_waits_for_fence_then_succeeds": "replaces methods of vLLM's managers",
    "test_eagle_group_registers_unaligned_tail_under_partial_hash_hits": "replaces methods of vLLM's managers",
}  # fmt: skip
REASONS = {
    "HiSparse": "HiSparse", "events": "events and metrics of blocks", "Statistics|make_stats|stats": "statistics",
    "external|connector|offload|delay_cache|remote|defer|reserved|take_boundary|kv_recv|truncate|per_group|"
    "kv_xfer|pop_blocks": "connectors",
    "media|pooling|sessions|structured|encoder": MEDIA, r"^Scheduler\.|^\w*Manager\.|^Block": INTERNALS,
}  # fmt: skip
MODEL = {
    "architectures": ["OPTForCausalLM"], "model_type": "opt", "hidden_size": 768, "num_attention_heads": 12,
    "num_hidden_layers": 12, "ffn_dim": 3072, "max_position_embeddings": 2048, "vocab_size": 50272,
    "word_embed_proj_dim": 768, "bos_token_id": 2, "eos_token_id": 2, "pad_token_id": 1, "torch_dtype": "float16",
}  # fmt: skip


def replace_classes():
    """Put our classes in the place of vLLM's."""
    from vllm import platforms
    from vllm.platforms.cpu import CpuPlatform
    from vllm.transformers_utils import repo_utils

    platforms.current_platform = CpuPlatform()
    repo_utils.time = SimpleNamespace(sleep=lambda _: None)           # a model that is absent stays absent
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

    def pytest_runtest_setup(self, item):
        """Forget what earlier tests used."""
        from tests.peers.vllm_names import USED

        USED.clear()

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(self, item, call):
        """Note an outcome."""
        from tests.peers.vllm_names import USED

        report = (yield).get_result()
        name = item.nodeid.partition("v1/core/")[2]
        plain = name.partition("::")[2].partition("[")[0]
        if report.failed:
            self.found[name] = cause(call.excinfo.value, bool(USED))
            if plain in BY_HAND:
                self.found[name] = f"{APART}: {BY_HAND[plain]}"
            if self.found[name] == "failed":
                print(f"\n{name}\n{report.longreprtext}", flush=True)
        elif report.when == "call":
            self.found.setdefault(name, "passed" if report.passed and USED else f"{APART}: {ELSEWHERE}")


def cause(error, used):
    """Return the outcome for an exception."""
    from tests.peers.vllm_names import NotSimulated

    for words, reason in TOLD.items():
        if words in str(error):
            return f"{APART}: {reason}"
    while error is not None:
        if isinstance(error, NotSimulated):
            return f"{APART}: {reason_of(str(error))}"
        error = error.__cause__ or error.__context__
    return "failed" if used else f"{APART}: {ELSEWHERE}"


def reason_of(text):
    """Return the group of a reason."""
    return next((reason for pattern, reason in REASONS.items() if re.search(pattern, text)), text)


def run(folder, arguments):
    """Run the tests and return the outcomes by test."""
    work = Path(tempfile.mkdtemp())
    for name in ("opt-125m", "opt-350m"):
        (work / "facebook" / name).mkdir(parents=True)
        (work / "facebook" / name / "config.json").write_text(json.dumps(MODEL))
    os.chdir(work)
    os.environ["HF_HUB_OFFLINE"] = "1"
    sys.path.insert(1, str(folder.parent))
    import tests

    tests.__path__.append(str(folder))
    replace_classes()
    outcomes = Outcomes()
    paths = [str(folder / "v1" / "core" / f"{name}.py") for name in FILES]
    pytest.main([*(arguments or paths), "-c", os.devnull, "--noconftest", "-p", "no:cacheprovider", "-q",
                 "--rootdir", str(folder.parent), "--import-mode=importlib", "-W", "ignore", "--tb=short",
                 "--no-summary", "--show-capture=no"], plugins=[outcomes])  # fmt: skip
    return outcomes.found


def counted(outcomes):
    """Return the number of tests by test function and outcome."""
    found = defaultdict(Counter)
    for name, outcome in outcomes.items():
        found[name.partition("[")[0]][outcome] += 1
    return {name: dict(sorted(counts.items())) for name, counts in sorted(found.items())}


def report(found):
    """Print the outcomes."""
    total = Counter()
    for counts in found.values():
        total.update(counts)
    applicable = {name: n for name, n in total.items() if not name.startswith(APART)}
    print(f"{sum(total.values())} tests, {sum(applicable.values())} applicable: "
          + ", ".join(f"{n} {name}" for name, n in sorted(applicable.items(), reverse=True)))
    for name, n in total.most_common():
        if name.startswith(APART):
            print(f"{n:6} {name}")


def main(argv):
    """Run the tests and compare with the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.peers.vllm_unit_tests", description=__doc__)
    parser.add_argument("folder", type=Path, help="the folder tests of vLLM's source distribution")
    parser.add_argument("paths", nargs="*", type=Path, help="single files or tests")
    parser.add_argument("--write", action="store_true", help="write the table")
    args = parser.parse_args(argv)
    if not (args.folder / "v1" / "core").is_dir():
        complain(f"not vLLM's folder tests: {str(args.folder)!r} (unpack the source distribution of vLLM 0.33.0)")
        return exits.BAD_INPUT
    found = counted(run(args.folder.resolve(), [str(path.resolve()) for path in args.paths]))
    report(found)
    known = json.loads(TABLE.read_text()) if TABLE.exists() else {}
    if args.write:
        known = (known | found) if args.paths else found
        TABLE.write_text(json.dumps(known, indent=0, sort_keys=True) + "\n")
    changed = {name for name in ({*found} if args.paths else {*found, *known}) if found.get(name) != known.get(name)}
    for name in sorted(changed):
        complain(f"{name}: expected {known.get(name)}, found {found.get(name)}")
    return exits.BROKEN if changed else exits.HOLDS


if __name__ == "__main__":
    code = main(sys.argv[1:])
    sys.stdout.flush()
    os._exit(code)                  # vLLM's background threads do not end
