"""Several sessions, or sub-agents, on one server: the parts of the page about them."""

from __future__ import annotations

from typing import Any, Callable, Iterable, Mapping

from cachesim.judging.evidence import PREDICTED
from cachesim.tools.workload.cell_jobs import summed
from tests.workloads.grid import RULE_SETS, RULES_SHARED, SHARED, as_default, has
from tests.workloads.markdown import share, table

Line = dict[str, Any]


class Shared:
    """Sums by rule set and setting, over the groups of sessions in which every cell was played that was played."""

    def __init__(self, lines: Iterable[Line]) -> None:
        cells: dict[tuple[str, str], list[Line]] = {}
        for one in lines:
            cells.setdefault((one["rules"], one["setting"]), []).append(one)
        every = [{one["session"] for one in found} for found in cells.values()]
        common = set.intersection(*every) if every else set()
        self.cells = {key: summed([one for one in found if one["session"] in common])
                      for key, found in cells.items() if common}  # fmt: skip
        for rules in RULES_SHARED:
            for setting, given in SHARED.items():
                plain = self.cells.get((rules, "default"))
                if plain is not None and has(RULE_SETS[rules], given) and as_default(RULE_SETS[rules], "hybrid", given):
                    self.cells[rules, setting] = plain

    def rows(self, show: Callable[[Line], str]) -> str:
        """Settings by rule sets."""
        def cell(rules: str, setting: str, given: Mapping[str, Any]) -> str:
            one = self.cells.get((rules, setting))
            return show(one) if one is not None else "not run" if has(RULE_SETS[rules], given) else "n/a"

        return table(["setting", *RULES_SHARED], [
            [setting, *(cell(rules, setting, given) for rules in RULES_SHARED)]
            for setting, given in SHARED.items()
        ])  # fmt: skip

    def part(self) -> str:
        """The tables."""
        if not self.cells:
            return "Not run.\n"
        first = next(iter(self.cells.values()))
        servers = f"{first['servers']} server{'s' * (first['servers'] != 1)}"
        agents = f", {first['agents']} sub-agents" if first["agents"] else ""
        told = (f"{first['sessions']} sessions on {servers}, {first['requests']:,} requests{agents}, "
                f"{first['prompt'] / 1e6:,.1f} million prompt tokens; the bound is "
                f"{share(first['least'], first['prompt'])} % of them.\n")  # fmt: skip
        return "\n".join([told, "Evaluated tokens, per cent of the prompt tokens:\n", self.rows(answered),
                          "Wrong answers; an error that a cold run does not end with counts as one:\n",
                          self.rows(wrong_of),
                          "MiB of checkpoints + prompt cache, the most after any answer of any server:\n",
                          self.rows(held)])  # fmt: skip

    def fact(self, rules: str, setting: str, show: Callable[[Line], str]) -> str:
        """A number of the findings; "-" for what was not run."""
        one = self.cells.get((rules, setting))
        return show(one) if one is not None else "-"


def answered(one: Line) -> str:
    """In per cent of the prompt tokens, and what has no answer."""
    lost = one["refused"] + one["died"]
    return share(one["evaluated"], one["prompt"]) + (f" [{lost} unanswered]" if lost else "")


def in_words(one: Line) -> str:
    """The same in a sentence."""
    lost = one["refused"] + one["died"]
    return f"{share(one['evaluated'], one['prompt'])} %" + (f" ({lost} unanswered)" if lost else "")


def wrong_of(one: Line) -> str:
    """Of those that were judged."""
    return "not judged" if one["wrong"] is None else f"{one['wrong']:,} of {one['requests']:,}{seen_of([one])}"


def seen_of(lines: Iterable[Line]) -> str:
    """How many of the wrong answers no real server was seen to give, "" where all were."""
    n = sum(one.get("predicted", 0) for one in lines)
    return f" ({n:,} {PREDICTED})" if n else ""


def held(one: Line) -> str:
    """Checkpoints and stored conversations."""
    return f"{one['peak_checkpoints']:,.0f} + {one['peak_cache']:,.0f}"
