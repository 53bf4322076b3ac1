"""The ``Engine`` of this package: its rule sets, its options, and how its server starts."""

from __future__ import annotations

from dataclasses import replace
from typing import AbstractSet, Any, Mapping

from cachesim.engines.contract import Engine, RecordingFormat
from cachesim.engines.shared.engine_face import (
    RuleSetsOnDemand,
    bodies_of,
    capacity_of,
    class_test_of,
    classes_of,
    command_of,
    layers_of,
    log_of,
    memory_of,
    say_of,
    serve_of,
)
from cachesim.engines.shared.rule_set import RuleSet
from cachesim.engines.vllm.flags import options
from cachesim.engines.vllm.history import BESIDE, LINE, TIMELINE
from cachesim.engines.vllm.manual import MANUAL
from cachesim.model import Spec


def _derived(rules: RuleSet, given: Mapping[str, Any]) -> list[str]:
    """Return what the release derives at its start from the given options: sizes of blocks, and defaults."""
    from cachesim.engines.vllm.page_sizes import derived_blocks
    from cachesim.engines.vllm.pool_size import derived_pool
    from cachesim.engines.vllm.profiles import Rules
    from cachesim.engines.vllm.start_options import derived_defaults, logged_pool

    assert isinstance(rules, Rules)
    opts = options(given)
    pool = logged_pool(rules, given)
    if not opts.kv_cache_size_tokens and "num_gpu_blocks" not in given:
        pool = derived_pool(rules, opts)
    return [*derived_blocks(rules, opts), *pool, *derived_defaults(rules, given)]


def _replaced(rules: RuleSet, given: Mapping[str, Any]) -> AbstractSet[str]:
    """Return "block_size" if the groups of layers have blocks of other lengths."""
    from cachesim.engines.vllm.page_sizes import has_blocks_of_size
    from cachesim.engines.vllm.profiles import Rules

    assert isinstance(rules, Rules)
    return frozenset() if has_blocks_of_size(rules, options(given)) else frozenset({"block_size"})


def _resolved(rules: RuleSet, spec: Spec, given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the options with those that the release resolves at its start, from its model and the options given."""
    from cachesim.engines.vllm.profiles import Rules
    from cachesim.engines.vllm.start_options import resolved

    assert isinstance(rules, Rules)
    return resolved(rules, spec, given)


def _check_start(rules: RuleSet, model: str, given: Mapping[str, Any]) -> None:
    """Raise BadInput for a maximum length above that of the model, and for a pool that does not hold a request of it:
    a known one, or the largest that the device can hold."""
    from cachesim.engines.vllm.kv_cache_planning import check_enough_kv_cache_memory, get_kv_cache_config
    from cachesim.engines.vllm.pool_size import most_blocks
    from cachesim.engines.vllm.profiles import Rules
    from cachesim.engines.vllm.start_options import check_length

    assert isinstance(rules, Rules)
    check_length(rules, given)
    spec = layers_of(model, rules).spec
    found = _resolved(rules, spec, rules.options(given))
    opts = options(found)
    most = found["num_gpu_blocks"] if "num_gpu_blocks" in found else most_blocks(rules, opts)
    if most:
        opts = replace(opts, num_gpu_blocks=most)
        check_enough_kv_cache_memory(rules, opts, get_kv_cache_config(rules, opts, spec))


PACKAGE = __name__.rpartition(".")[0]
PROFILES = RuleSetsOnDemand(PACKAGE, LINE, BESIDE)
ENGINE = Engine(
    "vllm", PROFILES, MANUAL, serve=serve_of(PACKAGE, options, resolve=_resolved), say=say_of(PACKAGE),
    recorded=RecordingFormat("vllm", classes=classes_of(PACKAGE)), line=LINE, beside=BESIDE, newest=LINE[-1],
    when=TIMELINE, keeps="restore point", log=log_of(PACKAGE), memory=memory_of(PACKAGE), capacity=capacity_of(PACKAGE),
    command=command_of(PACKAGE), class_test=class_test_of(PACKAGE),
    derived=_derived,
    replaced=_replaced,
    check_start=_check_start,
    chat_bodies=bodies_of(PACKAGE),
    words=r"\bprefix[ _-]cach(e|ing)\b|\bapc\b|\benginecore\b|num_cached_tokens|\bblock[ _-]?size\b|"
          r"\bnum_gpu_blocks\b|\bpreempt|gpu_memory_utilization|\bkv cache usage\b|prompt_tokens_details|"
          r"\bprefix_cache_(hits|queries)\b|\bhit rate\b",
)  # fmt: skip

__all__ = ["ENGINE", "PROFILES"]
