"""mlx-lm's real server on tiny random models, driven without HTTP. Needs MLX (see ``make peers``)."""

from __future__ import annotations

import argparse
import inspect
import queue
import re
import time
from contextlib import contextmanager
from dataclasses import fields
from importlib import import_module
from types import SimpleNamespace
from unittest.mock import patch

import mlx.core as mx
from mlx_lm import server
from mlx_lm.models import cache as real

from cachesim.engines.chat_template import ETHK, SENTINEL, THK, ChatMessage, render
from tests.peers import lru_talk

VOCAB = 100
PENALTIES = (None, 0.0, 20, 0.0, 20, 0.0, 20)          # none; servers up to #911 have only the first three
QWEN = {
    "hidden_size": 32, "num_hidden_layers": 4, "intermediate_size": 32, "num_attention_heads": 2,
    "linear_num_value_heads": 2, "linear_num_key_heads": 2, "linear_key_head_dim": 32, "linear_value_head_dim": 32,
    "linear_conv_kernel_dim": 3, "num_experts": 2, "num_experts_per_tok": 1, "decoder_sparse_step": 1,
    "shared_expert_intermediate_size": 32, "mlp_only_layers": [0, 1, 2, 3], "moe_intermediate_size": 32,
    "rms_norm_eps": 1e-5, "num_key_value_heads": 1, "rope_theta": 10000.0, "partial_rotary_factor": 0.5,
    "max_position_embeddings": 4096, "head_dim": 16,
}  # fmt: skip
MODELS = {
    "qwen3_next": ("qwen3_next", "GGGA", QWEN),
    "mamba2": ("mamba2", "SS", {
        "num_heads": 2, "head_dim": 32, "hidden_size": 32, "intermediate_size": 64, "state_size": 32,
        "num_hidden_layers": 2, "layer_norm_epsilon": 1e-5, "conv_kernel": 4, "n_groups": 1, "use_bias": False,
        "use_conv_bias": True, "tie_word_embeddings": True, "time_step_limit": (0.0, 100.0), "time_step_rank": "auto",
    }),
    "lfm2": ("lfm2", "CCA", {
        "hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 2, "num_key_value_heads": 1,
        "max_position_embeddings": 4096, "norm_eps": 1e-5, "conv_bias": False, "conv_L_cache": 3, "block_dim": 32,
        "block_multiple_of": 8, "block_ffn_dim_multiplier": 1.0, "block_auto_adjust_ff_dim": False, "block_ff_dim": 32,
        "full_attn_idxs": [2], "rope_theta": 10000.0,
    }),
    "gemma3": ("gemma3_text", "W8 W8 A", {
        "hidden_size": 32, "num_hidden_layers": 3, "intermediate_size": 32, "num_attention_heads": 2, "head_dim": 16,
        "num_key_value_heads": 1, "sliding_window": 8, "sliding_window_pattern": 3, "query_pre_attn_scalar": 16,
        "max_position_embeddings": 4096,
    }),
    "llama": ("llama", "AA", {
        "hidden_size": 32, "num_hidden_layers": 2, "intermediate_size": 32, "num_attention_heads": 2,
        "rms_norm_eps": 1e-5, "num_key_value_heads": 1, "max_position_embeddings": 4096,
    }),
}  # fmt: skip
"""Name: module, our notation of its layers, arguments."""


def build(name, seed):
    """Build a random model of the table."""
    module, _, args = MODELS[name]
    return random_model(module, args, seed)


def random_model(module, args, seed):
    """Build a random model in float32. With default weights, states would be too small to matter."""
    found = import_module(f"mlx_lm.models.{module}")
    mx.random.seed(seed)
    model = found.Model(found.ModelArgs.from_dict({"model_type": module, "vocab_size": VOCAB, **args}))
    weights = [(key, mx.random.normal(value.shape) * 0.3 if value.ndim > 1 else value.astype(mx.float32))
               for key, value in _flat(model.parameters())]
    model.load_weights(weights)
    mx.eval(model.parameters())
    return model


def _flat(tree):
    from mlx.utils import tree_flatten

    return tree_flatten(tree)


def weights_of(model):
    """Return bytes per token and per slot of each layer, from a forward pass over three tokens."""
    caches = real.make_prompt_cache(model)
    model(mx.array([[1, 2, 3]]), cache=caches)
    mx.eval([one.state for one in caches])
    return [_weight(one) for one in caches]


