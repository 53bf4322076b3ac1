"""Engine with four rule sets on its main line and three beside it, and reports as lines."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from cachesim.base.console import as_text
from cachesim.engines import registry
from cachesim.engines.capabilities import Flag
from cachesim.engines.rule import About, Role, Source
from cachesim.engines.shared.rule_set import RuleSet
from cachesim.engines.shared.timeline import Timeline


def keep_first(held):
    return held[:1]


def keep_second(held):
    """Keep the second entry;
    return it. The others go."""
    return held[1:2]


def keep_third(held):
    return held[2:3]


def keep_last(held):
    return held[-1:]


def count_held(held):
    return len(held)


def never_used(held):
    return held


def named(function, name, since=""):
    """Make a function a rule that is in no register."""
    function.rule = name
    function.about = About(name, Role.DROP, Source("org/toy", "toy.c", function.__name__, "b12"), since)
    return function


FIRST, SECOND = named(keep_first, "TOY-KEEP.1"), named(keep_second, "TOY-KEEP.2", "#7")
THIRD, LAST = named(keep_third, "TOY-KEEP.3"), named(keep_last, "TOY-KEEP.LAST")
COUNT, UNUSED = named(count_held, "TOY-COUNT"), named(never_used, "TOY-UNUSED")


@dataclass(frozen=True, repr=False)
class ToyRules(RuleSet):
    name: str
    build: str
    source: str
    keep: Callable[..., Any]
    count_rule: Callable[..., Any] | None = None
    number: int = 3
    inferred: tuple[str, ...] = field(default=())


LINE = [
    ToyRules("toy@1", "1", "org/toy 1", FIRST), ToyRules("toy@2", "2", "org/toy 2", SECOND),
    ToyRules("toy@3", "3", "org/toy 3", SECOND, COUNT, inferred=("keep",)),
    ToyRules("toy@4", "4", "org/toy 4", THIRD, COUNT),
]  # fmt: skip
BESIDE = {"toy@last": "toy@3", "toy@as-1": "toy@4", "toy@same": "toy@3"}
PROPOSED = [
    ToyRules("toy@last", "3", "org/toy#9", LAST, COUNT), ToyRules("toy@as-1", "4", "org/toy#8", FIRST, COUNT),
    ToyRules("toy@same", "3", "org/toy#6", SECOND, COUNT, 4),
]  # fmt: skip
FLAGS = (
    Flag("most", 4, spellings=("-m", "--most"), help="Most entries.", governs="TOY-KEEP"),
    Flag("bare", 4, affects="TOY-COUNT TOY-KEEP"),
    Flag("other", 4, spellings=("-o",), governs="TOY-COUNT"),
)  # fmt: skip


def with_toy_engine(monkeypatch):
    """Replace the known engines by mlx_lm and the toy engine, and return the toy engine."""
    mlx = registry.ENGINES["mlx_lm"]
    rule_sets = {rules.name: rules for rules in (*reversed(LINE), *PROPOSED)}
    engine = replace(mlx, name="toy", profiles=rule_sets, line=tuple(rules.name for rules in LINE), beside=BESIDE,
                     manual=replace(mlx.manual, flags=FLAGS), when=Timeline())  # fmt: skip
    monkeypatch.setattr(registry, "ENGINES", {"mlx_lm": mlx, "toy": engine})
    return engine


def lines_of(*reports):
    """Return the lines of a printed report without the blanks at their ends."""
    return [line.rstrip() for line in as_text(*reports).splitlines()]
