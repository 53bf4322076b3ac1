"""pytest plugin: scenario files as items, a fixture that simulates a case, and readable comparisons of runs.

Each scenario file under each profile is an item, ``case.toml::llama_cpp@b10587``. Scenarios are collected only with
``--cachesim``, or ``cachesim_scenarios = true`` in the ini file; a file that the command line names may have any name.
An item fails if its run differs from the expectations of the file, is broken without an expectation, or is undecided.

    @pytest.mark.cachesim_builds("llama_cpp@b9518", "llama_cpp@b11549")     # the test runs once for each rule set
    def test_the_entry_is_kept(simulate):
        assert simulate("S40.A60/B70/S.A") == [{"cache_n": 0}, {"cache_n": 0}, {"cache_n": 96}]

Heavy modules are imported only once a scenario is found or simulated.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Iterator, Mapping, Protocol, Sequence

import pytest

if TYPE_CHECKING:
    from cachesim.records import JudgedRun

MODES = ("exact", "provenance")
_SIGNS = (re.compile(r"^\s*engine\s*=", re.M), re.compile(r"^\s*\[\[\s*request\s*\]\]", re.M))
"""Patterns that every scenario file contains, even an invalid file, and other TOML files do not."""


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("cachesim", "scenarios of prefix caches")
    group.addoption("--cachesim", action="store_true", 
                    help="collect scenario files: *.toml, and files of any name given as arguments")  # fmt: skip
    group.addoption("--cachesim-profile", metavar="PROFILE", action="append", default=[],
                    help="rule set or Python file of rules, in place of the files' own; repeatable")  # fmt: skip
    group.addoption("--cachesim-mode", choices=MODES, help="exact numbers (default) or provenance of tokens (faster)")
    parser.addini("cachesim_scenarios", "collect scenario files (*.toml)", type="bool", default=False)
    parser.addini("cachesim_profiles", "rule sets, as --cachesim-profile", type="linelist", default=[])
    parser.addini("cachesim_mode", "exact or provenance, as --cachesim-mode", default="exact")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "cachesim(engine, build): a scenario file or a test under one rule set; "
                            "-m \"cachesim(build='b11549')\" selects a build")  # fmt: skip
    config.addinivalue_line("markers", "cachesim_builds(name, ...): run a test that uses `simulate` once under each "
                            "rule set: a profile, an engine (its newest), a build, a date or a version")  # fmt: skip
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
    if not _enabled(parent.config) or not _is_collected(file_path, parent):
        return None
    file: pytest.Collector = ScenarioFile.from_parent(parent, path=file_path)
    return file


def _is_collected(file: Path, parent: pytest.Collector) -> bool:
    """True for a TOML file that looks like a scenario. A file that an argument names may have any name; with
    ``--cachesim``, such a TOML file is always a scenario, so that a misspelled one is an error."""
    named = parent.session.isinitpath(file)
    if named and file.suffix == ".toml" and parent.config.getoption("--cachesim"):
        return True
    return (file.suffix == ".toml" or (named and file.suffix != ".py")) and is_scenario(file)


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

        asked, known = _named(self.config), profiles().keys()
        try:
            scenario = load(self.path, known)
            own = () if asked else own_profiles(scenario, known)
        except BadInput as bad:
            raise self.CollectError(str(bad)) from None
        mine = engine_named(scenario.engine).profiles
        for profile in [name for name in asked if name in mine] if asked else own:
            yield ScenarioItem.from_parent(self, name=profile, scenario=scenario)


class ScenarioItem(pytest.Item):
    """Scenario under a profile."""

    def __init__(self, *, scenario: Any, **rest: Any) -> None:
        super().__init__(**rest)
        self.scenario = scenario
        self.add_marker(_marker(self.name))

    def runtest(self) -> None:
        from cachesim.base.errors import BadInput
        from cachesim.judging.judged_run import run_judged
        from cachesim.judging.run_data import run_data
        from cachesim.judging.verdict import outcome

        try:
            data = run_data(run_judged(self.scenario, self.name, _mode(self.config)))
        except BadInput as bad:
            pytest.fail(f"{self.scenario.id} under {self.name}: {bad}", pytrace=False)
        good = outcome(data, as_expected=True)
        if not good:
            pytest.fail(_text(data, good), pytrace=False)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        return self.path, None, f"{self.scenario.id} {self.name}"


def _text(data: dict[str, Any], good: bool | None) -> str:
    """Return a line on the fault, which pytest's summary prints after the case and the rule set, and the table of the
    run."""
    from cachesim.base.console import as_text
    from cachesim.judging.verdict_text import answers_text
    from cachesim.tools.run.run_table import mismatch_text, run_report

    if data["mismatches"]:
        fault = mismatch_text(data["mismatches"][0])
    else:
        fault = answers_text(data) if good is False else f"undecided, which is not a pass: {answers_text(data)}"
    return f"{fault}\n\n{as_text(run_report(data))}"


# --- Tests in Python ------------------------------------------------------------------------------------------

class Simulate(Protocol):
    """Type of the fixture ``simulate``."""

    def __call__(
        self, case: str, profile: str | None = None, *, model: str | None = None,
        server: Mapping[str, Any] | str | None = None, mode: str | None = None, check: bool = False,
    ) -> JudgedRun: ...  # fmt: skip


@pytest.fixture
def simulate(request: pytest.FixtureRequest, cachesim_profile: str | None) -> Simulate:
    """Function that runs and judges a case: ``simulate("S40.A60/S.A", profile="llama_cpp@b11549")``.

    It takes the arguments of ``cachesim.judge`` and returns its result. Defaults: the rule set of the test
    (``cachesim_builds``, ``--cachesim-profile``), the mode of ``--cachesim-mode``. An argument that cannot be used
    ends the test with one line; with ``check=True``, so does a run that is not correct.
    """
    mode = _mode(request.config)

    def judged(
        case: str, profile: str | None = None, *, model: str | None = None,
        server: Mapping[str, Any] | str | None = None, mode: str | None = mode, check: bool = False,
    ) -> JudgedRun:  # fmt: skip
        __tracebackhide__ = True
        from cachesim.api import judge

        return judge(case, profile or cachesim_profile, mode=mode or MODES[0], model=model, server=server, check=check)

    return judged


@pytest.fixture
def cachesim_profile() -> str | None:
    """Name of the rule set that the test runs under, None = that of the case."""
    return None


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test with ``simulate`` once under each rule set: those of its marker, else those of the command line or the
    ini file."""
    if "cachesim_profile" not in metafunc.fixturenames:
        return
    marker = metafunc.definition.get_closest_marker("cachesim_builds")
    names = _resolved(marker.args) if marker is not None else _named(metafunc.config)
    if names:
        metafunc.parametrize("cachesim_profile", [pytest.param(name, marks=_marker(name), id=name) for name in names])


def pytest_assertrepr_compare(op: str, left: object, right: object) -> list[str] | None:
    """Explain ``assert run == expected``: the case and the first difference in a line, then all differences."""
    records = sys.modules.get("cachesim.records")
    if op != "==" or records is None or not isinstance(left, records.Tabular):
        return None
    found = left.differences(right)
    if not found:
        return None
    return [f"{left.title}: {found[0]}", *(str(one) for one in found[1:])]


def _marker(profile: str) -> pytest.MarkDecorator:
    """Return the mark of a test under a rule set."""
    engine, _, build = profile.partition("@")
    return pytest.mark.cachesim(engine=engine, build=build)


def _resolved(names: Sequence[str]) -> tuple[str, ...]:
    """Return rule sets by their profile names. Raise a usage error for an unknown one."""
    from cachesim.api import rules
    from cachesim.base.errors import BadInput

    try:
        return tuple(rules(name).name for name in names)
    except BadInput as bad:
        raise pytest.UsageError(f"cachesim_builds: {bad}") from None


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
