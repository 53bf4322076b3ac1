"""pytest runs scenario files: every file with every profile is an item, ``case.toml::llama_cpp@head``.

Nothing is collected unless the project says so: ``--cachesim``, or ``cachesim_scenarios = true`` in its ini file; and
then only files that are scenarios. An item fails if its run is not as the file says, is broken where the file says
nothing, or is undecided: what was not decided is never green. Nothing heavy is imported before a scenario is found.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Iterator

import pytest

MODES = ("exact", "provenance")
_SIGNS = (re.compile(r"^\s*engine\s*=", re.M), re.compile(r"^\s*\[\[\s*request\s*\]\]", re.M))
"""What a scenario file has and other people's TOML has not, even where it is spoilt."""


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("cachesim", "scenarios of prefix caches")
    group.addoption("--cachesim", action="store_true", help="collect scenario files (*.toml)")
    group.addoption("--cachesim-profile", metavar="PROFILE", action="append", default=[],
                    help="rule set, or Python file of rules, instead of the files' own; may be repeated")  # fmt: skip
    group.addoption("--cachesim-mode", choices=MODES, help="exact numbers (default), or tokens only (faster)")
    parser.addini("cachesim_scenarios", "collect scenario files (*.toml)", type="bool", default=False)
    parser.addini("cachesim_profiles", "rule sets, as --cachesim-profile", type="linelist", default=[])
    parser.addini("cachesim_mode", "exact or provenance, as --cachesim-mode", default="exact")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "cachesim: a scenario file under one profile")
    if _mode(config) not in MODES:
        raise pytest.UsageError(f"cachesim_mode is {_mode(config)!r}, it must be one of {', '.join(MODES)}")


def pytest_collection(session: pytest.Session) -> None:
    """Refuse a profile that does not exist before anything runs."""
    if _enabled(session.config) and _profiles(session.config):
        from cachesim.base.errors import BadInput
        from cachesim.engines.registry import engine_of

        try:
            for name in _named(session.config):
                engine_of(name)
        except BadInput as bad:
            raise pytest.UsageError(str(bad)) from None


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    if file_path.suffix != ".toml" or not _enabled(parent.config) or not is_scenario(file_path):
        return None
    file: pytest.Collector = ScenarioFile.from_parent(parent, path=file_path)
    return file


def is_scenario(file: Path) -> bool:
    """Does the file look like a scenario of ours, right or wrong?"""
    from cachesim.base.errors import BadInput
    from cachesim.base.limits import SCENARIO_BYTES
    from cachesim.base.untrusted_files import read_text

    try:
        text = read_text(file, SCENARIO_BYTES)
    except BadInput:
        return False
    return all(sign.search(text) for sign in _SIGNS)


class ScenarioFile(pytest.File):
    """A scenario file; one that cannot be read is an error of the collection."""

    def collect(self) -> Iterator[pytest.Item]:
        from cachesim.base.errors import BadInput
        from cachesim.engines.registry import engine_named, profiles
        from cachesim.scenarios.corpus import own_profiles
        from cachesim.scenarios.load import load

        asked, known = _named(self.config), frozenset(profiles())
        try:
            scenario = load(self.path, known)
            own = () if asked else own_profiles(scenario, known)
        except BadInput as bad:
            raise self.CollectError(str(bad)) from None
        mine = engine_named(scenario.engine).profiles
        for profile in [name for name in asked if name in mine] if asked else own:
            yield ScenarioItem.from_parent(self, name=profile, scenario=scenario)


class NotAsItShould(Exception):
    """A run that is not good; its text is the report."""


class ScenarioItem(pytest.Item):
    """A scenario under one profile."""

    def __init__(self, *, scenario: Any, **rest: Any) -> None:
        super().__init__(**rest)
        self.scenario = scenario
        self.add_marker("cachesim")

    def runtest(self) -> None:
        from cachesim.base.errors import BadInput
        from cachesim.judging.judged_run import run_judged
        from cachesim.judging.run_data import run_data
        from cachesim.judging.verdict import outcome

        try:
            data = run_data(run_judged(self.scenario, self.name, _mode(self.config)))
        except BadInput as bad:
            raise NotAsItShould(str(bad)) from None
        good = outcome(data, as_expected=True)
        if not good:
            raise NotAsItShould(_text(data, good))

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        if isinstance(excinfo.value, NotAsItShould):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        return self.path, None, f"{self.scenario.id} {self.name}"


def _text(data: dict[str, Any], good: bool | None) -> str:
    from cachesim.base.console import as_text
    from cachesim.tools.run.run_table import run_report

    why = "undecided, which is not a pass" if good is None else "broken, or not as expected"
    return f"{data['scenario']} under {data['profile']}: {why}\n\n{as_text(run_report(data))}"


def _enabled(config: pytest.Config) -> bool:
    return bool(config.getoption("--cachesim") or config.getini("cachesim_scenarios"))


def _profiles(config: pytest.Config) -> tuple[str, ...]:
    """The profiles asked for, the command line before the ini file; none = every file's own."""
    return tuple(dict.fromkeys(config.getoption("--cachesim-profile") or config.getini("cachesim_profiles")))


def _named(config: pytest.Config) -> tuple[str, ...]:
    """The same by their names: files of rules among them are run. Raises BadInput."""
    from cachesim.engines.rule_files import is_rule_file, profile_of

    return tuple(profile_of(text) if is_rule_file(text) else text for text in _profiles(config))


def _mode(config: pytest.Config) -> str:
    return str(config.getoption("--cachesim-mode") or config.getini("cachesim_mode"))
