"""Tests of what an engine imports on first use."""

from __future__ import annotations

import subprocess
import sys

import pytest

from cachesim.engines.registry import BUILTIN

LISTED = """
import sys
from cachesim.engines.registry import ENGINES
print(*(name for engine in ENGINES.values() for name in engine.profiles))
print(*sys.modules)
"""


@pytest.fixture(scope="module")
def modules() -> set[str]:
    """Names of the modules that a list of all rule sets imports."""
    child = subprocess.run([sys.executable, "-c", LISTED], capture_output=True, text=True, check=True)
    profiles, imported = child.stdout.splitlines()
    assert all(engine.line[-1] in profiles.split() for engine in BUILTIN.values())
    return set(imported.split())


@pytest.mark.parametrize("engine", BUILTIN)
@pytest.mark.parametrize("part", ["server", "sentences", "log_lines", "memory_use", "recordings", "command_table"])
def test_a_list_of_rule_sets_imports_no_server_and_no_report(engine: str, part: str, modules: set[str]) -> None:
    assert f"cachesim.engines.{engine}" in modules and f"cachesim.engines.{engine}.{part}" not in modules
