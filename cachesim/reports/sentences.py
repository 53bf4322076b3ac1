"""What did a rule say, in words? Its engine has the sentence; a rule without one shows its numbers."""

from __future__ import annotations

from typing import Any, Mapping

from cachesim.engines.registry import ENGINES


def sentence(rule: str, value: Any, because: Mapping[str, Any]) -> str:
    """One plain sentence about a decision, "" for one of no interest; unknown families show their numbers."""
    for engine in ENGINES.values():
        said = engine.say(rule, value, because)
        if said is not None:
            return said
    return f"{value}  ({', '.join(f'{name} {one}' for name, one in because.items())})"
