"""Options that a release resolves at its start, from its model and its device.

Source: SGLang python/sglang/srt/configs/model_config.py ModelConfig._derive_context_length, 1291 (0.5.23), and
utils/hf_transformers/common.py get_context_length, 677 (0.5.23).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Mapping

from cachesim.base.errors import NotInBuild
from cachesim.engines.sglang.flags import Options, options
from cachesim.engines.sglang.sparse_models import served_model
from cachesim.engines.shared.model_layers import RealModel

if TYPE_CHECKING:
    from cachesim.engines.sglang.profiles.rule_table import Rules


def with_defaults(rules: Rules, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return options with the size of a chunk and the context, if they are not given. Raise BadInput."""
    asked = options(given)
    return {"chunked_prefill_size": chunk_size(rules, asked.device_memory), "context_len": own_context(asked),
            **given}  # fmt: skip


def chunk_size(rules: Rules, memory: int) -> int:
    """Return the default size of a chunk [tokens] on a device with so much memory [GiB]."""
    return next(size.tokens for size in rules.chunk_sizes if not size.below or memory < size.below)


def own_context(opts: Options) -> int:
    """Return the context of the real model that the options name, 0 = unknown. Raise BadInput."""
    if not opts.real_model or opts.allow_longer_context:
        return 0
    return context_of(served_model(opts.real_model))


def context_of(model: RealModel) -> int:
    """Return the context of a model as the server computes it [tokens]: the one that the configuration states, scaled
    unless the scaling states the original one."""
    scaling = model.scaling
    is_applied = not (scaling.is_listed or scaling.original or scaling.kind == "llama3")
    return int(model.context * scaling.factor) if is_applied else model.context


def check_context(given: Mapping[str, Any]) -> None:
    """Raise NotInBuild for a context above that of the model."""
    asked = options(given)
    most = own_context(asked)
    if most and asked.context_len > most:
        raise NotInBuild(f"the server does not start: context_len {asked.context_len} exceeds that of the model, "
                         f"{most} tokens", hint="SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN=1")  # fmt: skip


def derived_defaults(rules: Rules, given: Mapping[str, Any]) -> list[str]:
    """Return a line for each default that model and device change. Raise BadInput."""
    usual = with_defaults(rules, {})
    found = with_defaults(rules, given)
    return [f"{name} {found[name]}: chosen at the start of {rules.name}" for name in usual
            if name not in given and found[name] != usual[name]]  # fmt: skip
