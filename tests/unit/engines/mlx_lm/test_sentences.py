"""Sentences of decisions, one for each branch: those of decisions with an effect, and those of decisions without."""

from __future__ import annotations

from types import SimpleNamespace as Value

import pytest

from cachesim.engines.mlx_lm.rules.keys import ConversationKey
from cachesim.engines.mlx_lm.sentences import SENTENCES
from cachesim.engines.shared.sentences import NoEffect

START = {"start": 14, "position": -7, "pc": 10}
FETCH = {"query": 20, "common": 9, "shorter": 5, "longer": 12}
RING = {"held": 12, "max_size": 8}

SERVER = [
    ("ML-KEY", ConversationKey((1, 2)), {"n_tokens": 1},
     "prompt cache key: the whole prompt (1 token); stored with the answer"),
    ("ML-KEY", Value(asked=(1, 2)), {"n_tokens": 5, "suffix": 3, "boundaries": []},
     "prompt cache key: 2 of 5 tokens, without the generation suffix"),
    ("ML-KEY", Value(asked=(1, 2)), {"n_tokens": 5, "suffix": 3, "boundaries": [2, 4]},
     "prompt cache key: 2 of 5 tokens, without the generation suffix; messages end at 2, 4"),
    ("ML-BATCHABLE", True, {"seed": True}, "~the request may join a batch"),
    ("ML-BATCHABLE", False, {"seed": True}, "the request is not batchable: it has a seed"),
    ("ML-BATCHABLE", False, {"seed": False}, "the request is not batchable: there is a draft model"),
    ("ML-BATCHABLE-LAYERS", True, {"kinds": ["A", "B", "A"]}, "~caches that can be batched: A, B"),
    ("ML-BATCHABLE-LAYERS", False, {"kinds": ["A", "B", "A"]}, "not batchable with caches of A, B"),
    ("ML-SEG-TAIL", 8, {"n_tokens": 10, "first": 3}, "think token at 8: tail 8..9"),
    ("ML-SEG-TAIL", 10, {"n_tokens": 10, "first": -3}, "no think token from 0 on: no tail"),
    ("ML-SEG-TAIL", 10, {"n_tokens": 10, "first": 1}, "no think token from 1 on: no tail"),
    ("ML-SEG-REST", Value(error="IndexError"), {},
     "nothing left to prefill: the generation thread ends with IndexError"),
    ("ML-SEG-REST", Value(error=""), {"left": [4, 1], "n_cached": 9}, "prefill: segments of 4, 1 tokens (9 cached)"),
    ("ML-PC-POSITION", None, {}, "no prompt checkpoint requested"),
    ("ML-PC-POSITION", -7, {}, "prompt checkpoint requested 7 before the end of the prompt"),
    ("ML-PC-BATCH", 7, {"lengths": [9, 8]}, "prompt_checkpoint = 7 for the batch (rows of 9, 8 tokens)"),
    ("ML-PC-BATCH", 7, {"lengths": [9], "own": [7]},
     "prompt_checkpoint = 7 for the batch (rows of 9 tokens; requested: 7)"),
    ("ML-PC-TAILS", None, {"lengths": [2, 3]}, "last tokens of the rows: 2, 3; ragged, no array can be built"),
    ("ML-PC-TAILS", [(1, 2)], {"lengths": [2]}, "last tokens of the rows: 2"),
    ("ML-PC-TAILS.ZEROS", [(0, 1), (1, 2)], {"lengths": [1, 2]},
     "last tokens of the rows: 1, 2; left padded with 1 zero token, which enter the caches"),
    ("ML-PC-TAILS.ZEROS", [(1, 2)], {"lengths": [2]}, "last tokens of the rows: 2; no padding"),
    ("ML-CKPT-CREATE", True, START, "stored at 14 tokens"), ("ML-CKPT-CREATE", False, START, "no entry at 14 tokens"),
    ("ML-CKPT-CREATE.OWN", True, START, "stored at 14 tokens"),
    ("ML-CKPT-CREATE.OWN", False, {**START, "position": None}, "no entry at 14 tokens"),
    ("ML-CKPT-CREATE.OWN", False, START,
     "no entry at 14 tokens: the row requests 7 before the end, the batch has 10"),
    ("ML-CKPT-CREATE.SEGMENT", True, {"start": 14}, "stored at 14 tokens: end of a segment"),
    ("ML-CKPT-CREATE.SEGMENT", False, {"start": 14, "end_of_segment": True},
     "no entry at 14 tokens: no cache_type left"),
    ("ML-CKPT-CREATE.SEGMENT", False, {"start": 14, "end_of_segment": False},
     "no entry at 14 tokens: not the end of a segment"),
    ("ML-SPEC-START", 0, {"n_tokens": 9}, "refused: speculative decoding requires a trimmable prompt cache"),
    ("ML-SPEC-START", 1, {"n_tokens": 9}, "speculative decoding starts with the last 1 token of 9"),
]

