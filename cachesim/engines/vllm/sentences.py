"""Sentences of vLLM's decisions."""

from __future__ import annotations

from cachesim.engines.shared.sentences import Sentences

SENTENCES = Sentences({})
