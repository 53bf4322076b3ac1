"""Options that a release resolves at its start, from its model, its drafter and its device.

Source: vLLM vllm/engine/arg_utils.py, vllm/config/vllm.py, vllm/config/model.py _get_and_verify_max_len,
vllm/model_executor/models/config.py (0.33.0).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Mapping

from cachesim.base.errors import NotInBuild
from cachesim.engines.shared.model_layers import RealModel
from cachesim.engines.shared.model_sizes import short_notation
from cachesim.engines.vllm.compressed_layers import served_model
from cachesim.engines.vllm.flags import FITTING, Options, options
from cachesim.engines.vllm.kv_cache_planning import get_kv_cache_config
from cachesim.engines.vllm.pool_size import given_blocks
from cachesim.model import Spec, parse

if TYPE_CHECKING:
    from cachesim.engines.vllm.profiles import Rules

MAMBA_KINDS = "SH"
"""Kinds of layers whose kernel can keep a state at the end of every block: Mamba-2, also beside attention."""


def resolved(rules: Rules, spec: Spec, given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return options with the defaults that the server chooses. Raise BadInput for a bad value, and for a combination
    with which the release does not start."""
    found = _resolved(rules, given)
    recurrent = [one.kind for one in spec.layers if one.recurrence]
    by_default = rules.prefix_caching(any(one.part for one in spec.layers), bool(recurrent))
    caching = found.setdefault("enable_prefix_caching", by_default)
    has_kernel = bool(recurrent) and all(kind in MAMBA_KINDS for kind in recurrent)
    found["mamba_cache_mode"] = rules.mamba_cache_mode(options(given).mamba_cache_mode, caching, has_kernel)
    if "num_gpu_blocks" not in given and (blocks := given_blocks(rules, options(found), spec)):
        found["num_gpu_blocks"] = blocks
    if found["max_model_len"] == FITTING and "num_gpu_blocks" in found:
        opts = options(found)
        own = own_length(rules, opts)
        if 0 < own <= get_kv_cache_config(rules, opts, spec).max_model_len:
            found["max_model_len"] = own
    return found


def _resolved(rules: Rules, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return options with the defaults that do not depend on the kinds of layers."""
    asked = options(given)
    check_absent(rules, asked)
    overlaps = rules.async_scheduling(asked.speculative_method)
    if given.get("async_scheduling") and not rules.starts_async(asked.speculative_method):
        raise NotInBuild(f"{rules.name} does not start with async_scheduling and drafts of {asked.speculative_method}",
                         hint="--no-async-scheduling")
    length = given["max_model_len"] if "max_model_len" in given else own_length(rules, asked)
    size = rules.batch_size(asked.device_memory)
    tokens = size.max_num_batched_tokens
    bound = own_length(rules, asked) if length == FITTING else length
    if bound:
        tokens = min(tokens, bound * given.get("max_num_seqs", size.max_num_seqs))
    tokens = given.get("max_num_batched_tokens", tokens)
    found = {"async_scheduling": overlaps, "max_num_batched_tokens": tokens,
             "max_num_seqs": min(size.max_num_seqs, tokens), "max_model_len": length}  # fmt: skip
    return {**found, **given}


LONG_ROPE, YARN = "longrope", "yarn"


def own_length(rules: Rules, opts: Options) -> int:
    """Return the length of the real model that the options name, which is the default of max_model_len; 0 = unknown.
    Raise BadInput."""
    if not opts.real_model or opts.allow_long_max_model_len:
        return 0
    model = served_model(opts.real_model)
    if model.scaling.kind == LONG_ROPE and model.scaling.original:
        return model.scaling.original
    return longest_start(rules, model)


def longest_start(rules: Rules, model: RealModel) -> int:
    """Return the largest max_model_len with which a server of this model starts, 0 = unknown. A release that applies
    the factor of YaRN applies it to the length before the scaling."""
    kind = model.scaling.kind
    if kind in rules.unscaled or "gemma3" in model.arch:
        return model.context
    before = model.scaling.original if kind == YARN else 0
    return int((before or model.context) * model.scaling.factor)


def check_length(rules: Rules, given: Mapping[str, Any]) -> None:
    """Raise NotInBuild for a maximum length above that of the model."""
    asked = options(given)
    if not asked.real_model or asked.allow_long_max_model_len:
        return
    most = longest_start(rules, served_model(asked.real_model))
    if most and asked.max_model_len > most:
        raise NotInBuild(f"the server does not start: max_model_len {asked.max_model_len} exceeds the length of the "
                         f"model, {most} tokens", hint="VLLM_ALLOW_LONG_MAX_MODEL_LEN=1")  # fmt: skip


def logged_pool(rules: Rules, given: Mapping[str, Any]) -> list[str]:
    """Return a line about the blocks of a real model's pool whose tokens the log states, [] without them. Raise
    BadInput."""
    asked = options(given)
    if not asked.real_model or not asked.kv_cache_size_tokens or "num_gpu_blocks" in given:
        return []
    model = served_model(asked.real_model)
    if model.compressed:
        return []
    found = resolved(rules, parse(short_notation(model)), given)
    return [f"num_gpu_blocks {found['num_gpu_blocks']}: {asked.kv_cache_size_tokens:,} tokens in the log"]


def check_absent(rules: Rules, asked: Options) -> None:
    """Raise NotInBuild for an option that the release does not have, or with which it is not simulated."""
    usual = options({})
    for name in sorted(rules.absent):
        if getattr(asked, name) != getattr(usual, name):
            raise NotInBuild(f"{name} does not exist in {rules.name}, or is not simulated there",
                             hint=f"{name} {_shown(getattr(usual, name))}")


def derived_defaults(rules: Rules, given: Mapping[str, Any]) -> list[str]:
    """Return a line for each default that drafter and device change. Raise BadInput."""
    usual = _resolved(rules, {name: given[name] for name in ("max_num_batched_tokens",) if name in given})
    found = _resolved(rules, given)
    return [f"{name} {_shown(found[name])}: chosen at the start of {rules.name}" for name in usual
            if name not in given and found[name] != usual[name]]  # fmt: skip


def _shown(value: Any) -> str:
    return ("on" if value else "off") if isinstance(value, bool) else str(value)
