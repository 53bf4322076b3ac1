"""Rules of the start: defaults that a release resolves from the model, the drafter and the device."""

from __future__ import annotations

from typing import NamedTuple

from cachesim.engines.rule import Role, rule
from cachesim.engines.vllm.rules.sources import config, file

ALIGN = "align"
EVERY = "all"
NONE = "none"
NGRAM = "ngram"
LARGE, LARGEST = 70, 160            # memory of devices with larger steps [GiB]
arguments = file("vllm/engine/arg_utils.py")


@rule("VL-START-ASYNC", Role.SETUP, config("__post_init__ async_scheduling"))
def async_scheduling(method: str) -> bool:
    """True if steps overlap by default: with drafts of every method and without. ``method``: the drafter, "" = none."""
    return True


@rule("VL-START-ASYNC.DRAFTS", Role.SETUP, config("__post_init__ async_scheduling", "0.32.0"))
def async_scheduling_drafts(method: str) -> bool:
    """True if steps overlap by default. They do not with drafts of ngram, under which the option is refused."""
    return method != NGRAM


@rule("VL-START-CACHING", Role.SETUP, file("vllm/config/model.py")("is_prefix_caching_supported"))
def prefix_caching(attention: bool) -> bool:
    """True if prefixes are cached by default: in models that have a layer of attention."""
    return attention


class BatchSize(NamedTuple):
    """The most tokens of a step, and the most running requests."""

    max_num_batched_tokens: int
    max_num_seqs: int


@rule("VL-START-BATCH", Role.SETUP, arguments("get_batch_defaults"))
def batch_size(memory: int) -> BatchSize:
    """Return the default size of a step of `vllm serve` on a device with so much memory [GiB]."""
    if memory >= LARGEST:
        return BatchSize(16384, 1024)
    return BatchSize(8192, 1024) if memory >= LARGE else BatchSize(2048, 256)


@rule("VL-START-STATES", Role.SETUP, file("vllm/model_executor/models/config.py")("MambaModelConfig"))
def mamba_cache_mode(given: str, caching: bool) -> str:
    """Return where states are kept. With prefix caching `none` means `align`; without it, none is kept."""
    if not caching:
        return NONE
    return ALIGN if given == NONE else given
