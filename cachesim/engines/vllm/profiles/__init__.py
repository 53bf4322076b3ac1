"""Versions of vLLM, as tables of rules, newest first."""

from __future__ import annotations

from typing import Mapping

from cachesim.engines.shared.timeline import UNKNOWN, Landed, Timeline
from cachesim.engines.vllm.profiles.releases import REPAIRED, SPLIT_0_23_0, V0_30_0, V0_31_0, V0_32_0, V0_33_0
from cachesim.engines.vllm.profiles.rule_table import Rules

PROFILES: Mapping[str, Rules] = {one.name: one for one in (V0_33_0, V0_32_0, V0_31_0, V0_30_0, REPAIRED, SPLIT_0_23_0)}
LINE = (V0_30_0.name, V0_31_0.name, V0_32_0.name, V0_33_0.name)
BESIDE = {REPAIRED.name: V0_33_0.name, SPLIT_0_23_0.name: V0_30_0.name}
RENAMED = {"vllm@latest-repaired": REPAIRED.name}
OWN = {name: Landed(UNKNOWN, PROFILES[name].build) for name in LINE}
TIMELINE = Timeline(OWN, {}, {name.partition("@")[2]: at for name, at in OWN.items()})
"""Days of the releases on PyPI. The days on which single changes landed are not known."""
__all__ = ["BESIDE", "LINE", "PROFILES", "RENAMED", "TIMELINE", "Rules"]
