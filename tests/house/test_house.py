"""Every file of the package passes the checks of the architecture."""

from __future__ import annotations

import inspect
import sys
import tomllib
from graphlib import TopologicalSorter

import pytest

from cachesim.engines.registry import BUILTIN
from tests.house import checks


@pytest.mark.parametrize("check", checks.CHECKS, ids=lambda check: check.__name__)
def test_rule_of_the_house(check):
    assert [finding for module in checks.modules() for finding in check(module)] == []


def test_no_modules_need_each_other():
    assert checks.circles(checks.modules()) == []


def test_every_room_has_a_level():
    assert {module.parts[0] for module in checks.modules()} <= set(checks.LEVEL)


def test_tools_need_few_others_and_none_that_needs_them():
    assert len(checks.TOOL_ARROWS) <= 11 and all(reason.strip() for reason in checks.TOOL_ARROWS.values())
    needs: dict[str, set[str]] = {}
    for tool, other in checks.TOOL_ARROWS:
        needs.setdefault(tool, set()).add(other)
    TopologicalSorter(needs).prepare()           # raises where some need each other


def test_listed_arrows_of_tools_are_used():
    used = {(module.parts[1], to[1]) for module in checks.modules() for to in checks.imported(module)
            if module.parts[0] == to[0] == "tools" and len(module.parts) > 1 < len(to)}  # fmt: skip
    assert used >= set(checks.TOOL_ARROWS)


def test_no_module_is_called_like_one_of_the_standard_library():
    folders = {"pages.site"}                     # run with -m, by its whole name
    named = {module.name for module in checks.modules() if module.parts[-1] in sys.stdlib_module_names}
    assert named == folders


def test_no_public_class_has_the_name_of_another():
    assert checks.shared_class_names(checks.modules()) == {}


def test_unit_tests_lie_where_what_they_test_lies():
    unit = checks.ROOT / "tests" / "unit"
    folders = {file.parent.relative_to(unit) for file in unit.rglob("test_*.py")}
    assert [str(folder) for folder in folders if not (checks.PACKAGE / folder).is_dir()] == []


def test_every_exception_has_a_reason():
    tables = (checks.MAY_LOOK_OUTSIDE, checks.MAY_KNOW_AN_ENGINE, checks.MAY_READ_FILES, checks.FEWER_USERS,
              checks.GIVEN_THE_SERVER)
    assert all(reason.strip() for table in tables for reason in table.values())
    assert all(reason.strip() for _, reason in checks.LONGER_CHAINS.values())


def test_modules_that_may_read_files_do(monkeypatch):
    listed = set(checks.MAY_READ_FILES)
    monkeypatch.setattr(checks, "MAY_READ_FILES", {})
    assert {module.name for module in checks.modules() if checks.unbounded_reads(module)} == listed


def test_a_module_that_engines_share_has_two_users():
    users = checks.users_of_shared(checks.modules())
    fewer = {name for name, engines in users.items() if len(engines) < checks.USERS_OF_SHARED}
    assert fewer == set(checks.FEWER_USERS)


def server_class(name):
    engine = BUILTIN[name]
    return type(engine.start(engine.line[-1], engine.manual.drawn[0], {}, "none"))


@pytest.mark.parametrize("name", BUILTIN)
def test_a_server_inherits_from_few_classes(name):
    found = len(checks.chain(server_class(name), name))
    most, _ = checks.LONGER_CHAINS.get(name, (checks.CHAIN, ""))
    assert found == most if name in checks.LONGER_CHAINS else found <= most


@pytest.mark.parametrize("name", BUILTIN)
def test_no_part_is_given_the_server(name):
    server = server_class(name)
    classes = [server, *checks.chain(server, name)]
    methods = {key for one in classes for key, value in vars(one).items() if inspect.isfunction(value)}
    found = {f"{one.__module__.removeprefix('cachesim.')}: {call}" for one in classes
             for call in checks.given_the_server(inspect.getsource(one), methods)}  # fmt: skip
    assert found == {key for key in checks.GIVEN_THE_SERVER if key.startswith(f"engines.{name}.")}


def test_no_option_of_a_server_is_named_above_the_engines():
    from cachesim.engines.registry import BUILTIN

    options = {flag.name for engine in BUILTIN.values() for flag in engine.manual.flags}
    assert [finding for module in checks.modules() for finding in checks.names_options(module, options)] == []


def test_the_wheel_holds_every_package():
    """A folder with Python files that is missing from pyproject.toml would be missing from the wheel."""
    with (checks.ROOT / "pyproject.toml").open("rb") as stream:
        listed = set(tomllib.load(stream)["tool"]["setuptools"]["packages"])
    folders = {path.parent for path in checks.PACKAGE.rglob("*.py")}
    present = {".".join(folder.relative_to(checks.ROOT).parts) for folder in folders}
    assert listed == (present - checks.NOT_IN_THE_WHEEL.keys()) | {"cachesim._corpus"}
