"""Two worlds for equal operations: ours (NumPy) and theirs (MLX). Results are converted to plain values.

A plain value is a number, a text, None, a list of plain values, or a text that stands for an array.
"""

from __future__ import annotations

import copy
import importlib.util
import sys
from zlib import crc32

import numpy as np

from cachesim.engines.mlx_lm import caches

FIELDS = (
    "offset", "_idx", "left_padding", "lengths", "rotated", "_lengths", "_right_padding", "start_position",
    "chunk_size", "max_size", "keep", "group_size", "bits", "batch_size",
)  # fmt: skip
QUESTIONS = ("size", "empty", "is_trimmable", "keys_and_values")
NOT_ALWAYS = frozenset({"keys_and_values", "batch_size"})     # added late; batches also lacked size() at first
LATE = frozenset({"size", "empty", "nbytes", "make_mask", "meta_state", "is_trimmable", "advance"})     # some lack them
PACKED_COUNTERS = 3                  # that a quantized cache saves: offset, group size, bits
ABSENT = "absent"                    # stands for an attribute that a class of an older version does not have
SINGLE_MASKS = (
    {"N": 1, "return_array": False, "window_size": None},
    {"N": 3, "return_array": False, "window_size": None},
    {"N": 2, "return_array": True, "window_size": 2},
    {"N": 1, "return_array": False, "window_size": 2},
)
KINDS = (
    "KVCache", "RotatingKVCache", "ArraysCache", "CacheList", "QuantizedKVCache", "ChunkedKVCache",
    "ConcatenateKVCache", "BatchKVCache", "BatchRotatingKVCache",
)  # fmt: skip


class Raised(Exception):
    """An operation raised in this world."""


class Ours:
    """cachesim's classes under a table of rules, beside those of ``theirs``, which may lack methods."""

    def __init__(self, rules, theirs=None):
        self.rules = rules
        self.unasked = theirs.unasked if theirs is not None else frozenset()
        self.lacking = theirs.lacking if theirs is not None else frozenset()

    def steps(self, width):
        for kind in KINDS:
            getattr(caches, kind).step = width

    def make(self, kind, *args):
        return getattr(caches, kind)(*args, rules=self.rules)

    def restored(self, cache):
        meta = cache.meta_state if hasattr(cache, "meta_state") else None
        return type(cache).from_state(cache.state, meta, rules=self.rules)

    def array(self, value):
        return value

    def numpy(self, value):
        if isinstance(value, caches.Ranges):
            return np.asarray(value)
        return value if isinstance(value, np.ndarray | np.generic) else None

    def merge(self, singles):
        return type(singles[0]).merge(singles)

    def trim(self, layers, n):
        return caches.trim_prompt_cache(layers, n)

    def packed(self, numbers, group_size, bits):
        found = caches.quantize(numbers, group_size, bits)
        return [*found, caches.dequantize(found, group_size, bits)]

    def causal_mask(self, *args):
        return caches.create_causal_mask(*args)


