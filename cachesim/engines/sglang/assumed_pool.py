"""Pools that hold all requests, for a server whose real pools are not known."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Mapping, Sequence

from cachesim.engines.capabilities import AssumedPool, AssumedSizes, Option, RequestSize
from cachesim.engines.sglang.flags import UNSET_STATES, UNSET_TOKENS, Options, options
from cachesim.engines.sglang.sparse_models import forced_page, served_model
from cachesim.engines.shared.size_formulas import split_sizes
from cachesim.model import Spec, parse

SPARE = 64                # slots of a request beside its tokens, as drafts and the reserve of a decode step take
STATES = 8                # states of a request beside those that its chunks and its answer leave in the tree
RESERVED_PAGES = 4        # pages that no request can use, and unfinished ones


def fit(model: str, given: Mapping[str, Any], requests: Sequence[RequestSize]) -> AssumedSizes:
    """Return the sizes that are not given, so large that no request waits for slots and nothing is evicted; none if
    ``pool_gib`` determines them; not more rows than the device holds. Raise BadInput."""
    from cachesim.engines.sglang.history import LINE
    from cachesim.engines.sglang.pool_sizes import device_share, most_sizes
    from cachesim.engines.sglang.profiles import PROFILES

    opts = options(given)
    if opts.pool_gib:
        return AssumedSizes({})
    forced = forced_page(served_model(opts.real_model)) if opts.real_model else 0
    opts = replace(opts, page_size=forced or opts.page_size)
    spec = parse(split_sizes(model)[0])
    found: dict[str, Option] = {}
    if "max_total_tokens" not in given:
        found["max_total_tokens"] = _rounded(_rows(opts, spec, requests), UNSET_TOKENS)
    if "max_mamba_cache_size" not in given and any(layer.recurrence for layer in spec.layers):
        found["max_mamba_cache_size"] = _rounded(_states(opts, requests), UNSET_STATES)
    most = most_sizes(PROFILES[LINE[-1]], replace(opts, page_size=forced or opts.page_size))
    if most is not None and int(found.get("max_total_tokens", 0)) > most.rows > 0:
        return AssumedSizes({**found, "max_total_tokens": most.rows}, device_share(opts))
    return AssumedSizes(found)


def _rows(opts: Options, spec: Spec, requests: Sequence[RequestSize]) -> int:
    """Return slots of rows for all requests, so many that their share for windows holds all requests, too."""
    drafts = 4 * opts.speculative_num_steps if opts.speculative_algorithm else 0
    pages = [-(-(request.prompt + request.answer + SPARE + drafts) // opts.page_size) + RESERVED_PAGES
             for request in requests]  # fmt: skip
    slots = sum(pages) * opts.page_size
    has_windows = any(layer.window for layer in spec.layers)
    share = min(1.0, opts.swa_full_tokens_ratio) if has_windows and not opts.swa_tokens else 1.0
    return int(slots / max(share, 0.01)) + opts.page_size


def _states(opts: Options, requests: Sequence[RequestSize]) -> int:
    """Return slots of states for all requests: each chunk of a prompt and each tracked state of an answer takes one."""
    chunk = opts.chunked_prefill_size
    return sum(
        STATES + (-(-request.prompt // chunk) if chunk > 0 else 1) + request.answer // opts.mamba_track_interval
        for request in requests
    )


def _rounded(needed: int, step: int) -> int:
    """Return the next multiple of ``step``, at least one."""
    return step * max(1, -(-needed // step))


ASSUMED = AssumedPool(fit, "max_total_num_tokens")
