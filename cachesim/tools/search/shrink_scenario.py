"""What is the smallest line that is broken as this scenario is? The search that every failure of a campaign goes
through, for a conversation that somebody has."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Callable, Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from cachesim.base.errors import BadInput
from cachesim.base.layout import indented
from cachesim.judging.compare_answer import Judge
from cachesim.judging.reproduce_command import try_command
from cachesim.scenarios.notation.shrink import Shrinking
from cachesim.scenarios.notation.word_lengths import normal
from cachesim.scenarios.schema import Scenario
from cachesim.tools.run.run_table import block_of_case
from cachesim.tools.search.campaign_folder import finding_data
from cachesim.tools.search.drawn_conversation import DrawnConversation, case_of, longest
from cachesim.tools.search.invariant_observer import played
from cachesim.tools.search.property_failure import PropertyFailure
from cachesim.tools.search.run_properties import ALL, shown

# How does a conversation look that was made small? What is broken, its line, how much smaller that is, how it comes
# about.

def shrink_report(data: dict[str, Any]) -> RenderableType:
    """Everything, from ``explained`` data; the last line is the command that runs it, as it is typed."""
    before, tries = data["before"], data["tries"]
    out = Text.assemble((data["profile"], "cyan"), "  ", (f"{data['property']}: {data['text']}\n", "bold red"),
                        f"  {data['rule']}\n  ", (f"{data['line']}\n", "bold"))
    out.append(f"  {_many(before['requests'], 'step')}, the longest of {_many(before['longest'], 'token')}, became "
               f"{data['requests']} and {data['longest']} in {_many(tries, 'try')}", "dim")  # fmt: skip
    others = (indented(f"also broken, and not looked at: {other['property']} ({other['rule']})", "dim")
              for other in data["others"])  # fmt: skip
    return Group(out, *others, block_of_case(data))


def _many(n: int, what: str) -> str:
    """``1 try``, ``2 tries``."""
    plural = f"{what[:-1]}ies" if what.endswith("y") else f"{what}s"
    return f"{n} {what if n == 1 else plural}"


class Smallest:
    """The search for one scenario under one profile. ``found``: what is wrong with it, in the order of the properties;
    the first of these findings is the one that a smaller case must show, as a campaign tells findings apart."""

    def __init__(self, scenario: Scenario, profile: str, properties: Sequence[str], mode: str, tries: int) -> None:
        """Play the scenario. Raises BadInput if it cannot be played, or not be written in one line."""
        self.profile, self.mode = profile, mode
        self.judges: dict[str, Judge] = {}
        self.case = case_of(scenario)
        self.found = shown(self.case, profile, properties, self.judges, mode)
        name = self.found[0].name if self.found else ""
        self.properties = (name,) if name in ALL else tuple(properties)
        self.search = Shrinking(self.case, self._happens, tries, self.case.seed)
        self.tick: Callable[[], object] = lambda: None

    def run(self, tick: Callable[[], object]) -> None:
        """Search. ``tick`` is called at every try."""
        self.tick = tick
        self.search.run()

    def _happens(self, case: DrawnConversation) -> bool:
        self.tick()
        return bool(self._again(case))

    @property
    def undecided(self) -> bool:
        """Was nothing found because the outcome depends on a number that the server never wrote?"""
        return not self.found and played(self.case.scenario(self.profile), self.profile, {}, mode=self.mode).unset

    def _again(self, case: DrawnConversation) -> list[PropertyFailure]:
        """The finding in another case, played as its line is read back; [] if it is not there."""
        try:
            every = shown(_typed(case), self.profile, self.properties, self.judges, self.mode)
        except BadInput:
            return []
        return [one for one in every if one.group == self.found[0].group]

    def data(self) -> dict[str, Any]:
        """The smallest case so far and what is wrong with it; what else is wrong with the whole scenario."""
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
    """The case as it is read back from its line. Raises BadInput where it cannot be."""
    line = normal(case.line)
    return replace(case, words=line.words, asked=line.steps)


def command(case: DrawnConversation, profile: str) -> str:
    """The command that runs a case, as it is typed into a shell."""
    return try_command(repr(case.scenario(profile)), profile, case.model, case.given())
