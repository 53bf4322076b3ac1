"""Sentences for the decisions of mlx-lm's server, with the names of its source; lengths instead of tokens.

The rules of inner tables are called many times for each request. Decisions without an effect are Dull.
"""

from __future__ import annotations

from typing import Any

from cachesim.base.errors import counted
from cachesim.engines.mlx_lm import sentences_caches as caches
from cachesim.engines.mlx_lm import sentences_lru as lru
from cachesim.engines.shared.sentences import Because, NoEffect, Say, Sentences, numbers


def _key(key: Any, because: Because) -> str:
    n = because["n_tokens"]
    if "suffix" not in because:
        return f"prompt cache key: the whole prompt ({counted(n, 'token')}); stored with the answer"
    ends = f"; messages end at {numbers(because['boundaries'])}" if because["boundaries"] else ""
    return f"prompt cache key: {len(key.asked)} of {n} tokens, without the generation suffix{ends}"


def _batchable_sentence(batchable: bool, because: Because) -> str:
    if batchable:
        return NoEffect("the request may join a batch")
    return "the request is not batchable: " + ("it has a seed" if because["seed"] else "there is a draft model")


def _layers(value: bool, because: Because) -> str:
    kinds = ", ".join(dict.fromkeys(because["kinds"]))
    return NoEffect(f"caches that can be batched: {kinds}") if value else f"not batchable with caches of {kinds}"


def _extracted(value: bool, because: Because) -> str:
    kinds = ", ".join(dict.fromkeys(because["kinds"]))
    return NoEffect("a finished row leaves its batch") if value else f"no finished row leaves a batch of {kinds}"


def _tail(at: int, because: Because) -> str:
    n, first = because["n_tokens"], max(0, because["first"])
    return f"think token at {at}: tail {at}..{n - 1}" if at < n else f"no think token from {first} on: no tail"


def _rest(rest: Any, because: Because) -> str:
    if rest.error:
        return f"nothing left to prefill: the generation thread ends with {rest.error}"
    return f"prefill: segments of {numbers(because['left'])} tokens ({because['n_cached']} cached)"


def _position(value: int | None, because: Because) -> str:
    if value is None:
        return "no prompt checkpoint requested"
    return f"prompt checkpoint requested {-value} before the end of the prompt"


def _pc(value: int, because: Because) -> str:
    own = f"; requested: {numbers(because['own'])}" if "own" in because else ""
    return f"prompt_checkpoint = {value} for the batch (rows of {numbers(because['lengths'])} tokens{own})"


def _tails(value: Any, because: Because) -> str:
    lengths = f"last tokens of the rows: {numbers(because['lengths'])}"
    return f"{lengths}; ragged, no array can be built" if value is None else lengths


def _tails_zeros(value: Any, because: Because) -> str:
    zeros = sum(len(tail) - n for tail, n in zip(value, because["lengths"], strict=True))
    padded = f"; left padded with {counted(zeros, 'zero token')}, which enter the caches" if zeros else "; no padding"
    return f"last tokens of the rows: {numbers(because['lengths'])}{padded}"


def _created(value: Any, because: Because) -> str:
    return f"{'stored' if value else 'no entry'} at {counted(because['start'], 'token')}"


def _created_own(value: Any, because: Because) -> str:
    wanted = because["position"]
    if value or wanted is None:
        return _created(value, because)
    return f"{_created(value, because)}: the row requests {-wanted} before the end, the batch has {because['pc']}"


def _segment_end(value: Any, because: Because) -> str:
    if value:
        return f"stored at {counted(because['start'], 'token')}: end of a segment"
    why = "no cache_type left" if because["end_of_segment"] else "not the end of a segment"
    return f"no entry at {counted(because['start'], 'token')}: {why}"


def _drafting(value: int, because: Because) -> str:
    if not value:
        return "refused: speculative decoding requires a trimmable prompt cache"
    return f"speculative decoding starts with the last {counted(value, 'token')} of {because['n_tokens']}"


FAMILIES: dict[str, Say] = {
    "ML-KEY": _key,
    "ML-KEY-ALONE": lambda v, b: f"prompt cache key: {v} tokens ({b['evaluated']} of {b['held']} evaluated)",
    "ML-KEY-STOPPED": lambda v, b: f"client disconnected: the key has {v} of {b['held']} tokens",
    "ML-BATCHABLE": _batchable_sentence,
    "ML-BATCHABLE-LAYERS": _layers,
    "ML-EXTRACT": _extracted,
    "ML-NEW-CACHE": lambda v, b: f"new caches {f'of at most {v} tokens' if v else 'without a limit'}"
                                 f" (max_kv_size {b['max_kv_size']})",
    "ML-THINKS": lambda v, b: f"think tokens are {'' if v else 'not '}looked for in the tail of the prompt",
    "ML-BATCH-FRESH": lambda v, b: NoEffect(f"the group {'starts from new' if v else 'continues older'} caches"),
    "ML-PC-LENGTHS": lambda v, b: NoEffect(f"a row of {b['rest']} tokens announces {v}"),
    "ML-BATCH": lambda v, b: f"prefill of {'whole prompts' if v == 'whole' else 'segments, beside rows that generate'}",
    "ML-SEG-SYSTEM": lambda v, b: f"system segment: tokens 0..{v - 1}" if v else "no system segment",
    "ML-SEG-TAIL": _tail,
    "ML-SEG-CUT": lambda v, b: f"segments: {', '.join(f'{one.cache_type} {len(one.tokens)}' for one in v)} (tokens)",
    "ML-SEG-REST": _rest,
    "ML-PC-POSITION": _position,
    "ML-PC-BATCH": _pc,
    "ML-PC-TAILS": _tails,
    "ML-PC-ROW": lambda v, b: f"row {b['row']} of {b['rows']} stores the cache of row {v}",
    "ML-CKPT-CREATE": _created,
    "ML-CANCEL": lambda v, b: "client disconnected: prompt and answer so far are " + ("stored" if v else "not stored"),
    "ML-SPEC-START": _drafting,
    "ML-SPEC-ROUND": lambda v, b: f"drafts {counted(v, 'token')} (num_draft {b['usual']})",
}

VARIANTS: dict[str, Say] = {
    "ML-KEY.BUT-LAST": lambda v, b: f"prompt cache key: the prompt without its last token ({b['n_tokens'] - 1} tokens)",
    "ML-SPEC-ROUND.TRIMMABLE": lambda v, b: (
        f"drafts {counted(v, 'token')} (num_draft {b['usual']}, trimmable {b['room']})"),
    "ML-PC-TAILS.ZEROS": _tails_zeros,
    "ML-CKPT-CREATE.OWN": _created_own,
    "ML-CKPT-CREATE.SEGMENT": _segment_end,
    "ML-CKPT-CREATE.SINGLE": lambda v, b: f"no entry at {counted(b['start'], 'token')}: the request is served alone",
}

SENTENCES = Sentences(FAMILIES | lru.FAMILIES | caches.FAMILIES, VARIANTS | lru.VARIANTS | caches.VARIANTS)
