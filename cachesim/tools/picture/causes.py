"""What is behind a loss? The rule, where the rule is written down, and the server's options that govern it."""

from __future__ import annotations

from typing import Iterable, NamedTuple

from cachesim.engines import registry
from cachesim.engines.manual import Flag, Option
from cachesim.engines.rule import RULES, about
from cachesim.scenarios.option_checks import in_force
from cachesim.scenarios.schema import Scenario


class RuleSource(NamedTuple):
    """A rule: its source in words, the address of the source ("" = it has none), and the options that govern it as
    they were, ``--ctx-checkpoints 32``."""

    rule: str
    source: str
    link: str
    flags: tuple[str, ...]


def causes(rules: Iterable[str], scenario: Scenario, profile: str) -> dict[str, RuleSource]:
    """What is known of these rules, by id; a rule that is not known is left out. Raises BadInput for an unknown
    profile."""
    engine, now = registry.engine_named(scenario.engine), in_force(scenario.server, profile)
    found: dict[str, RuleSource] = {}
    for rule in sorted(set(rules) & set(RULES)):
        names = engine.rule_flags.get(rule.split(".")[0], ())
        flags = tuple(_typed(flag, now[flag.name]) for flag in filter(None, map(engine.manual.flag, names)))
        source = about(RULES[rule]).source
        found[rule] = RuleSource(rule, str(source), source.link, flags)
    return found


def _typed(flag: Flag, value: Option) -> str:
    """An option in the server's long spelling, with its value."""
    word = next((one for one in flag.spellings if one.startswith("--")), flag.name)
    if isinstance(value, bool):
        return f"{word} {'on' if value else 'off'}"
    return f"{word} {value}"
