"""Tiny models with exact arithmetic: layers, weights, provenance. Depends on the ``Store`` protocol, not on caches or
servers.

Glossary, for this folder:
  n   rows or tokens of a whole sequence          t   tokens of a run
  d   width of the model (32)                     k   taps of a short convolution (4; C: 3)
  q, k, v  query, key, value of attention         g   queries that share a K/V head (GQA)
  x   residual stream; in provenance its digest   u   x after RMSNorm
  h   recurrent matrix                            grid  multiples of a power of two, the unit of all values
"""

from cachesim.model.forward import Model, make_model
from cachesim.model.spec import Layer, Spec, parse
from cachesim.model.store import HiddenOutput, KVRows, LayerState, Store, TokenRun, same_state

__all__ = [
    "HiddenOutput",
    "KVRows",
    "Layer",
    "LayerState",
    "Model",
    "Spec",
    "Store",
    "TokenRun",
    "make_model",
    "parse",
    "same_state",
]
