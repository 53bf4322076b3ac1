"""What did a rule say, in words? Its engine has the sentence; a rule without one shows its numbers."""

from __future__ import annotations

from typing import Any, Mapping

from cachesim.engines.registry import ENGINES
from cachesim.engines.rule import Role
from cachesim.engines.shared.sentences import Dull

QUIET = (Role.ENABLE, Role.END)
"""Roles of decisions that say little about a cache: shown on request only."""


def sentence(rule: str, value: Any, because: Mapping[str, Any], every: bool = False) -> str:
    """One plain sentence about a decision, "" for one that changed nothing (but with ``every``, which says those too);
    unknown families show their numbers."""
    for engine in ENGINES.values():
        said = engine.say(rule, value, because)
        if said is not None:
            return "" if isinstance(said, Dull) and not every else str(said)
    return f"{value}  ({', '.join(f'{name} {one}' for name, one in because.items())})"
