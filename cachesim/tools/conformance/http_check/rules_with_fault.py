"""Rule sets of cachesim that answer a request as wrong as a server did, with the rule that ``cachesim why`` names.

Only rule sets of a single engine are listed: among those that reuse as many tokens as the server in every request,
the engine whose models do so most often.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Iterator, Mapping

from cachesim.base.errors import BadInput
from cachesim.base.escaping import shell_command
from cachesim.engines.contract import Engine

if TYPE_CHECKING:
    from cachesim.engines.capabilities import Option
    from cachesim.judging.judged_run import Run

MODELS = ("GA", "S", "W32 A", "W8 A", "C W32", "A")
MOST = 4                     # models that are listed


@dataclass(frozen=True, slots=True)
class MatchingRuleSet:
    """A rule set that answers the request wrong on a model."""

    engine: str
    profile: str
    model: str
    alike: bool                          # it reuses as many tokens as the server in every request
    command: str                         # command line that explains the request
    rule: str = ""                       # rule that ``cachesim why`` names, "" = none, or it was not looked up
    cure: str = ""                       # change of this rule that removes the fault

    @property
    def sentence(self) -> str:
        """The match in words."""
        rule = f": {self.rule} decided" if self.rule else ""
        return f"{self.profile} gives a wrong answer on {self.model}{rule}"

    def data(self) -> dict[str, str]:
        """Return the match as plain data."""
        return {"profile": self.profile, "model": self.model, "rule": self.rule, "command": self.command}


@dataclass(frozen=True, slots=True)
class WrongRequest:
    """A wrong answer of a server: a history, the request (from 0), and the reused tokens that the server reported for
    each request, None if it did not."""

    line: str
    request: int
    cached: tuple[int | None, ...] = ()


class RuleMatcher:
    """Looks up rule sets, each wrong answer once. ``slots``: the server has slots; ``scales``: of its adapters, in
    order, separated by commas."""

    def __init__(self, slots: bool, scales: str) -> None:
        self.slots, self.scales = slots, scales
        self.known: dict[WrongRequest, list[MatchingRuleSet]] = {}

    def matches(self, wrong: WrongRequest) -> list[MatchingRuleSet]:
        """Return the rule sets under which the simulator answers the request wrong, the first of them with its rule."""
        if wrong not in self.known:
            found = self.known[wrong] = matching_rule_sets(wrong, self.slots, self.scales)[:MOST]
            first = [_with_rule(one, wrong, self.scales) for one in found[:1]]
            self.known[wrong] = [*first, *found[1:]]
        return self.known[wrong]


def matching_rule_sets(wrong: WrongRequest, slots: bool, scales: str) -> list[MatchingRuleSet]:
    """Return the rule sets under which the simulator answers the request wrong, without the rule."""
    from cachesim.engines.registry import ENGINES

    engines = [engine for engine in ENGINES.values() if bool(engine.manual.slots) == slots]
    found = [one for engine in engines for one in _of(engine, wrong, scales)]
    names = [one.engine for one in found if one.alike]
    best = max(dict.fromkeys(names), key=names.count, default="")
    return [one for one in found if one.alike and one.engine == best]


def _of(engine: Engine, wrong: WrongRequest, scales: str) -> Iterator[MatchingRuleSet]:
    from cachesim.judging.reproduce_command import line_arguments

    profile = engine.newest or (engine.line[-1] if engine.line else "")
    models = MODELS[::-1] if "{lora=" in wrong.line else MODELS    # attention first: other layers have own faults
    for model in models if profile else ():
        try:
            run = _run(engine, profile, model, wrong, scales)
        except BadInput:
            continue
        if wrong.request in run.broken:
            answers = [one.answer for one in run.requests]
            pairs = zip(wrong.cached[: wrong.request + 1], answers, strict=False)
            alike = all(reported is None or reported == answer.cache_n for reported, answer in pairs)
            line, *words = line_arguments(_sent_line(engine, wrong), profile, model, _flags(engine, scales))
            command = shell_command(["cachesim", "why", line, str(wrong.request), *words])
            yield MatchingRuleSet(engine.name, profile, model, alike, command)


def _run(engine: Engine, profile: str, model: str, wrong: WrongRequest, scales: str) -> Run:
    """Run the history on a simulated server. Raise BadInput."""
    from cachesim.judging.judged_run import run_judged
    from cachesim.scenarios.from_notation import from_line

    scenario = from_line(_sent_line(engine, wrong), model=model, profiles=(profile,), server=_flags(engine, scales))
    return run_judged(scenario, profile, "provenance")


def _flags(engine: Engine, scales: str) -> Mapping[str, Option]:
    return {engine.manual.adapter_scales: scales} if scales and engine.manual.adapter_scales else {}


def _with_rule(match: MatchingRuleSet, wrong: WrongRequest, scales: str) -> MatchingRuleSet:
    """Return the match with the rule that decided, found as ``cachesim why`` finds it."""
    from cachesim.engines.registry import ENGINES
    from cachesim.judging.deciding_rule import deciding_rule

    run = _run(ENGINES[match.engine], match.profile, match.model, wrong, scales)
    found = deciding_rule(run, wrong.request)
    if found is None or not (found.cures or found.together):
        return match
    if found.cures:
        return replace(match, rule=found.rule, cure=f"{found.cures[0].variant} of {found.variant_of}")
    return replace(match, rule=" and ".join(one.old for one in found.together),
                   cure=" and ".join(one.new for one in found.together))  # fmt: skip


def _sent_line(engine: Engine, wrong: WrongRequest) -> str:
    """Return the history as it is run on the server: every request in slot 0, if the engine has slots."""
    return "/".join(map(_in_slot, wrong.line.split("/"))) if engine.manual.slots else wrong.line


def _in_slot(step: str) -> str:
    """Return the request in slot 0, unless it has options other than adapters."""
    words, brace, options = step.partition("{")
    return f"{words}@0{brace}{options}" if not brace or re.fullmatch(r"lora=[^ ]*\}", options) else step
