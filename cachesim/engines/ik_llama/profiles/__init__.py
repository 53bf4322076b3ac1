"""Which rules does each version of ik_llama.cpp's server follow? The files read as a changelog, newest first."""

from __future__ import annotations

from cachesim.engines.ik_llama.profiles.main import MAIN
from cachesim.engines.ik_llama.profiles.table import Rule, Rules
from cachesim.engines.shared.tables import changes, mixed

PROFILES: dict[str, Rules] = {rules.name: rules for rules in (MAIN,)}

LINE: tuple[str, ...] = (MAIN.name,)
"""The main branch in order, oldest first."""

BESIDE: dict[str, str] = {}
"""What was proposed -> what it was proposed on."""

COMMITS = {"8337e4cd3861406fc04e0854b1409cd1b027fbc9": MAIN.name}
"""Commit of a recording that names no profile -> profile."""

__all__ = ["BESIDE", "COMMITS", "LINE", "MAIN", "PROFILES", "Rule", "Rules", "changes", "mixed"]
