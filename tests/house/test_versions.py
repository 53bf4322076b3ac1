"""User-visible output does not depend on Hypothesis, whose versions draw and shrink differently."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib

import pytest

from tests.house import checks

WITHOUT = """
import sys
sys.modules["hypothesis"] = None            # an import of it fails
from cachesim.cli.main import main
from tests.conformance.naive import NaiveCache
from cachesim.tools.conformance import conform
print(conform(NaiveCache, max_examples=20, check=False))
main(["fuzz", "-p", "ik_llama@1889-base", "--model", "GA", "--property", "warm-equals-cold", "--examples", "10",
      "--set", "parallel=1"])
"""


@pytest.mark.long
def test_the_kit_and_the_fuzzer_work_without_hypothesis():
    done = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True, cwd=checks.ROOT, check=False)
    assert done.stderr == "next: cachesim why A2/A 1 -p ik_llama@1889-base --model GA\n"
    assert "repeat      FAILED" in done.stdout and "A2/A" in done.stdout and "1 distinct failure" in done.stdout


IMPORTED_AS = {"markdown-it-py": "markdown_it", "pyzmq": "zmq"}
"""Packages whose modules have other names."""


def roots(module):
    """The first names of all imports, wherever in the file."""
    for node in module.of(ast.Import):
        yield from (alias.name.partition(".")[0] for alias in node.names)
    for node in module.of(ast.ImportFrom):
        yield node.module.partition(".")[0]


def test_imports_match_the_requirements():
    """Unneeded libraries are not required, and needed libraries are (pytest only by the plugin)."""
    with (checks.ROOT / "pyproject.toml").open("rb") as stream:
        project = tomllib.load(stream)["project"]
    packages = {re.match(r"[\w.-]+", one)[0] for one in project["dependencies"]}
    required = {IMPORTED_AS.get(name, name) for name in packages}
    packages = {re.match(r"[\w.-]+", one)[0] for some in project["optional-dependencies"].values() for one in some}
    extras = {IMPORTED_AS.get(name, name) for name in packages}
    outside = {name for module in checks.modules() for name in roots(module)}
    outside -= {*sys.stdlib_module_names, "cachesim"}
    assert required <= outside <= required | extras
    users = {module.name for module in checks.modules() if "hypothesis" in roots(module)}
    assert users and all(name.partition(".")[0] == "strategies" for name in users)
