"""How does an engine say in words what its rules decided? A table of sentences by family: the id up to its first dot.

The rule holds no prose, and the report knows no rule: between them stands this table, in the engine's own folder.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Callable, Mapping

from cachesim.engines.rule import RULES

Because = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Sentences:
    """Sentences by family; ``by_rule`` those of families in which every rule has a condition of its own, and the id is
    told too. A sentence of "" is of no interest to anybody."""

    families: Mapping[str, Callable[[Any, Because], str]]
    by_rule: Mapping[str, Callable[[str, Any, Because], str]] = field(default_factory=dict)

    def say(self, rule: str, value: Any, because: Because) -> str | None:
        """One plain sentence about a decision, None for an unknown family. A rule of somebody's own may say something
        of another form than its family: then there is no sentence for it either. A sentence that fails for a rule of
        the package is a fault, and raises."""
        family = rule.split(".")[0]
        try:
            if family in self.by_rule:
                return self.by_rule[family](rule, value, because)
            return self.families[family](value, because) if family in self.families else None
        except (KeyError, TypeError, AttributeError, ValueError):
            if rule in RULES and RULES[rule].__module__.startswith("cachesim."):
                raise
            return None