STORE = [
    ("ML-LRU-SHORTER", 5, FETCH,
     "fetch_nearest_cache: 5 of 20 tokens reused (common prefix 9; shorter key of 5, longer key of 12)"),
    ("ML-LRU-SHORTER", 5, {**FETCH, "longer": 5},
     "fetch_nearest_cache: 5 of 20 tokens reused (common prefix 9; shorter key of 5)"),
    ("ML-LRU-SHORTER", 0, {**FETCH, "longer": None, "shorter": 0},
     "fetch_nearest_cache: 0 of 20 tokens reused (common prefix 9; no key shares a prefix with it)"),
    ("ML-LRU-SHORTER", 0, {"at": 0}, "~no key is a prefix"),
    ("ML-LRU-HAND", Value(how="copy"), {}, "~the entry is copied (deepcopy) and stays in the prompt cache"),
    ("ML-LRU-HAND", Value(how="give"), {}, "the entry is removed from the prompt cache on fetch"),
    ("ML-LRU-HAND", Value(how="lend"), {}, "the entry is handed out itself and stays in the prompt cache"),
    ("ML-LRU-KEEP", 8, {"common": 9}, "~longer entry trimmed to 8 tokens: one token must stay unevaluated"),
    ("ML-LRU-KEEP", 1, {"common": 1}, "~longer entry trimmed to 1 token"),
    ("ML-LRU-TRIMMED", True, {"trimmed": 4, "wanted": 4}, "~trimmed 4 of 4 tokens"),
    ("ML-LRU-TRIMMED", False, {"trimmed": 3, "wanted": 4}, "trimmed 3 of 4 tokens: the longer entry is not used"),
    ("ML-LRU-PREFIX", [], {"prefixes": [3]}, "~no prefix entry removed (keys that are prefixes: 3)"),
    ("ML-LRU-PREFIX", [3, 5], {}, "removes the prefix entries of 3, 5 tokens: the new entry is trimmable"),
    ("ML-LRU-COUNT", 0, {"entries": 1, "max_size": 4}, "~nothing evicted (1 entry, limit 4)"),
    ("ML-LRU-COUNT", 1, {"entries": 5, "max_size": 4}, "evicts 1 entry (5 entries, limit 4)"),
    ("ML-LRU-BYTES", False, {"size": 1000, "max_bytes": 2000}, "~nothing evicted (1,000 bytes, limit 2,000)"),
    ("ML-LRU-BYTES", True, {"size": 3000, "max_bytes": 2000}, "evicts an entry (3,000 bytes, limit 2,000)"),
    ("ML-LRU-PRESENT", Value(take_new=True, owners=0), {},
     "~the key is present: the new cache replaces the stored one"),
    ("ML-LRU-PRESENT", Value(take_new=False, owners=1), {},
     "~the key is present: the stored cache stays, 1 more owner"),
]

CACHES = [
    ("ML-RING-TRIMMABLE", True, {"held": 5, "max_size": 8}, "~RotatingKVCache is trimmable: 5 of 8"),
    ("ML-RING-TRIMMABLE", False, RING, "RotatingKVCache is not trimmable: 12 tokens >= max_size 8"),
    ("ML-RING-TRIM", Value(n=1, keep=None), {"n": 3},
     "RotatingKVCache trimmed by 1 token of 3: offset moves, the buffer stays"),
    ("ML-RING-TRIM", Value(n=2, keep=0), {"n": 3}, "RotatingKVCache trimmed by 2 tokens of 3: the buffer keeps 0"),
    ("ML-RING-MERGE", Value(last=None, width=8), {},
     "~RotatingKVCache joins a batch with all of its entries in 8 columns"),
    ("ML-RING-MERGE", Value(last=0, width=8), {},
     "~RotatingKVCache joins a batch with its last 0 entries in 8 columns"),
    ("ML-RING-EXTRACT-START", -3, {"left_padding": -3},
     "row extracted from column -3 on (left padding -3): most of the ring is lost"),
    ("ML-RING-EXTRACT-START", 0, {"left_padding": 0}, "~row extracted from column 0 on (left padding 0)"),
    ("ML-CHUNK-TRIM-FRONT", None, {"valid": 5}, "~ChunkedKVCache keeps all 5 tokens"),
    ("ML-CHUNK-TRIM-FRONT", Value(start=4, stop=12), {"valid": 12},
     "ChunkedKVCache trims its front: columns 4..11 stay"),
    ("ML-ARRAYS-EXTEND", 1, {"rows_a": 1, "rows_b": 2}, "~recurrent states of 3 rows joined"),
    ("ML-ARRAYS-EXTEND", None, {"rows_a": 1, "rows_b": 2}, "~no states to join"),
]


@pytest.mark.parametrize(("rule", "value", "because", "text"), [*SERVER, *STORE, *CACHES])
def test_a_decision_has_its_sentence(rule, value, because, text):
    """A sentence after "~" reports that nothing changed."""
    said = SENTENCES.say(rule, value, because)
    assert (f"~{said}" if isinstance(said, NoEffect) else said) == text
