"""Versions of vLLM, as tables of rules, newest first."""

from __future__ import annotations

from typing import Mapping

from cachesim.engines.vllm.profiles.rule_table import Rules

V0_33_0 = Rules("vllm@0.33.0", "2026-11-02", "vLLM 0.33.0 (PyPI)")

PROFILES: Mapping[str, Rules] = {one.name: one for one in (V0_33_0,)}
LINE: tuple[str, ...] = (*PROFILES,)[::-1]
__all__ = ["LINE", "PROFILES", "Rules"]
