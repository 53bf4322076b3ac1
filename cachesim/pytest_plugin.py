"""pytest plugin that runs scenario files: each file under each profile is an item, ``case.toml::llama_cpp@b10587``.

Scenarios are collected only with ``--cachesim``, or ``cachesim_scenarios = true`` in the ini file. An item fails if its
run differs from the expectations of the file, is broken without an expectation, or is undecided. Heavy modules are
imported only once a scenario is found.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Iterator

import pytest

MODES = ("exact", "provenance")
_SIGNS = (re.compile(r"^\s*engine\s*=", re.M), re.compile(r"^\s*\[\[\s*request\s*\]\]", re.M))
"""Patterns that every scenario file contains, even an invalid file, and other TOML files do not."""


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("cachesim", "scenarios of prefix caches")
    group.addoption("--cachesim", action="store_true", help="collect scenario files (*.toml)")
    group.addoption("--cachesim-profile", metavar="PROFILE", action="append", default=[],
                    help="rule set or Python file of rules, in place of the files' own; repeatable")  # fmt: skip
    group.addoption("--cachesim-mode", choices=MODES, help="exact numbers (default) or provenance of tokens (faster)")
    parser.addini("cachesim_scenarios", "collect scenario files (*.toml)", type="bool", default=False)
    parser.addini("cachesim_profiles", "rule sets, as --cachesim-profile", type="linelist", default=[])
    parser.addini("cachesim_mode", "exact or provenance, as --cachesim-mode", default="exact")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "cachesim: a scenario file under one profile")
    if _mode(config) not in MODES:
        raise pytest.UsageError(f"cachesim_mode: expected one of {', '.join(MODES)}, found {_mode(config)!r}")


def pytest_collection(session: pytest.Session) -> None:
    """Refuse an unknown profile before anything runs."""
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
    """True if the file looks like a scenario, valid or not."""
    from cachesim.base.errors import BadInput
    from cachesim.base.limits import SCENARIO_BYTES
    from cachesim.base.untrusted_files import read_text

    try:
        text = read_text(file, SCENARIO_BYTES)
    except BadInput:
        return False
    return all(sign.search(text) for sign in _SIGNS)


class ScenarioFile(pytest.File):
    """Scenario file; a file that cannot be read is a collection error."""

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


class ScenarioFailed(Exception):
    """A run that is not good; its text is the report."""


class ScenarioItem(pytest.Item):
    """Scenario under a profile."""

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
            raise ScenarioFailed(str(bad)) from None
        good = outcome(data, as_expected=True)
        if not good:
            raise ScenarioFailed(_text(data, good))

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        if isinstance(excinfo.value, ScenarioFailed):
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
    """Return the requested profiles, the command line before the ini file; () = those of every file."""
    return tuple(dict.fromkeys(config.getoption("--cachesim-profile") or config.getini("cachesim_profiles")))


def _named(config: pytest.Config) -> tuple[str, ...]:
    """Return the requested profiles by name; files of rules among them are executed. Raise BadInput."""
    from cachesim.engines.rule_files import is_rule_file, profile_of

    return tuple(profile_of(text) if is_rule_file(text) else text for text in _profiles(config))


def _mode(config: pytest.Config) -> str:
    return str(config.getoption("--cachesim-mode") or config.getini("cachesim_mode"))