def _weight(cache):
    if hasattr(cache, "cache"):                 # an ArraysCache; until 2025-09 a MambaCache
        return 0, tuple(slot.nbytes for slot in cache.cache)
    return (cache.keys.nbytes + cache.values.nbytes) // cache.keys.shape[2], ()


class Detokenizer:
    """A detokenizer that returns no text."""

    last_segment = ""

    def add_token(self, token):
        pass

    def finalize(self):
        pass


class Tokenizer:
    """Tokenizer with the toy template. A message's content is its tokens, written in decimal."""

    has_chat_template, has_tool_calling, tool_parser = True, False, None
    think_start, think_end, response_initial_state = "<think>", "</think>", None
    response_transitions, structural_markers = {}, ()
    eos_token_id, eos_token_ids = VOCAB, (VOCAB,)                         # never generated
    think_start_tokens, think_end_tokens = (THK,), (ETHK,)                # required up to 0.31.3
    tool_call_start, tool_call_end, think_start_id, think_end_id = None, None, THK, ETHK    # required up to 0.31.1
    chat_template = "the toy template"                                    # required up to 0.28.4

    def __init__(self, template):
        self.template = template
        self.has_thinking = template.thinks

    @property
    def detokenizer(self):
        return Detokenizer()

    def encode(self, text, add_special_tokens=True):
        return [SENTINEL if word == "x" else int(word) for word in text.split()]

    def convert_ids_to_tokens(self, token):
        return str(token)

    def apply_chat_template(self, messages, tools=None, add_generation_prompt=True, tokenize=True, **others):
        talk = [ChatMessage(m["role"], tuple(self.encode(m["content"]))) for m in messages]
        return list(render(talk, self.template, add_generation_prompt))

    def rfind_think_start(self, tokens, start=None):
        return max((i for i in range(max(start or 0, 0), len(tokens)) if tokens[i] == THK), default=-1)

    def rfind_think_end(self, tokens):
        return -1


import_module("mlx_lm.generate").TokenizerWrapper = Tokenizer     # a tokenizer of this kind is not wrapped again


class Provider:
    """ModelProvider for a single model that is always loaded, with the attributes that the server reads."""

    processor = None
    model_key = ("model", None, None)

    def __init__(self, model, template, settings, draft=None):
        self.model, self.tokenizer = model, Tokenizer(template)
        self.draft_model, self.is_batchable = draft, draft is None
        self._cache_is_trimmable = real.can_trim_prompt_cache(real.make_prompt_cache(model))      # required by #1006
        self.cache_types = {type(one) for one in real.make_prompt_cache(model)}                   # until #743
        self.cli_args = argparse.Namespace(
            draft_model=draft,
            chat_template_args={"enable_thinking": template.thinking}, kv_bits=None, kv_group_size=64,
            quantized_kv_start=0, **settings,
        )

    def load_default(self):
        pass

    def load(self, *names):
        return self.model, self.tokenizer

    def reset(self):
        pass


def flags_read():
    """Return the names of the flags that the installed server reads."""
    return set(re.findall(r"cli_args\.(\w+)", inspect.getsource(server)))


WAITS = "timeout" in inspect.getsource(server.ResponseGenerator._generate)
"""An idle thread waits for requests; that of 0.28.4 asks for one again and again."""


class Polled(queue.Queue):
    """Queue of requests that counts the polls after which all caches are stored: clients get their answers shortly
    before. A thread that waits for requests polls with a timeout when it is idle."""

    polls = 0

    def get(self, block=True, timeout=None):
        self.polls += timeout is not None or not (block or WAITS)
        return super().get(block, timeout)

    def arrive(self, items):
        """Add all requests at once: the thread must not see a part of them."""
        with self.mutex:
            self.queue.extend(items)
            self.unfinished_tasks += len(items)
            self.not_empty.notify_all()


def _noted(lru):
    """Return a dict that gets the reused tokens of each prompt: up to 0.30.6 the server does not tell them."""
    found, fetch = {}, lru.fetch_nearest_cache

    def noted(model, tokens):
        cache, rest = fetch(model, tokens)
        found[tuple(tokens)] = len(tokens) - len(rest)
        return cache, rest

    lru.fetch_nearest_cache = noted
    return found


