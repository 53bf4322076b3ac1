"""Is a file not as it says because it was written for the options of cachesim 0.1?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Iterable

from cachesim.base.console import complain

if TYPE_CHECKING:
    from cachesim.scenarios.schema import Scenario


def hint_schema(runs: Iterable[tuple[Scenario, dict[str, Any]]]) -> None:
    """A line on stderr for each file that names no schema, whose numbers differ, and which leaves out an option that
    was another one in files of schema 1."""
    wrong = {one.file: one for one, data in runs if data["as_expected"] is False and not one.schema}
    for file, scenario in wrong.items():
        if _relies(scenario):
            complain(f"{file}: if its numbers were written for cachesim 0.1, say `schema = 1` at its top: "
                     "options that it does not set are the server's own since")  # fmt: skip


def _relies(scenario: Scenario) -> bool:
    from cachesim.scenarios.option_checks import manual_of

    manual = manual_of(scenario.engine)
    other = {name for name, value in manual.schema_1.items() if manual.defaults[name] != value}
    return bool(other - set(scenario.server))
