"""Rules of the start: defaults that a release resolves from the model, the drafter and the device."""

from __future__ import annotations

from typing import NamedTuple

from cachesim.engines.rule import Role, rule
from cachesim.engines.vllm.rules.sources import config, file

ALIGN = "align"
EVERY = "all"
NONE = "none"
NGRAM = "ngram"
DRAFT_MODEL = "draft_model"
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


@rule("VL-START-ASYNC.EAGLE", Role.SETUP, config("__post_init__ async_scheduling", "0.27.1"))
def async_scheduling_eagle(method: str) -> bool:
    """True if steps overlap by default: without drafts, and with those of the EAGLE family."""
    return method not in (NGRAM, DRAFT_MODEL)


@rule("VL-START-ASYNC.GIVEN", Role.SETUP, config("__post_init__ async_scheduling"))
def starts_async(method: str) -> bool:
    """True if the server starts with overlapping steps and drafts of this method: with every one."""
    return True


@rule("VL-START-ASYNC.GIVEN.DRAFTS", Role.SETUP, config("__post_init__ async_scheduling", "0.32.0"))
def starts_async_drafts(method: str) -> bool:
    """True if the server starts with overlapping steps and drafts of this method: not with ngram."""
    return method != NGRAM


@rule("VL-START-CACHING", Role.SETUP, file("vllm/config/model.py")("is_prefix_caching_supported"))
def prefix_caching(attention: bool, states: bool = False) -> bool:
    """True if prefixes are cached by default: in models that have a layer of attention, with or without ``states``."""
    return attention


@rule("VL-START-CACHING.ROWS", Role.SETUP, file("vllm/config/model.py")("is_prefix_caching_supported", "0.25.1"))
def prefix_caching_of_rows(attention: bool, states: bool = False) -> bool:
    """True if prefixes are cached by default: in models that have a layer of attention, and none with ``states``."""
    return attention and not states


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


@rule("VL-START-BATCH.LARGE", Role.SETUP, arguments("get_batch_defaults", "0.27.1"))
def batch_size_large(memory: int) -> BatchSize:
    """Return the default size of a step of `vllm serve` on a device with so much memory [GiB]: the same on all large
    devices."""
    return batch_size(min(memory, LARGE))


@rule("VL-START-STATES.KERNEL", Role.SETUP,
      file("vllm/model_executor/models/config.py")("MambaModelConfig", "0.27.1"))
def mamba_cache_mode_of_kernel(given: str, caching: bool, has_kernel: bool) -> str:
    """Return where states are kept. With prefix caching `none` means `all` in a model whose kernel keeps a state at the
    end of every block (``has_kernel``: Mamba and Mamba-2); other models have `align` only."""
    if not caching:
        return NONE
    return EVERY if has_kernel and given != ALIGN else ALIGN


@rule("VL-START-STATES.ASKED", Role.SETUP,
      file("vllm/model_executor/models/config.py")("MambaModelConfig", "0.31.0"), until="#58997")
def mamba_cache_mode_asked(given: str, caching: bool, has_kernel: bool) -> str:
    """Return where states are kept. With prefix caching `none` means `align`, and so does `all` in a model whose kernel
    keeps no state at the end of every block."""
    if given == EVERY:
        return mamba_cache_mode_of_kernel(given, caching, has_kernel)
    return ALIGN if caching else NONE


@rule("VL-START-STATES", Role.SETUP, file("vllm/model_executor/models/config.py")("MambaModelConfig"))
def mamba_cache_mode(given: str, caching: bool, has_kernel: bool) -> str:
    """Return where states are kept. With prefix caching `none` means `align`; without it, none is kept. ``has_kernel``:
    the kernel of the model can keep a state at the end of every block."""
    if not caching:
        return NONE
    return ALIGN if given == NONE else given