@contextmanager
def _own_stream():
    """Give the thread a stream of its own in versions whose stream belongs to the importing thread (until #1090)."""
    generate = import_module("mlx_lm.generate")
    inner = server.ResponseGenerator._generate
    if not isinstance(generate.generation_stream, mx.Stream):
        yield
        return

    def outer(self):
        generate.generation_stream = mx.new_stream(mx.default_device())
        if hasattr(server, "generation_stream"):
            server.generation_stream = generate.generation_stream
        mx.set_default_stream(generate.generation_stream)
        inner(self)

    with patch.object(server.ResponseGenerator, "_generate", outer):
        yield


class RealServer:
    """A running generation thread. ``settings``: prompt_cache_size, prompt_cache_bytes (None = unset),
    decode_concurrency, prompt_concurrency, prefill_step_size. ``draft``: a draft model or None."""

    queue = Polled

    def __init__(self, model, template, settings, draft=None):
        size = settings["prompt_cache_size"]
        rest = {key: value for key, value in settings.items() if key != "prompt_cache_size"}
        self.lru = server.LRUPromptCache(size)
        self.found = _noted(self.lru)
        with patch.object(server, "Queue", self.queue), _own_stream():
            self.generator = server.ResponseGenerator(Provider(model, template, rest, draft), self.lru)

    def burst(self, requests):
        """Send requests at once. A request is (messages or (), text tokens, max_tokens, seed or None). Return an
        answer for each: error text, reused tokens, generated tokens."""
        queues = [queue.Queue() for _ in requests]
        waiting = self.generator.requests
        items = [(q, *self._asked(*request)) for q, request in zip(queues, requests, strict=True)]
        waiting.arrive(items)
        answers = [self._answer(one) for one in queues]
        before = waiting.polls
        while self.is_alive() and waiting.polls < before + 1:
            time.sleep(0.001)
        return answers

    def is_alive(self):
        """True if the generation thread works. Versions up to 0.31.3 do not report this themselves."""
        says = getattr(self.generator, "generation_available", self.generator._generation_thread.is_alive)
        return says()

    def _asked(self, messages, text, max_tokens, seed):
        talk = [{"role": role, "content": " ".join(map(str, content))} for role, content in messages]
        request = server.CompletionRequest("chat" if talk else "text", " ".join(map(str, text)), talk, None, None)
        sampling = server.SamplingArguments(0.0, 1.0, 0, 0.0, 0.0, 0.0)
        logits = server.LogitsProcessorArguments(*PENALTIES[: len(fields(server.LogitsProcessorArguments))])
        # A request names no draft model of its own. Until #743 a draft model, if any, rules out batches.
        model = server.ModelDescription(model="m", draft="default_model", adapter=None)
        every = {
            "model": model, "sampling": sampling, "logits": logits, "stop_words": [], "max_tokens": max_tokens,
            "num_draft_tokens": 3, "logprobs": False, "top_logprobs": 0, "seed": seed, "chat_template_kwargs": None,
        }
        names = [one.name for one in fields(server.GenerationArguments)]
        return request, server.GenerationArguments(**{name: every[name] for name in names})

    def _answer(self, answers):
        cached, tokens, logprobs, context = 0, [], [], None
        while True:
            try:
                one = answers.get(timeout=1.0)
            except queue.Empty:
                if not self.is_alive():
                    return SimpleNamespace(error="died", cached=cached, tokens=tokens)
                continue
            if one is None:
                cached = getattr(context, "prompt_cache_count", None)
                cached = self.found[tuple(context.prompt)] if cached is None else cached
                return SimpleNamespace(error="", cached=cached, tokens=tokens, logprobs=logprobs)
            if isinstance(one, Exception):
                return SimpleNamespace(error=f"{type(one).__name__}: {one}", cached=cached, tokens=tokens)
            if isinstance(one, server.GenerationContext):
                context = one
            elif isinstance(one, server.Response):
                tokens.append(one.token)
                logprobs.append(one.logprob)

    def stored(self):
        """Return (type, key) of all entries, queue by queue, oldest first; and their total bytes."""
        queues = lru_talk.queues_of(self.lru)
        entries = [(kind, tuple(key)) for kind in queues for _, key in queues[kind]]
        return entries, getattr(self.lru, "nbytes", None)           # until #906: no bytes

    def stop(self):
        """End the thread."""
        self.generator.stop_and_join()
