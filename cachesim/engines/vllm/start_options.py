"""Options that a release resolves at its start, from its model, its drafter and its device.

Source: vLLM vllm/engine/arg_utils.py, vllm/config/vllm.py, vllm/model_executor/models/config.py (0.33.0).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Mapping

from cachesim.base.errors import NotInBuild
from cachesim.engines.vllm.flags import options
from cachesim.model import Spec

if TYPE_CHECKING:
    from cachesim.engines.vllm.profiles import Rules


def resolved(rules: Rules, spec: Spec, given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return options with the defaults that the server chooses. Raise BadInput for a bad value, and for a combination
    with which the release does not start."""
    found = _resolved(rules, given)
    caching = found.setdefault("enable_prefix_caching", rules.prefix_caching(any(one.part for one in spec.layers)))
    found["mamba_cache_mode"] = rules.mamba_cache_mode(options(given).mamba_cache_mode, caching)
    return found


def _resolved(rules: Rules, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return options with the defaults that do not depend on the model."""
    asked = options(given)
    overlaps = rules.async_scheduling(asked.speculative_method)
    if given.get("async_scheduling") and not overlaps:
        raise NotInBuild(f"{rules.name} does not start with async_scheduling and drafts of {asked.speculative_method}",
                         hint="--no-async-scheduling")
    size = rules.batch_size(asked.device_memory)
    tokens = given.get("max_num_batched_tokens", size.max_num_batched_tokens)
    found = {"async_scheduling": overlaps, "max_num_batched_tokens": tokens,
             "max_num_seqs": min(size.max_num_seqs, tokens)}  # fmt: skip
    return {**found, **given}


def derived_defaults(rules: Rules, given: Mapping[str, Any]) -> list[str]:
    """Return a line for each default that drafter and device change. Raise BadInput."""
    usual = _resolved(rules, {name: given[name] for name in ("max_num_batched_tokens",) if name in given})
    found = _resolved(rules, given)
    return [f"{name} {_shown(found[name])}: chosen at the start of {rules.name}" for name in usual
            if name not in given and found[name] != usual[name]]  # fmt: skip


def _shown(value: Any) -> str:
    return ("on" if value else "off") if isinstance(value, bool) else str(value)
