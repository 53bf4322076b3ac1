"""Tiny models of mlx-lm with random weights, and their answers."""

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
    """Return an empty cache."""
    return make_prompt_cache(model)


def answer(model, rest, cache, n_predict):
    """Generate greedily after a cache, which then holds all of ``rest`` and all generated tokens. Return the tokens,
    and the log-probabilities of the first."""
    steps = list(generate_step(mx.array(rest), model, max_tokens=n_predict, prompt_cache=cache))
    return [int(token) for token, _ in steps], steps[0][1]


def seen(cache):
    """Return the number of tokens in a cache, None if no layer counts them."""
    return next((layer.offset for layer in cache if getattr(layer, "offset", None) is not None), None)


def tokenizer():
    """Return the part of a tokenizer that ``stream_generate`` needs; no token ends an answer."""
    return Tokenizer(SimpleNamespace(thinks=False))
