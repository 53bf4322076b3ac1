"""Versions of vLLM, as tables of rules, newest first."""

from __future__ import annotations

from typing import Mapping

from cachesim.engines.vllm.profiles.rule_table import Rules
from cachesim.engines.vllm.profiles.v0_33 import V0_33_0

PROFILES: Mapping[str, Rules] = {one.name: one for one in (V0_33_0,)}
LINE = tuple(reversed(PROFILES))
__all__ = ["LINE", "PROFILES", "Rules"]
