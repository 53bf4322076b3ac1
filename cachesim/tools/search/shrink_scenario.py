"""Shrinking of a given scenario to the smallest line that fails in the same way. Failures of campaigns are shrunk with
the same search."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Callable, Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from cachesim.base.errors import BadInput
from cachesim.base.layout import indented
from cachesim.judging.compare_answer import Judge
from cachesim.judging.reproduce_command import line_command
from cachesim.scenarios.notation.shrink import Shrinking
from cachesim.scenarios.notation.word_lengths import normal
from cachesim.scenarios.schema import Scenario
from cachesim.tools.run.run_table import block_of_case
from cachesim.tools.search.campaign_folder import finding_data
from cachesim.tools.search.drawn_conversation import DrawnConversation, case_of, longest
from cachesim.tools.search.invariant_observer import observe_run
from cachesim.tools.search.property_failure import PropertyFailure
from cachesim.tools.search.run_properties import ALL, shown

# Report of a shrunk scenario: the failure, its line, the sizes before and after, its causes.

def shrink_report(data: dict[str, Any]) -> RenderableType:
    """Return the report of ``explained`` data. Its last line is the shell command that reproduces the failure."""
    before, tries = data["before"], data["tries"]
    out = Text.assemble((data["profile"], "cyan"), "  ", (f"{data['property']}: {data['text']}\n", "bold red"),
                        f"  {data['rule']}\n  ", (f"{data['line']}\n", "bold"))
    out.append(f"  shrunk from {_many(before['requests'], 'step')} (longest {_many(before['longest'], 'token')}) to "
               f"{data['requests']} (longest {data['longest']}) in {_many(tries, 'try')}", "dim")  # fmt: skip
    others = (indented(f"also fails (not shrunk): {other['property']} ({other['rule']})", "dim")
              for other in data["others"])  # fmt: skip
    return Group(out, *others, block_of_case(data))


def _many(n: int, what: str) -> str:
    """Return a count with its noun: ``1 try``, ``2 tries``."""
    plural = f"{what[:-1]}ies" if what.endswith("y") else f"{what}s"
    return f"{n} {what if n == 1 else plural}"


class ScenarioShrinking:
    """Shrinking of a scenario under a profile. ``found``: its findings in the order of the properties. A smaller
    case must show a finding of the group of the first of them."""

    def __init__(self, scenario: Scenario, profile: str, properties: Sequence[str], mode: str, tries: int) -> None:
        """Run the scenario. Raise BadInput if it cannot run or cannot be written in a line."""
        self.profile, self.mode = profile, mode
        self.judges: dict[str, Judge] = {}
        self.case = case_of(scenario)
        self.found = shown(self.case, profile, properties, self.judges, mode)
        name = self.found[0].name if self.found else ""
        self.properties = (name,) if name in ALL else tuple(properties)
        self.search = Shrinking(self.case, self._happens, tries, self.case.seed)
        self.tick: Callable[[], object] = lambda: None

    def run(self, tick: Callable[[], object]) -> None:
        """Shrink the scenario. ``tick`` is called at every try."""
        self.tick = tick
        self.search.run()

    def _happens(self, case: DrawnConversation) -> bool:
        self.tick()
        return bool(self._again(case))

    @property
    def is_undecided(self) -> bool:
        """True if nothing was found because the outcome depends on a number that the server never wrote."""
        return not self.found and observe_run(self.case.scenario(self.profile), self.profile, {}, mode=self.mode).unset

    def _again(self, case: DrawnConversation) -> list[PropertyFailure]:
        """Return the findings of the group in another case, run as its line reads; [] if it has none."""
        try:
            every = shown(_typed(case), self.profile, self.properties, self.judges, self.mode)
        except BadInput:
            return []
        return [one for one in every if one.group == self.found[0].group]

    def data(self) -> dict[str, Any]:
        """Return the smallest case so far with its finding, and the other findings of the whole scenario."""
        small = _typed(self.search.found)
        finding = (self._again(small) or self.found)[0]
        others = {one.group: one for one in self.found if one.group != finding.group}
        return {
            "profile": self.profile, **finding_data(finding), "line": repr(small.scenario(self.profile)),
            "model": small.model, "server": small.given(), "requests": len(small.asked), "longest": longest(small),
            "before": {"requests": len(self.case.asked), "longest": longest(self.case)}, "tries": self.search.tries,
            "others": [{"property": one.name, "kind": one.kind, "rule": one.label} for one in others.values()],
            "command": command(small, self.profile),
        }  # fmt: skip


def _typed(case: DrawnConversation) -> DrawnConversation:
    """Return the case as its line reads. Raise BadInput if its line is not valid."""
    line = normal(case.line)
    return replace(case, words=line.words, asked=line.steps)


def command(case: DrawnConversation, profile: str) -> str:
    """Return the shell command that runs a case."""
    return line_command(repr(case.scenario(profile)), profile, case.model, case.given())
