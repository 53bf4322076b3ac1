"""Tests that the --json output of every command matches its schema, and that every key is described.

For a new key: add a sentence to words.toml, then `python -m tests.schemas` (a minute) writes the schemas anew.
"""

from __future__ import annotations

import json
import tomllib

import pytest

from cachesim.cli.command_list import COMMANDS
from tests.house.checks import PACKAGE, ROOT
from tests.schemas.__main__ import OPEN, SHOWN, file_of, printed, written
from tests.schemas.form import described, form, merged, wrong
from tests.schemas.samples import SAMPLES

FILES = {file.name.removesuffix(".schema.json"): json.loads(file.read_text())
         for file in sorted(PACKAGE.rglob("*.schema.json"))}  # fmt: skip
RAISED = {"advise": 4, "advise-agents": 2, "check": 2, "diff": 3, "import": 6, "run": 3, "why": 3}
"""Schema numbers of commands whose JSON changed."""


@pytest.mark.long
@pytest.mark.parametrize(("name", "line"), [(name, line) for name, lines in SAMPLES.items() for line in lines])
def test_a_command_prints_what_its_schema_says(monkeypatch, name, line):
    monkeypatch.chdir(ROOT)
    data = printed(line)
    assert data["schema"] == RAISED.get(name, 1)
    assert list(wrong(data, FILES[name])) == []
    if name != "error":
        assert "error" not in data or name in OPEN
        assert list(wrong(data, FILES["error"])) != []


def test_every_command_has_a_schema_and_every_schema_a_command():
    families = {name.partition("-")[0] for name in FILES}
    assert families == {*COMMANDS, "error"} and set(FILES) == set(SAMPLES)


@pytest.mark.parametrize("name", FILES)
def test_a_schema_says_what_every_key_means(name):
    schema = FILES[name]
    assert schema["$schema"].endswith("2020-12/schema") and schema["description"].endswith(".")
    assert [path for path, words in described(schema) if not words] == []
    assert written(name, schema) == schema, "python -m tests.schemas"


@pytest.mark.parametrize("name", SHOWN)
def test_what_needs_a_real_server_is_as_it_is_shown(name):
    assert list(wrong(SHOWN[name], FILES[name])) == []


@pytest.mark.parametrize(("value", "second", "told"), [
    ({"a": 1}, {}, [" has no a"]), ({"a": 1}, {"a": "x"}, [".a is string, not integer"]),
    ({"a": [1, None]}, {"a": [2, 2.5]}, [".a[1] is number, not integer or null"]), ({"a": 1}, {"a": 2, "b": 3}, []),
    ([{"a": 1}, {"b": 2}], [{}], []),
    ({"numbers": {"x": 1}}, {"numbers": {"y": "z"}}, [".numbers.y is string, not integer"]),
    ({"a": 1.5}, {"a": 2}, []), (True, 1, ["the value is integer, not boolean"]),
])  # fmt: skip
def test_the_form_of_a_value(value, second, told):
    schema = form(value)
    assert list(wrong(value, schema)) == []
    assert list(wrong(second, schema)) == told
    assert list(wrong(second, merged([schema, form(second)]))) == []


def test_the_schemas_are_in_the_package():
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]
    for name in FILES:
        folder = ".".join(file_of(name).parent.relative_to(ROOT).parts)
        assert file_of(name).exists() and "*.schema.json" in listed[folder]