class Theirs:
    """mlx-lm's classes: those of the installed package, or those of another version's cache.py."""

    def __init__(self, source=None, newest=True):
        import mlx.core as mx

        self.mx = mx
        self.unasked = NOT_ALWAYS if source or not newest else frozenset()
        self.caches = _loaded(source) if source else importlib.import_module("mlx_lm.models.cache")
        self.kinds = frozenset(kind for kind in KINDS if hasattr(self.caches, kind))
        self.lacking = frozenset((kind, name) for kind in self.kinds for name in LATE
                                 if not hasattr(getattr(self.caches, kind), name))  # fmt: skip
        if len(self.caches.QuantizedKVCache().meta_state or ()) > PACKED_COUNTERS:
            self.lacking |= {("QuantizedKVCache", "meta_state")}                    # until #487 with its step

    def prompt_cache(self):
        """Return the module of the prompt cache, None for a version that keeps a single conversation."""
        if hasattr(self.caches, "LRUPromptCache"):
            return self.caches
        server = importlib.import_module("mlx_lm.server")       # until #1019
        return server if hasattr(server, "LRUPromptCache") else None

    def merge(self, singles):
        kind = type(singles[0])
        return (kind if hasattr(kind, "merge") else self._batch_class(kind.__name__)).merge(singles)

    def _batch_class(self, kind):
        return getattr(self.caches, f"Batch{kind}", None)

    def batches(self, kind):
        """True if caches of this class can be merged into a batch; until #743 the class of the batch does it."""
        return hasattr(getattr(self.caches, kind), "merge") or hasattr(self._batch_class(kind), "merge")

    def steps(self, width):
        self.width = width
        for kind in self.kinds:
            getattr(self.caches, kind).step = width

    def make(self, kind, *args):
        made = getattr(self.caches, kind)(*args)
        if "step" in vars(made):                      # old classes give each object its own
            made.step = self.width
        return made

    def restored(self, cache):
        """Return the cache that a prompt file restores. Raise AttributeError if an older version leaves out fields,
        without which later operations fail: those versions restore files in a program, never in their server."""
        meta = (cache.meta_state,) if hasattr(cache, "meta_state") else ()
        made = type(cache).from_state(cache.state, *meta)
        left_out = vars(cache).keys() - vars(made).keys() - {"step"}
        if self.unasked and left_out:
            raise AttributeError(f"a restored {type(cache).__name__} lacks {', '.join(sorted(left_out))}")
        return made

    def array(self, value):
        return self.mx.array(value)

    def numpy(self, value):
        return np.array(value) if isinstance(value, self.mx.array) else None

    def trim(self, layers, n):
        return self.caches.trim_prompt_cache(layers, n)

    def packed(self, numbers, group_size, bits):
        found = self.mx.quantize(numbers, group_size=group_size, bits=bits)
        return [*found, self.mx.dequantize(*found, group_size=group_size, bits=bits)]

    def causal_mask(self, *args):
        return self.caches.create_causal_mask(*args)


def _loaded(path):
    """Load another version of mlx_lm/models/cache.py as a module beside the installed version."""
    spec = importlib.util.spec_from_file_location("mlx_lm.models.other_cache", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def plain(world, value):
    """Convert a value to a plain value."""
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, list | tuple):
        return [plain(world, one) for one in value]
    array = world.numpy(value)
    if array is None:
        return seen(world, value)
    text = array.dtype.str + "x".join(map(str, array.shape))
    return f"{text}:{crc32(np.ascontiguousarray(array).tobytes()):08x}"


def seen(world, cache):
    """Return the complete visible state of a cache."""
    name = type(cache).__name__
    out = [name]
    if name == "BatchRotatingKVCache":
        out.append(cache._offset)
    out += [ABSENT if world.unasked and not hasattr(cache, field)
            else _asked(world, lambda field=field: getattr(cache, field))
            for field in FIELDS if field not in world.unasked]  # fmt: skip
    late = bool(world.unasked) and name.startswith(("Batch", "CacheList"))
    lacks = {question for kind, question in world.lacking if kind == name} | world.unasked
    questions = [question for question in QUESTIONS[late:] if question not in lacks]
    out += [_asked(world, lambda question=question: getattr(cache, question)()) for question in questions]
    if "nbytes" not in lacks and (not world.unasked or name != "QuantizedKVCache"):    # lacked an import before #1165
        out.append(_asked(world, lambda: cache.nbytes))
    if "meta_state" not in lacks and (name != "CacheList" or "nbytes" not in lacks):   # flat before both came
        out.append(_asked(world, lambda: cache.meta_state))
    if name == "CacheList":
        return [*out, *(seen(world, child) for child in cache.caches)]
    out.append(_asked(world, lambda: cache.state))
    if "make_mask" in lacks:
        return out
    masks = [{"N": n} for n in (1, 3)] if name == "ArraysCache" else SINGLE_MASKS
    if world.unasked and not hasattr(cache, "make_mask"):
        return out + [ABSENT] * len(masks)
    return out + [_asked(world, lambda mask=mask: cache.make_mask(**mask)) for mask in masks]


def _asked(world, question):
    try:
        return plain(world, question())
    except Exception:                  # a failing query is an answer, too
        return "raises"


def twin(cache):
    """Return a deep copy, as a fetch makes it."""
    return copy.deepcopy(cache)
