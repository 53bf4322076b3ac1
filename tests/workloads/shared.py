"""Parts of the page about servers with several sessions or sub-agents."""

from __future__ import annotations

from typing import Any, Callable, Iterable, Mapping

from cachesim.judging.evidence import PREDICTED
from cachesim.tools.workload.cell_jobs import summed
from tests.workloads.grid import RULE_SETS, RULES_SHARED, SHARED, as_default, has
from tests.workloads.markdown import share, table

Line = dict[str, Any]


class Shared:
    """Sums by rule set and setting, over the groups of sessions in which all cells ran that ran in any group."""

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
        """Return a table of settings by rule sets."""
        def cell(rules: str, setting: str, given: Mapping[str, Any]) -> str:
            one = self.cells.get((rules, setting))
            return show(one) if one is not None else "not run" if has(RULE_SETS[rules], given) else "n/a"

        return table(["setting", *RULES_SHARED], [
            [setting, *(cell(rules, setting, given) for rules in RULES_SHARED)]
            for setting, given in SHARED.items()
        ])  # fmt: skip

    def part(self) -> str:
        """Return the tables."""
        if not self.cells:
            return "Not run.\n"
        first = next(iter(self.cells.values()))
        servers = f"{first['servers']} server{'s' * (first['servers'] != 1)}"
        agents = f", {first['agents']} sub-agents" if first["agents"] else ""
        told = (f"{first['sessions']} sessions on {servers}, {first['requests']:,} requests{agents}, "
                f"{first['prompt'] / 1e6:,.1f} million prompt tokens; the bound is "
                f"{share(first['least'], first['prompt'])} % of them.\n")  # fmt: skip
        return "\n".join([told, "Evaluated tokens, per cent of the prompt tokens:\n", self.rows(answered),
                          "Wrong answers, including errors that a cold run does not return:\n",
                          self.rows(wrong_of),
                          "MiB of checkpoints + prompt cache, maximum after any answer of any server:\n",
                          self.rows(held)])  # fmt: skip

    def fact(self, rules: str, setting: str, show: Callable[[Line], str]) -> str:
        """Return a number of the findings; "-" for missing results."""
        one = self.cells.get((rules, setting))
        return show(one) if one is not None else "-"


def answered(line: Line) -> str:
    """Return the evaluated tokens in per cent of the prompt tokens, and the requests without an answer."""
    lost = line["refused"] + line["died"]
    return share(line["evaluated"], line["prompt"]) + (f" [{lost} unanswered]" if lost else "")


def in_words(line: Line) -> str:
    """Return the evaluated tokens and the requests without an answer in a sentence."""
    lost = line["refused"] + line["died"]
    return f"{share(line['evaluated'], line['prompt'])} %" + (f" ({lost} unanswered)" if lost else "")


def wrong_of(line: Line) -> str:
    """Return the wrong answers among the judged answers."""
    return "not judged" if line["wrong"] is None else f"{line['wrong']:,} of {line['requests']:,}{seen_of([line])}"


def seen_of(lines: Iterable[Line]) -> str:
    """Return the number of wrong answers that were never seen on a real server, "" if it is 0."""
    n = sum(one.get("predicted", 0) for one in lines)
    return f" ({n:,} {PREDICTED})" if n else ""


def held(line: Line) -> str:
    """Return the memory of checkpoints and stored conversations."""
    return f"{line['peak_checkpoints']:,.0f} + {line['peak_cache']:,.0f}"
