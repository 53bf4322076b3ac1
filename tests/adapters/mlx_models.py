"""Tiny models of mlx-lm with random weights, and one answer of theirs."""

from __future__ import annotations

from types import SimpleNamespace

import mlx.core as mx
from mlx_lm.generate import generate_step
from mlx_lm.models.cache import make_prompt_cache

from tests.peers.real_server import VOCAB, Tokenizer, build

TOKENS = range(1, VOCAB)


def make(kind):
    """A random model in float32."""
    return build(kind, 1)


def empty(model):
    """A cache that has seen nothing."""
    return make_prompt_cache(model)


def answer(model, rest, cache, n_predict):
    """Generate greedily behind a cache, which has then seen all of ``rest`` and all generated tokens. Returns the
    tokens, and the log-probabilities of the first one."""
    steps = list(generate_step(mx.array(rest), model, max_tokens=n_predict, prompt_cache=cache))
    return [int(token) for token, _ in steps], steps[0][1]


def seen(cache):
    """The number of tokens that a cache has seen, None where no layer counts them."""
    return next((layer.offset for layer in cache if getattr(layer, "offset", None) is not None), None)


def tokenizer():
    """What ``stream_generate`` needs of one; no token ends an answer."""
    return Tokenizer(SimpleNamespace(thinks=False))
