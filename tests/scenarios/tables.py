"""The tables of scenarios in the READMEs beside them, by what a user sees: ``python -m tests.scenarios.tables`` writes
them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Sequence

from cachesim.scenarios.real_builds import real_builds, seen_text
from cachesim.scenarios.scenario_heads import ScenarioHead, grouped
from cachesim.scenarios.symptoms import SYMPTOMS
from tests.scenarios.whole import heads

CORPUS = Path(__file__).resolve().parents[2] / "scenarios"
BEGIN, END = "<!-- scenarios: written by `make docs` -->\n", "<!-- /scenarios -->\n"


def readmes() -> list[Path]:
    """The READMEs with a table: that of the corpus, and that of each engine."""
    found = [CORPUS / "README.md", *sorted(CORPUS.glob("*/README.md"))]
    return [readme for readme in found if BEGIN in readme.read_text("utf-8")]


def with_table(readme: Path, scenarios: Sequence[ScenarioHead]) -> str:
    """The text of a README with its table as it has to be."""
    text = readme.read_text("utf-8")
    head, _, rest = text.partition(BEGIN)
    _, _, tail = rest.partition(END)
    table = _symptoms(scenarios) if readme.parent == CORPUS else _files(readme.parent, scenarios)
    return f"{head}{BEGIN}{table}{END}{tail}"


def _sorted(scenarios: list[ScenarioHead]) -> list[ScenarioHead]:
    return sorted(scenarios, key=lambda one: (list(SYMPTOMS).index(one.symptom), one.id))


def _symptoms(scenarios: list[ScenarioHead]) -> str:
    groups = grouped(_sorted(scenarios))
    rows = [f"| `{name}` | {one.text} | {len(groups.get(name, ()))} |\n" for name, one in SYMPTOMS.items()]
    return "| symptom | what a user sees | scenarios |\n|---|---|---|\n" + "".join(rows)


def _files(folder: Path, scenarios: list[ScenarioHead]) -> str:
    mine = [one for one in scenarios if Path(one.file).is_relative_to(folder)]
    parts = []
    for name, group in grouped(_sorted(mine)).items():
        rows = [f"| [{one.id}]({Path(one.file).relative_to(folder).as_posix()}) | {_shown(one)} | "
                f"{', '.join(map(short, one.source))} |\n" for one in group]  # fmt: skip
        parts.append(f"\n**{name}**: {SYMPTOMS[name].text}\n\n| file | what it shows | source |\n|---|---|---|\n")
        parts += rows
    return "".join(parts) + "\n"


def _shown(scenario: ScenarioHead) -> str:
    """Return what a scenario shows: its title, a link to its picture, and the real builds on which it was seen."""
    found = real_builds(scenario.id)
    seen = f"; {seen_text(found)}" if found.shown else ""
    return f"{scenario.title}{_picture(scenario)}{seen}"


def _picture(scenario: ScenarioHead) -> str:
    """Return a link to the scenario's picture, "" if the repository does not contain it."""
    file = CORPUS / "pictures" / f"{scenario.id}.svg"
    return f" ([picture](../pictures/{file.name}))" if file.exists() else ""


def short(source: str) -> str:
    """A source as a link, in few letters."""
    if anchor := re.fullmatch(r"scenarios/(FAULTS\.md#(.+))", source):
        return f"[{anchor[2].upper() if re.fullmatch('[a-z-]+[0-9]+', anchor[2]) else anchor[2]}](../{anchor[1]})"
    if source.startswith("tests/"):
        return f"[recording](../../{source})"
    if place := re.fullmatch(r"(https://.*)#([\w.]+)", source):
        return f"[`{place[2]}`]({place[1]})"
    if thread := re.fullmatch(r"([\w.-]+)/([\w.-]+)#(\d+)", source):
        return f"[{thread[2]}#{thread[3]}](https://github.com/{thread[1]}/{thread[2]}/issues/{thread[3]})"
    return source


def main() -> None:
    scenarios = heads()
    for readme in readmes():
        readme.write_text(with_table(readme, scenarios), "utf-8")


if __name__ == "__main__":
    main()
